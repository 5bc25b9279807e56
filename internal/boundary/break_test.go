package boundary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/boundary"
	"github.com/docket-audit/docket/internal/meter"
)

// recorded is a stream as a provider sent it, with the call that it answers.
type recorded struct {
	name, upstream, path string
	request, answer      []byte
	filtered             bool // usage is asked for on the client's behalf
}

// recordedStreams are three streams of the worked cases: one of messages, one
// of a chat completion whose client asked for usage, and one whose client did
// not.
func recordedStreams(t testing.TB) []recorded {
	t.Helper()
	var list []recorded
	for _, c := range boundary.GoldenCases(t) {
		switch c.ID {
		case "anthropic-delta-omits-input":
			list = append(list, recorded{c.ID, "anthropic", "/v1/messages", c.Request, []byte(c.Body), false})
		case "openai-stream-final-chunk":
			asked, ok := meter.AddIncludeUsage(c.Request)
			if !ok {
				asked = c.Request
			}
			list = append(list,
				recorded{c.ID, "openai", "/v1/chat/completions", asked, []byte(c.Body), false},
				recorded{c.ID + " filtered", "openai", "/v1/chat/completions", []byte(chatStream), []byte(c.Body), true})
		}
	}
	if len(list) != 3 {
		t.Fatalf("%d streams, want 3", len(list))
	}
	return list
}

func (s recorded) header() http.Header {
	return http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
}

// reading is what the meter has to make of the answer's first n bytes.
func (s recorded) reading(n int) meter.Reading {
	return boundary.ReadAnswer(meter.Call{Dialect: s.upstream, Method: "POST", Path: s.path, Body: s.request}, 200, s.header(), s.answer[:n])
}

// matches compares a call of the ledger with a break after n bytes.
func (s recorded) matches(c call, ended string, n int) error {
	if c.outcome.Type != chain.TypeResponse {
		return fmt.Errorf("outcome %s %v", c.outcome.Type, c.outcome.content)
	}
	if got := c.outcome.content["ended"]; got != ended {
		return fmt.Errorf("ended %v, want %s", got, ended)
	}
	if err := errors.Join(c.request.commits("request", s.request), c.outcome.commits("response", s.answer[:n])); err != nil {
		return err
	}
	want, m := s.reading(n), c.outcome.Meter
	if !maps.Equal(m.Usage, want.Usage) || m.Source != want.Source {
		return fmt.Errorf("metered %v %s, want %v %s", m.Usage, m.Source, want.Usage, want.Source)
	}
	return nil
}

// memory is a client and a provider in memory. The provider's body ends with
// end after stop bytes, in reads of one byte; the client leaves when it has got
// leave bytes.
type memory struct {
	recorded
	stop  int
	end   error
	leave int  // -1: it stays
	alone bool // no net/http server is in front

	cancel context.CancelFunc
	header http.Header
	got    bytes.Buffer
	gone   bool
	at     int
}

func (m *memory) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: 200, Header: m.recorded.header(), ContentLength: -1, Request: r,
		Body: io.NopCloser(readerFunc(func(p []byte) (int, error) {
			switch {
			case r.Context().Err() != nil:
				return 0, r.Context().Err()
			case m.at == m.stop:
				return 0, m.end
			}
			n := copy(p[:1], m.answer[m.at:m.stop])
			m.at += n
			return n, nil
		})),
	}, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Header, WriteHeader, Write and FlushError are the client's side.
func (m *memory) Header() http.Header { return m.header }
func (m *memory) WriteHeader(int)     {}
func (m *memory) FlushError() error   { return nil }
func (m *memory) Write(p []byte) (int, error) {
	if m.gone {
		return 0, errors.New("broken pipe")
	}
	m.got.Write(p)
	if m.leave >= 0 && m.got.Len() >= m.leave {
		m.gone = true
		if !m.alone { // net/http notices
			m.cancel()
		}
	}
	return len(p), nil
}

// serve runs the exchange and says whether the client saw the answer break off.
func (m *memory) serve(h http.Handler, url string) (broke bool) {
	// httputil lets a body that breaks off end the connection under a server.
	ctx := context.Background()
	if !m.alone {
		ctx = context.WithValue(ctx, http.ServerContextKey, &http.Server{})
	}
	ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	m.header = http.Header{}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.request))
	if err != nil {
		panic(err)
	}
	r.URL.Scheme, r.URL.Host = "", "" // as a server hands requests over
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			broke = true
		default:
			panic(p)
		}
	}()
	h.ServeHTTP(m, r)
	return false
}

