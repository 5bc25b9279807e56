package boundary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
)

const (
	chatBody     = `{"model":"gpt-5.5","messages":[{"role":"user","content":"Hello."}]}`
	chatAnswer   = `{"id":"c1","object":"chat.completion","model":"gpt-5.5","choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}`
	chatStream   = `{"model":"gpt-5.5","stream":true,"messages":[{"role":"user","content":"Hello."}]}`
	messagesBody = `{"model":"claude-opus-5","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"Hello."}]}`
)

func answerChat(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, chatAnswer)
}

// TestUnchanged sends a request with all kinds of headers and a query: the
// provider gets what the client sent, and the client what the provider did.
func TestUnchanged(t *testing.T) {
	type seen struct {
		r    *http.Request
		body []byte
	}
	got := make(chan seen, 1)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r, body}
		h := w.Header()
		h["Content-Type"], h["Date"] = nil, nil
		h.Set("Request-Id", "req_1")
		h.Add("X-Many", "a")
		h.Add("X-Many", "b")
		h.Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html>no</html>"))
		_ = http.NewResponseController(w).Flush()
		h.Set("X-Sum", "1")
		h.Set(http.TrailerPrefix+"X-Unannounced", "2")
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL + "/base")})
	res, body, err := b.post(b.url("openai", "/v1/chat/completions?a=b;c&key=%zz"), chatBody,
		"Authorization", "Bearer k", "Idempotency-Key", "i1", "X-Stainless-Lang", "go", "Cookie", "c=1",
		"Connection", "X-Hop", "X-Hop", "1", "X-Forwarded-For", "1.2.3.4", "Accept-Encoding", "gzip, deflate;q=0.5, br;q=1.0, *;q=0.1",
		"User-Agent", "sdk/1", "Expect", "100-continue")
	if err != nil {
		t.Fatal(err)
	}
	in := <-got
	if in.r.URL.Path != "/base/v1/chat/completions" || in.r.URL.RawQuery != "a=b;c&key=%zz" {
		t.Errorf("upstream was asked for %s ? %s", in.r.URL.Path, in.r.URL.RawQuery)
	}
	if want := strings.TrimPrefix(up.URL, "http://"); in.r.Host != want {
		t.Errorf("upstream's Host is %q, want %q", in.r.Host, want)
	}
	if string(in.body) != chatBody || in.r.ContentLength != int64(len(chatBody)) {
		t.Errorf("upstream got %d bytes declared and %q", in.r.ContentLength, in.body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer k", "Idempotency-Key": "i1", "X-Stainless-Lang": "go", "Cookie": "c=1", "User-Agent": "sdk/1",
		"X-Hop": "", "Connection": "", "X-Forwarded-For": "", "Expect": "", "Accept-Encoding": "gzip, br;q=1.0", "Content-Type": "application/json",
	} {
		if got := in.r.Header.Get(name); got != want {
			t.Errorf("upstream's header %s is %q, want %q", name, got, want)
		}
	}
	if res.StatusCode != http.StatusForbidden || string(body) != "<html>no</html>" {
		t.Errorf("the client got %d %q", res.StatusCode, body)
	}
	if res.Header.Get("Request-Id") != "req_1" || !slices.Equal(res.Header.Values("X-Many"), []string{"a", "b"}) {
		t.Errorf("the client's headers: %v", res.Header)
	}
	for _, name := range []string{"Content-Type", "Date", "X-Docket"} {
		if _, made := res.Header[name]; made {
			t.Errorf("header %s was made up: %q", name, res.Header.Get(name))
		}
	}
	if res.Trailer.Get("X-Sum") != "1" || res.Trailer.Get("X-Unannounced") != "2" {
		t.Errorf("the client's trailers: %v", res.Trailer)
	}
	one := b.only()
	if one.request.content["path"] != "/v1/chat/completions" || one.request.content["upstream"] != "openai" {
		t.Errorf("recorded: %v", one.request.content)
	}
	if m := one.outcome.Meter; m.Source != chain.SourceReported || m.Cost == nil || m.Cost.String() != "0" || len(m.Usage) != 0 {
		t.Errorf("an error status without usage was metered as %+v", m)
	}
	if err := errors.Join(one.request.commits("request", []byte(chatBody)), one.outcome.commits("response", body)); err != nil {
		t.Error(err)
	}
	if one.outcome.Parts["response"].Media != "application/octet-stream" || one.request.Parts["request"].Media != "application/json" {
		t.Errorf("media %q, %q", one.request.Parts["request"].Media, one.outcome.Parts["response"].Media)
	}
}

