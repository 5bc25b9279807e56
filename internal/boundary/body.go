package boundary

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/docket-audit/docket/internal/meter"
)

var (
	errBodyTooLarge = errors.New("request body is over the limit")
	errBodyBroken   = errors.New("request body did not arrive whole")
)

// readBody reads a request's body whole: the record that is written before the
// call leaves commits to all of it. The server answers an Expect:
// 100-continue at the first read, so everything that can be refused without
// the body has to be refused before. A client gets wait for each read.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, wait time.Duration) ([]byte, error) {
	rc := http.NewResponseController(w)
	in := http.MaxBytesReader(w, r.Body, limit)
	buf := bytes.NewBuffer(make([]byte, 0, max(min(r.ContentLength, firstRead), 0)+bytes.MinRead))
	_, err := buf.ReadFrom(readerFunc(func(p []byte) (int, error) {
		_ = rc.SetReadDeadline(time.Now().Add(wait)) // not every writer has deadlines
		return in.Read(p)
	}))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, errBodyTooLarge
	}
	if err != nil {
		return nil, errBodyBroken // its text could repeat what the client sent
	}
	bodyIsRead(w)
	return buf.Bytes(), nil
}

// bodyIsUnread has an answer that is given now end the connection: the server
// would otherwise wait for the rest of the body, from a client that may never
// send it, before it sends the answer. What it still reads after it is bounded
// by wait.
func bodyIsUnread(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait))
}

// bodyIsRead undoes bodyIsUnread. A deadline left behind would end the server's
// watch for a client that leaves.
func bodyIsRead(w http.ResponseWriter) {
	w.Header().Del("Connection")
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// plainBody is the JSON of a request body for the meter: the body itself, or
// what stands in it where the client sent it compressed. nil where that can't
// be told; the call is forwarded all the same and metered without it.
func plainBody(h http.Header, body []byte) []byte {
	list, unknown := codings(h)
	if unknown != "" {
		return nil
	}
	if len(list) == 0 {
		return body
	}
	var plain []byte
	if err := decode(list, body, maxDecoded, func(p []byte) { plain = append(plain, p...) }); err != nil {
		return nil
	}
	return plain
}

// askForUsage gives the body that goes upstream: the client's own, or, for a
// chat completion that streams and does not ask for its usage, the client's
// with that added.
func askForUsage(c meter.Call, h http.Header, body []byte) (out []byte, added bool) {
	if meter.EndpointOf(c) != meter.Chat || h.Get("Content-Encoding") != "" {
		return body, false
	}
	if edited, ok := meter.AddIncludeUsage(body); ok {
		return edited, true
	}
	return body, false
}

// budget bounds the memory of all request bodies in flight. Who does not fit
// waits; the first to come is the first to go in, so a large body is not
// starved by small ones.
type budget struct {
	mu    sync.Mutex // guards all below
	free  int64
	queue []*waiter
}

type waiter struct {
	need  int64
	ready chan struct{}
}

func newBudget(bytes int64) *budget { return &budget{free: bytes} }

// take waits until n bytes are free and takes them, or until ctx ends.
func (b *budget) take(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.queue) == 0 && n <= b.free {
		b.free -= n
		b.mu.Unlock()
		return nil
	}
	w := &waiter{need: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.queue {
		if other == w {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.admit() // those behind may fit now
			return context.Cause(ctx)
		}
	}
	b.free += n // it was admitted meanwhile
	b.admit()
	return context.Cause(ctx)
}

// give returns n bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.admit()
}

func (b *budget) admit() {
	for len(b.queue) > 0 && b.queue[0].need <= b.free {
		w := b.queue[0]
		b.queue = b.queue[1:]
		b.free -= w.need
		close(w.ready)
	}
}
