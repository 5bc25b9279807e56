package boundary_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/boundary"
	"github.com/docket-audit/docket/internal/meter"
)

// caseProvider is whom the cases' price rows belong to: a name that no built-in
// row has, so that a case's own row is the only one.
const caseProvider = "case"

// priceFile is a case's one row as a price file; "" where it has none.
func priceFile(c boundary.GoldenCase) string {
	if c.PriceModel == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[[row]]\nprovider = %q\nmodel = %q\nfrom = 2026-01-01\nsource = \"the case\"\nchecked = 2026-11-30\n", caseProvider, c.PriceModel)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "aliases = [\"%s\"]\n", strings.Join(c.Aliases, `", "`))
	}
	fmt.Fprintf(&b, "prices = %s\n", boundary.Inline(c.Price))
	if c.Long != nil {
		fmt.Fprintf(&b, "long = [{tokens = %d, rule = %q, prices = %s}]\n", c.Threshold.Tokens, c.Threshold.Rule, boundary.Inline(c.Long))
	}
	if c.Factors != nil {
		fmt.Fprintf(&b, "factors = %s\n", boundary.Inline(c.Factors))
	}
	for tier, prices := range c.Tiers {
		fmt.Fprintf(&b, "tiers.%s.prices = %s\n", tier, boundary.Inline(prices))
	}
	return b.String()
}

// randomCuts writes body in pieces of random sizes, each flushed.
func randomCuts(w http.ResponseWriter, body []byte, rnd *rand.Rand) {
	for len(body) > 0 {
		n := 1 + rnd.IntN(min(len(body), 96))
		if rnd.IntN(4) == 0 {
			n = len(body)
		}
		_, _ = w.Write(body[:n])
		_ = http.NewResponseController(w).Flush()
		body = body[n:]
	}
}

// TestGoldenOverHTTP serves every worked case of the metered endpoints through
// a real boundary into a ledger on disk: what the client gets, and what the
// ledger says of it.
func TestGoldenOverHTTP(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, c := range boundary.GoldenCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			up := provider(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for k, v := range c.Headers {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.Status)
				_ = http.NewResponseController(w).Flush()
				randomCuts(w, []byte(c.Body), rnd)
				if c.End == "client" {
					<-r.Context().Done()
				}
				if c.End == "cut" {
					panic(http.ErrAbortHandler)
				}
			})
			dialect := "openai"
			if c.Provider == "anthropic" {
				dialect = "anthropic"
			}
			b := newBench(t, setup{
				prices:    priceFile(c),
				upstreams: map[string]boundary.Upstream{c.Provider: {Dialect: dialect, URL: up.URL, Provider: caseProvider}},
			})
			got := serveCase(t, b, c)
			one := b.only()
			if err := agrees(c, one, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// serveCase calls as the case's client and gives what it got.
func serveCase(t *testing.T, b *bench, c boundary.GoldenCase) []byte {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url(c.Provider, c.Endpoint), bytes.NewReader(c.Request))
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != c.Status {
		t.Errorf("status %d, want %d", res.StatusCode, c.Status)
	}
	for k, v := range c.Headers {
		if got := res.Header.Get(k); got != v {
			t.Errorf("header %s is %q, want %q", k, got, v)
		}
	}
	if c.End != "client" {
		got, err := io.ReadAll(res.Body)
		if (err != nil) != (c.End == "cut") {
			t.Fatalf("body ended with %v", err)
		}
		return got
	}
	want := []byte(c.Body)
	if _, added := meter.AddIncludeUsage(c.Request); added && c.Endpoint == "/v1/chat/completions" {
		want = boundary.FilterStream(want)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(res.Body, got); err != nil {
		t.Fatal(err)
	}
	cancel()
	return got
}

// agrees compares one call of the ledger, and what its client got, with a case.
func agrees(c boundary.GoldenCase, one call, got []byte) error {
	if one.outcome.Type != chain.TypeResponse {
		return fmt.Errorf("outcome %s", one.outcome.Type)
	}
	m := one.outcome.Meter
	cost := "unpriced"
	if m.Cost != nil {
		cost = m.Cost.String()
	}
	want := "unpriced"
	if c.Want.Cost != nil {
		want = *c.Want.Cost
	}
	usage := maps.Clone(c.Want.Usage)
	maps.DeleteFunc(usage, func(_ string, n uint64) bool { return n == 0 })
	ended := map[string]string{"": "complete", "client": "client", "cut": "cut"}[c.End]
	added := one.request.content["include_usage_added"] == true
	client := []byte(c.Body)
	if added {
		client = boundary.FilterStream(client)
	}
	switch {
	case m.Model != c.Want.Model:
		return fmt.Errorf("model %s, want %s", m.Model, c.Want.Model)
	case m.Source != c.Want.Source:
		return fmt.Errorf("source %s, want %s", m.Source, c.Want.Source)
	case !maps.Equal(m.Usage, usage):
		return fmt.Errorf("usage %v, want %v", m.Usage, usage)
	case cost != want:
		return fmt.Errorf("cost %s, want %s", cost, want)
	case one.outcome.content["ended"] != ended:
		return fmt.Errorf("ended %v, want %s", one.outcome.content["ended"], ended)
	case !bytes.Equal(got, client):
		return fmt.Errorf("the client got %q, want %q", got, client)
	}
	if err := one.request.commits("request", c.Request); err != nil {
		return err
	}
	return one.outcome.commits("response", []byte(c.Body))
}