// TestSingleBytes has the body digests agree when both sides write one byte at
// a time.
func TestSingleBytes(t *testing.T) {
	answer := []byte("data: " + strings.Repeat("é", 100) + "\n\ndata: [DONE]\n\n")
	received := make(chan []byte, 1)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- body
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range answer {
			_, _ = w.Write(answer[i : i+1])
			_ = http.NewResponseController(w).Flush()
		}
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	r, w := io.Pipe()
	go func() {
		for i := range len(messagesBody) {
			_, _ = io.WriteString(w, messagesBody[i:i+1])
		}
		w.Close()
	}()
	_, got, err := b.do(http.MethodPost, b.url("anthropic", "/v1/messages"), r)
	if err != nil {
		t.Fatal(err)
	}
	one := b.only()
	if err := errors.Join(one.request.commits("request", <-received), one.request.commits("request", []byte(messagesBody)),
		one.outcome.commits("response", answer), one.outcome.commits("response", got)); err != nil {
		t.Error(err)
	}
}

// TestNotHeld has a provider that sends its second chunk only when the client
// has confirmed the first, plain and with a filter in between.
func TestNotHeld(t *testing.T) {
	for name, c := range map[string]struct{ upstream, path, body, first, second string }{
		"messages": {"anthropic", "/v1/messages", messagesBody, "event: ping\ndata: {\"type\":\"ping\"}\n\n", "data: {}\n\n"},
		"filtered": {"openai", "/v1/chat/completions", chatStream, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: [DONE]\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			confirmed := make(chan struct{})
			up := provider(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				<-confirmed // the head is not held either
				_, _ = io.WriteString(w, c.first)
				_ = http.NewResponseController(w).Flush()
				<-confirmed
				_, _ = io.WriteString(w, c.second)
			})
			b := newBench(t, setup{upstreams: upstreams(up.URL)})
			req, _ := http.NewRequest(http.MethodPost, b.url(c.upstream, c.path), strings.NewReader(c.body))
			res, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			confirmed <- struct{}{}
			first := make([]byte, len(c.first))
			if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != c.first {
				t.Fatalf("%q, %v", first, err)
			}
			close(confirmed)
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != c.second {
				t.Fatalf("%q, %v", rest, err)
			}
		})
	}
}

// TestEndAfterOutcome holds the outcome's record back: until it is durable the
// client sees no end of the answer, whichever way the answer's length is told.
func TestEndAfterOutcome(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"length": answerChat,
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			answerChat(w, r)
		},
		"empty":      func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "0") },
		"no content": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			up := provider(t, serve)
			b := newBench(t, setup{upstreams: upstreams(up.URL), recorder: gated(gate)})
			ended := make(chan error, 1)
			go func() {
				_, _, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody)
				ended <- err
			}()
			gate <- struct{}{} // the boundary is about to record the outcome
			select {
			case err := <-ended:
				t.Fatalf("the client saw the end (%v) before the outcome was durable", err)
			case <-time.After(50 * time.Millisecond): // that it saw none takes a while to tell
			}
			if n := len(b.ofType(chain.TypeResponse)); n != 0 {
				t.Fatalf("%d outcomes while the gate was shut", n)
			}
			gate <- struct{}{}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			b.only()
		})
	}
}

// TestRequestBeforeCall sees model.request in the ledger while the provider
// has the call, and no call at all where it can't be recorded.
func TestRequestBeforeCall(t *testing.T) {
	var b *bench
	var durable int
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		durable = len(b.ofType(chain.TypeRequest))
		answerChat(w, r)
	})
	b = newBench(t, setup{upstreams: upstreams(up.URL)})
	if _, _, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody); err != nil {
		t.Fatal(err)
	}
	if durable != 1 {
		t.Errorf("%d requests were recorded when the call arrived, want 1", durable)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.engine.Drain(ctx) // admits nothing more
	durable = -1
	res, body, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 503 || res.Header.Get("X-Docket") != "x-docket.ledger-unavailable" || durable != -1 {
		t.Errorf("%d %v %s; called: %t", res.StatusCode, res.Header, body, durable != -1)
	}
	if s, err := b.engine.Status(); err != nil || s.Unavailable != 1 {
		t.Errorf("%d counted as not recorded (%v), want 1", s.Unavailable, err)
	}
}