// router gives each request of a shared handler its own provider.
type router struct{ of sync.Map }

func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	m, _ := r.of.Load(req.Header.Get("X-Case"))
	return m.(*memory).RoundTrip(req)
}

// TestBreakAnywhere breaks three recorded streams after every byte, by the
// provider and by the client: one outcome each, of what came until then.
func TestBreakAnywhere(t *testing.T) {
	b := newBench(t, setup{})
	routes := &router{}
	b.handler.SetTransport(routes)
	type trial struct {
		*memory
		ended string
		n     int
	}
	trials := map[string]trial{}
	for _, s := range recordedStreams(t) {
		for n := 0; n <= len(s.answer); n += boundary.SweepStride {
			trials["cut "+s.name+strconv.Itoa(n)] = trial{&memory{recorded: s, stop: n, end: io.ErrUnexpectedEOF, leave: -1}, "cut", n}
			if n > 0 && !s.filtered {
				trials["client "+s.name+strconv.Itoa(n)] = trial{&memory{recorded: s, stop: len(s.answer), end: io.EOF, leave: n}, "client", n}
			}
		}
		trials["whole "+s.name] = trial{&memory{recorded: s, stop: len(s.answer), end: io.EOF, leave: -1}, "complete", len(s.answer)}
	}
	work := make(chan string)
	var wg sync.WaitGroup
	for range 512 {
		wg.Go(func() {
			for name := range work {
				m := trials[name].memory
				routes.of.Store(name, m)
				broke := m.serve(withCase(b.handler, name), b.url(m.upstream, m.path))
				if broke != (trials[name].ended != "complete") {
					t.Errorf("%s: the client saw the answer break off: %t", name, broke)
				}
			}
		})
	}
	for name := range trials {
		work <- name
	}
	close(work)
	wg.Wait()
	calls := b.calls()
	if len(calls) != len(trials) {
		t.Fatalf("%d calls recorded, want %d", len(calls), len(trials))
	}
	checkBreaks(t, calls, func(yield func(recorded, string, int)) {
		for _, x := range trials {
			yield(x.recorded, x.ended, x.n)
		}
	})
	for name, x := range trials {
		want := x.answer[:x.n]
		if x.filtered {
			want = boundary.FilterStream(want)
		}
		if x.ended != "client" && !bytes.Equal(x.got.Bytes(), want) && !(x.filtered && x.ended == "cut" && bytes.HasPrefix(want, x.got.Bytes())) {
			t.Errorf("%s: the client got %q, want %q", name, x.got.Bytes(), want)
		}
	}
}

// withCase marks requests so that router knows them.
func withCase(h http.Handler, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Case", name)
		h.ServeHTTP(w, r)
	})
}

// checkBreaks finds each expected break among the calls, by request, length
// and ending, each once.
func checkBreaks(t *testing.T, calls []call, each func(func(recorded, string, int))) {
	t.Helper()
	type key struct {
		request, response uint64
		ended             any
	}
	left := map[key][]call{}
	for _, c := range calls {
		k := key{c.request.Parts["request"].Bytes, c.outcome.Parts["response"].Bytes, c.outcome.content["ended"]}
		left[k] = append(left[k], c)
	}
	each(func(s recorded, ended string, n int) {
		k := key{uint64(len(s.request)), uint64(n), ended}
		if len(left[k]) == 0 {
			t.Errorf("%s: no call ended %s after %d bytes", s.name, ended, n)
			return
		}
		c := left[k][0]
		left[k] = left[k][1:]
		if err := s.matches(c, ended, n); err != nil {
			t.Errorf("%s, %s after %d bytes: %v", s.name, ended, n, err)
		}
	})
}

