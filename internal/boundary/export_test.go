package boundary

import (
	"context"
	"crypto/x509"
	"net/http"

	"github.com/docket-audit/docket/internal/meter"
)

// GoldenCase is a worked case of testdata/billing.
type GoldenCase = goldenCase

var (
	GoldenCases = goldenCases
	Inline      = inline
	MediaOf     = mediaOf
)

// SetTransport makes h send calls by rt.
func (h *Handler) SetTransport(rt http.RoundTripper) { h.transport = rt }

// Transport is what h sends calls by.
func (h *Handler) Transport() http.RoundTripper { return h.transport }

// ReadAnswer meters an answer as the boundary does, without one.
func ReadAnswer(c meter.Call, status int, h http.Header, body []byte) meter.Reading {
	o := newObserver(c, status, h)
	_, _ = o.Write(body)
	return o.Finish()
}

// FilterStream is what a client gets of a stream whose usage docket asked for.
func FilterStream(body []byte) []byte {
	f := newUsageFilter()
	out := append([]byte(nil), f.write(body)...)
	return append(out, f.finish()...)
}

// Budget is the budget of request bodies.
type Budget = budget

var NewBudget = newBudget

func (b *budget) Take(ctx context.Context, n int64) error { return b.take(ctx, n) }
func (b *budget) Give(n int64)                            { b.give(n) }
func (b *budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}
func (b *budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// BudgetOf is h's budget of request bodies.
func BudgetOf(h *Handler) *Budget { return h.budget }

// Trust makes h's own transport take the certificate of a test's provider.
func (h *Handler) Trust(pool *x509.CertPool) {
	h.transport.(*transports).https.TLSClientConfig.RootCAs = pool
}