// TestNoHead gives calls that get no answer: one model.failed with its reason.
func TestNoHead(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	reset := rawProvider(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	garbage := rawProvider(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n")
	})
	silent := provider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for name, c := range map[string]struct {
		url, reason string
		status      int
	}{
		"nobody":  {nobody, "connect", 502},
		"reset":   {reset, "connect", 502},
		"garbage": {garbage, "connect", 502},
		"silent":  {silent.URL, "timeout", 504},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{upstreams: upstreams(c.url), options: impatient})
			res, body, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.status || !strings.Contains(string(body), `"error":{"message":"docket: no answer from upstream openai`) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			one := b.only()
			if one.outcome.Type != chain.TypeFailed || one.outcome.content["reason"] != c.reason || one.outcome.Meter != nil {
				t.Errorf("outcome %s %v", one.outcome.Type, one.outcome.content)
			}
		})
	}
}

// TestStopped closes the run, then the engine, under calls before and after
// their head.
func TestStopped(t *testing.T) {
	for _, head := range []bool{false, true} {
		for _, what := range []string{"run", "engine"} {
			t.Run(fmt.Sprintf("%s, head %t", what, head), func(t *testing.T) {
				arrived := make(chan struct{})
				up := provider(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if head {
						_, _ = io.WriteString(w, "data: {}\n\n")
						_ = http.NewResponseController(w).Flush()
					}
					if !head {
						close(arrived)
					}
					<-r.Context().Done()
				})
				b := newBench(t, setup{upstreams: upstreams(up.URL)})
				ended := make(chan error, 1)
				go func() {
					res, err := b.client.Post(b.url("openai", "/v1/chat/completions"), "application/json", strings.NewReader(chatBody))
					if err != nil {
						ended <- err
						return
					}
					defer res.Body.Close()
					if head {
						close(arrived)
					} else if res.StatusCode != 503 {
						t.Errorf("status %s", res.Status)
					}
					_, err = io.Copy(io.Discard, res.Body)
					ended <- err
				}()
				<-arrived
				stop(t, b, what)
				if err := <-ended; (err != nil) != head {
					t.Errorf("the client saw %v", err)
				}
				one := b.only()
				if head && one.outcome.content["ended"] != "stopped" || !head && one.outcome.content["reason"] != "stopped" {
					t.Errorf("outcome %s %v", one.outcome.Type, one.outcome.content)
				}
			})
		}
	}
}

func stop(t *testing.T, b *bench, what string) {
	t.Helper()
	if what == "run" {
		if _, err := b.engine.CloseRun(t.Context(), b.run.ID, engine.CloseSpec{Wait: 1}); err != nil {
			t.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.engine.Drain(ctx)
}

// TestClientLeavesBeforeHead has docket cancel the call at once.
func TestClientLeavesBeforeHead(t *testing.T) {
	arrived, cancelled := make(chan struct{}), make(chan struct{})
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(cancelled)
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url("openai", "/v1/chat/completions"), strings.NewReader(chatBody))
	go func() {
		<-arrived
		cancel()
	}()
	if res, err := b.client.Do(req); err == nil {
		res.Body.Close()
		t.Error("an answer came")
	}
	<-cancelled
	if one := b.only(); one.outcome.content["reason"] != "client" {
		t.Errorf("outcome %v", one.outcome.content)
	}
}

// TestReads passes what no provider bills, as a recorded call that cost nothing.
func TestReads(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, "{}")
		}
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	n := 0
	for _, c := range []struct{ method, upstream, path string }{
		{"GET", "openai", "/v1/models"}, {"HEAD", "anthropic", ""}, {"HEAD", "anthropic", "/"}, {"OPTIONS", "openai", "/v1/models"},
		{"POST", "anthropic", "/v1/messages/count_tokens?beta=true"},
	} {
		res, body, err := b.do(c.method, b.url(c.upstream, c.path), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s %s: %v %v %s", c.method, c.path, err, res, body)
		}
		n++
		one := b.settled(n)[n-1]
		m := one.outcome.Meter
		if m.Source != chain.SourceReported || len(m.Usage) != 0 || m.Cost == nil || m.Cost.String() != "0" || one.outcome.content["ended"] != "complete" {
			t.Errorf("%s %s: %+v %v", c.method, c.path, m, one.outcome.content)
		}
		if err := one.outcome.commits("response", body); err != nil {
			t.Error(err)
		}
	}
}