// TestBreakFiltered has the client of a filtered stream leave after every byte
// that it gets: what came from the provider until then is what is metered.
func TestBreakFiltered(t *testing.T) {
	b := newBench(t, setup{})
	routes := &router{}
	b.handler.SetTransport(routes)
	s := recordedStreams(t)[2]
	whole := boundary.FilterStream(s.answer)
	var wg sync.WaitGroup
	for n := 1; n <= len(whole); n++ {
		m := &memory{recorded: s, stop: len(s.answer), end: io.EOF, leave: n}
		name := strconv.Itoa(n)
		routes.of.Store(name, m)
		wg.Go(func() {
			if broke := m.serve(withCase(b.handler, name), b.url(s.upstream, s.path)); !broke {
				t.Errorf("left after %d bytes: no break", n)
			}
		})
	}
	wg.Wait()
	calls := b.calls()
	if len(calls) != len(whole) {
		t.Fatalf("%d calls, want %d", len(calls), len(whole))
	}
	for _, c := range calls {
		if err := s.matches(c, "client", int(c.outcome.Parts["response"].Bytes)); err != nil {
			t.Error(err)
		}
	}
}

// TestBreakWithoutServer has the handler end a cut answer under a server that
// httputil does not know, too.
func TestBreakWithoutServer(t *testing.T) {
	b := newBench(t, setup{})
	s := recordedStreams(t)[0]
	m := &memory{recorded: s, stop: 100, end: io.ErrUnexpectedEOF, leave: -1, alone: true}
	b.handler.SetTransport(m)
	if broke := m.serve(b.handler, b.url(s.upstream, s.path)); !broke {
		t.Error("the client took the cut answer for the whole")
	}
	if err := s.matches(b.only(), "cut", 100); err != nil {
		t.Error(err)
	}

	// A write that fails is all that tells of a client that left.
	m = &memory{recorded: s, stop: len(s.answer), end: io.EOF, leave: 100, alone: true}
	b.handler.SetTransport(m)
	if broke := m.serve(b.handler, b.url(s.upstream, s.path)); !broke {
		t.Error("the client that left took it for the whole")
	}
	if err := s.matches(b.settled(2)[1], "client", 101); err != nil {
		t.Error(err)
	}
}

// TestBreakOnTheWire breaks the streams over real connections: the provider by
// a reset after n bytes, the client by closing after it got n.
func TestBreakOnTheWire(t *testing.T) {
	for _, s := range recordedStreams(t) {
		for _, by := range []string{"cut", "client"} {
			t.Run(s.name+" "+by, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, setup{upstreams: upstreams(wireProvider(t, s, by == "cut"))})
				var ns []int
				for n := 1; n < len(s.answer); n += wireStep {
					ns = append(ns, n)
					breakOnTheWire(t, b, s, by, n)
				}
				calls := b.settled(len(ns))
				if len(calls) != len(ns) {
					t.Fatalf("%d calls, want %d", len(calls), len(ns))
				}
				for i, c := range calls {
					// What was on its way when the connection broke may be lost
					// at either end; what the ledger says has to be what came.
					n := int(c.outcome.Parts["response"].Bytes)
					if by == "cut" && n != ns[i] || n > len(s.answer) {
						t.Errorf("%d bytes recorded of %d", n, ns[i])
						continue
					}
					if err := s.matches(c, by, n); err != nil {
						t.Errorf("after %d bytes: %v", ns[i], err)
					}
				}
			})
		}
	}
}

// wireProvider answers with the first bytes of a stream, as many as the header
// X-Break says, chunked and one write each; then it breaks off where told to,
// else waits for docket to hang up.
func wireProvider(t *testing.T, s recorded, breaks bool) string {
	return rawProvider(t, func(c net.Conn) {
		buf, head := make([]byte, 64<<10), ""
		for !strings.Contains(head, "\r\n\r\n") {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			head += string(buf[:n])
		}
		_, after, _ := strings.Cut(head, "X-Break: ")
		text, _, _ := strings.Cut(after, "\r\n")
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Errorf("X-Break: %q", text)
			return
		}
		if !breaks {
			n = len(s.answer) - 1
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, one := range s.answer[:n] {
			_, _ = fmt.Fprintf(c, "1\r\n%c\r\n", one)
		}
		if !breaks {
			_, _ = io.Copy(io.Discard, c) // until docket hangs up
		}
	})
}

func breakOnTheWire(t *testing.T, b *bench, s recorded, by string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url(s.upstream, s.path), bytes.NewReader(s.request))
	req.Header.Set("X-Break", strconv.Itoa(n))
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if by == "cut" {
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("cut after %d bytes, the client saw a clean end", n)
		}
		return
	}
	got := min(n, len(boundary.FilterStream(s.answer[:len(s.answer)-1]))/2)
	if _, err := io.ReadFull(res.Body, make([]byte, got)); err != nil {
		t.Errorf("the client got no %d bytes: %v", got, err)
	}
}