// TestRunUpstream sends the calls of one run to the address that its opener
// named, and those of another where they always go.
func TestRunUpstream(t *testing.T) {
	var usual, own int
	a := provider(t, func(w http.ResponseWriter, r *http.Request) { usual++; answerChat(w, r) })
	o := provider(t, func(w http.ResponseWriter, r *http.Request) {
		own++
		if r.URL.Path != "/gate/v1/chat/completions" {
			t.Errorf("path %s", r.URL.Path)
		}
		answerChat(w, r)
	})
	b := newBench(t, setup{upstreams: upstreams(a.URL), run: engine.RunSpec{
		Upstreams: map[string]string{"openai": o.URL + "/gate/"}, Actor: &chain.Actor{Role: "r", Context: "c", Pass: "p"},
	}})
	_, token, err := b.engine.OpenRun(t.Context(), engine.RunSpec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{b.token, token} {
		if _, _, err := b.post(b.server.URL+"/b/"+token+"/openai/v1/chat/completions", chatBody); err != nil {
			t.Fatal(err)
		}
	}
	if usual != 1 || own != 1 {
		t.Errorf("%d calls went the usual way and %d the run's own, want 1 and 1", usual, own)
	}
	calls := b.calls()
	for _, e := range []event{calls[0].request, calls[0].outcome} {
		if e.Actor == nil || *e.Actor != (chain.Actor{Role: "r", Context: "c", Pass: "p"}) || e.Run != b.run.ID {
			t.Errorf("event %d has actor %v of run %s", e.Seq, e.Actor, e.Run)
		}
	}
	if calls[1].request.Actor != nil || calls[1].request.Run == b.run.ID {
		t.Error("the other run's call has the first one's actor or run")
	}
}

// TestDefaultUpstreams makes sure that a request really goes where the
// defaults say.
func TestDefaultUpstreams(t *testing.T) {
	b := newBench(t, setup{})
	var asked []string
	b.handler.SetTransport(tripper(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		w := httptest.NewRecorder()
		answerChat(w, r)
		res := w.Result()
		res.Request = r
		return res, nil
	}))
	for _, c := range []struct{ name, path string }{{"openai", "/v1/chat/completions"}, {"anthropic", "/v1/messages"}} {
		if _, _, err := b.post(b.url(c.name, c.path), chatBody); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"https://api.openai.com/v1/chat/completions", "https://api.anthropic.com/v1/messages"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLargeBody passes 32 MiB both ways.
func TestLargeBody(t *testing.T) {
	body := []byte(`{"model":"gpt-5.5","messages":[{"role":"user","content":"` + strings.Repeat("x", 32<<20))
	body = append(body[:32<<20-4], `"}]}`...)
	answer := bytes.Repeat([]byte("y"), 33<<20)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if !bytes.Equal(got, body) {
			t.Errorf("upstream got other %d bytes", len(got))
		}
		_, _ = w.Write(answer)
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	res, got, err := b.do(http.MethodPost, b.url("openai", "/v1/chat/completions"), bytes.NewReader(body))
	if err != nil || res.StatusCode != 200 || !bytes.Equal(got, answer) {
		t.Fatalf("%v, %d bytes", err, len(got))
	}
	one := b.only()
	if err := errors.Join(one.request.commits("request", body), one.outcome.commits("response", answer)); err != nil {
		t.Error(err)
	}
}

// TestLongAnswer passes an answer that takes many times what a client may take
// over one piece, on a connection that goes on after it.
func TestLongAnswer(t *testing.T) {
	const wait = 50 * time.Millisecond
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		ticks := time.NewTicker(wait / 2)
		defer ticks.Stop()
		for range 10 {
			<-ticks.C
			_, _ = io.WriteString(w, ": ping\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL), options: func(o *boundary.Options) { o.ClientWait = wait }})
	res, got, err := b.post(b.url("anthropic", "/v1/messages"), messagesBody)
	if err != nil || string(got) != strings.Repeat(": ping\n\n", 10) || res.Close {
		t.Errorf("%v, %q, close %t", err, got, res.Close)
	}
	if one := b.only(); one.outcome.content["ended"] != "complete" {
		t.Errorf("outcome %v", one.outcome.content)
	}
}

// TestEndOfBody reads an answer to its end after its outcome was recorded: the
// end can bring trailers, and it frees the provider's connection.
func TestEndOfBody(t *testing.T) {
	b := newBench(t, setup{})
	ended := make(chan struct{})
	b.handler.SetTransport(tripper(func(r *http.Request) (*http.Response, error) {
		first := true
		res := answerOf(r, readerFunc(func(p []byte) (int, error) {
			if first {
				first = false
				return copy(p, "{}"), nil
			}
			select {
			case <-r.Context().Done():
				t.Error("the call was cancelled before its body was read to the end")
			case <-time.After(50 * time.Millisecond): // that it isn't takes a while to tell
			}
			close(ended)
			return 0, io.EOF
		}))
		res.ContentLength = 2
		res.Header.Set("Content-Length", "2")
		return res, nil
	}))
	if _, got, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody); err != nil || string(got) != "{}" {
		t.Errorf("%v, %q", err, got)
	}
	<-ended
}
