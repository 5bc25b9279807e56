package boundary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
)

const canary = "sk-canary-7f3a9c"

// carrier puts a canary where a key can stand in a request.
type carrier struct {
	name   string
	header string
	query  string
}

var carriers = []carrier{
	{name: "bearer", header: "Authorization"},
	{name: "basic", header: "Authorization"},
	{name: "x-api-key", header: "X-Api-Key"},
	{name: "api-key", header: "Api-Key"},
	{name: "x-goog-api-key", header: "X-Goog-Api-Key"},
	{name: "proxy-authorization", header: "Proxy-Authorization"},
	{name: "cookie", header: "Cookie"},
	{name: "unknown header", header: "X-My-Secret"},
	{name: "key", query: "key"},
	{name: "api_key", query: "api_key"},
	{name: "access_token", query: "access_token"},
}

// apply puts the canary on a request; host is upstream's, for user info.
func (c carrier) apply(r *http.Request) {
	switch {
	case c.name == "basic":
		r.SetBasicAuth("user", canary)
	case c.name == "bearer":
		r.Header.Set(c.header, "Bearer "+canary)
	case c.header != "":
		r.Header.Set(c.header, "v="+canary)
	default:
		r.URL.RawQuery = c.query + "=" + canary
	}
}

// marks are the spellings of the canary that must be found nowhere.
func marks() []string {
	r, _ := http.NewRequest("GET", "http://x", nil)
	r.SetBasicAuth("user", canary)
	return []string{canary, strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")}
}

// TestCanary sends a key by each carrier into each way that a call can end, and
// looks for it in the ledger's bytes, the logs, the standard logger, stderr,
// the export and docket's own error bodies. Where the call is forwarded the key
// does reach the provider.
func TestCanary(t *testing.T) {
	ends := map[string]func(t *testing.T, b *bench) (path string, forwarded bool){
		"ok":      func(*testing.T, *bench) (string, bool) { return "/ok/v1/chat/completions", true },
		"4xx":     func(*testing.T, *bench) (string, bool) { return "/ok/v1/chat/completions?", true },
		"refused": func(*testing.T, *bench) (string, bool) { return "/ok/v1/responses", false },
		"nobody":  func(*testing.T, *bench) (string, bool) { return "/nobody/v1/chat/completions", false },
		"garbage": func(*testing.T, *bench) (string, bool) { return "/garbage/v1/chat/completions", true },
	}
	for name := range ends {
		t.Run(name, func(t *testing.T) {
			saw := make(chan string, 64)
			b := canaryBench(t, saw, name == "4xx")
			defer watchOutputs(t)()
			path, forwarded := ends[name](t, b)
			for _, c := range carriers {
				answer := canaryCall(t, b, path, c)
				if !forwarded && leaks(answer) {
					t.Errorf("%s: the error body tells the key: %s", c.name, answer)
				}
				if forwarded && c.name != "proxy-authorization" {
					if got := <-saw; !leaks(got) {
						t.Errorf("%s: the key did not reach the provider: %s", c.name, got)
					}
				} else if forwarded {
					<-saw
				}
			}
			b.settled(0)
			searchAll(t, b)
		})
	}
}

// canaryBench has upstreams that answer, that are not there, and that answer
// with what they were sent instead of HTTP.
func canaryBench(t *testing.T, saw chan<- string, refuse bool) *bench {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		saw <- fmt.Sprint(r.Header, r.URL)
		if refuse {
			w.WriteHeader(http.StatusUnauthorized)
		}
		answerChat(w, r)
	})
	garbage := rawProvider(t, func(c net.Conn) {
		head := readHead(c)
		saw <- head
		// An upstream may repeat what it was sent, where an error would.
		_, _ = io.WriteString(c, "HTTP/9 "+strings.ReplaceAll(head, "\r\n", " ")+"\r\n\r\n")
	})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	return newBench(t, setup{upstreams: map[string]boundary.Upstream{
		"ok": {Dialect: "openai", URL: up.URL}, "nobody": {Dialect: "openai", URL: nobody}, "garbage": {Dialect: "openai", URL: garbage},
	}})
}

func canaryCall(t *testing.T, b *bench, path string, c carrier) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, b.server.URL+"/b/"+b.token+path, strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(req)
	res, err := b.client.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if strings.HasPrefix(path, "/garbage") && leaks(string(body)) {
		t.Errorf("%s: the error body tells the key: %s", c.name, body)
	}
	return string(body)
}

// leaks says whether text has a canary.
func leaks(text string) bool {
	for _, m := range marks() {
		if strings.Contains(text, m) {
			return true
		}
	}
	return false
}

// watchOutputs looks at stderr and the standard logger until the function that
// it gives is called.
func watchOutputs(t *testing.T) func() {
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	var std bytes.Buffer
	log.SetOutput(&std)
	return func() {
		os.Stderr = before
		log.SetOutput(before)
		file.Close()
		got, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if leaks(string(got)) || leaks(std.String()) {
			t.Errorf("stderr: %s\nlogger: %s", got, std.String())
		}
	}
}

// searchAll looks for the canary, and for the run's token, in all that stays.
func searchAll(t *testing.T, b *bench) {
	t.Helper()
	var export bytes.Buffer
	if err := b.engine.Export(t.Context(), &export, engine.ExportSpec{}); err != nil {
		t.Fatal(err)
	}
	b.close()
	db, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if len(db) == 0 || export.Len() == 0 || b.log.String() == "" {
		t.Fatal("there is nothing to search")
	}
	for where, text := range map[string]string{"ledger": string(db), "export": export.String(), "log": b.log.String()} {
		if leaks(text) {
			t.Errorf("the %s holds the key", where)
		}
		if strings.Contains(text, b.token) {
			t.Errorf("the %s holds the run's token", where)
		}
	}
}

// TestPanic panics in each stage of a call, with the client's headers as the
// value: one outcome, the key nowhere.
func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		trip  func(r *http.Request) (*http.Response, error)
		write bool // the client's writer panics
		typ   string
		ended string
	}{
		"before head": {trip: func(r *http.Request) (*http.Response, error) { panic(r.Header) }, typ: chain.TypeFailed, ended: "connect"},
		"in body": {trip: func(r *http.Request) (*http.Response, error) {
			n := 0
			return answerOf(r, readerFunc(func(p []byte) (int, error) {
				if n++; n > 1 {
					panic(fmt.Sprint(r.Header, r.URL))
				}
				return copy(p, "data: {}\n\n"), nil
			})), nil
		}, typ: chain.TypeResponse, ended: "cut"},
		"at close": {trip: func(r *http.Request) (*http.Response, error) {
			res := answerOf(r, strings.NewReader("data: {}\n\n"))
			res.Body = panicCloser{res.Body, r}
			return res, nil
		}, typ: chain.TypeResponse, ended: "complete"},
		"runtime": {trip: func(r *http.Request) (*http.Response, error) {
			// A panic of the runtime itself.
			return any(r.Header.Get("Authorization")).(*http.Response), nil
		}, typ: chain.TypeFailed, ended: "connect"},
		"error value": {trip: func(r *http.Request) (*http.Response, error) {
			panic(errors.New(r.Header.Get("Authorization")))
		}, typ: chain.TypeFailed, ended: "connect"},
		"error text": {trip: func(r *http.Request) (*http.Response, error) {
			return nil, errors.New(r.Header.Get("Authorization") + r.URL.String())
		}, typ: chain.TypeFailed, ended: "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{})
			defer watchOutputs(t)()
			b.handler.SetTransport(tripper(c.trip))
			for i, carry := range carriers {
				answer := canaryCall(t, b, "/openai/v1/chat/completions", carry)
				if leaks(answer) {
					t.Errorf("%s: the answer tells the key: %s", carry.name, answer)
				}
				one := b.settled(i + 1)[i]
				how := one.outcome.content["ended"]
				if one.outcome.Type == chain.TypeFailed {
					how = one.outcome.content["reason"]
				}
				if one.outcome.Type != c.typ || how != c.ended {
					t.Errorf("%s: outcome %s %v", carry.name, one.outcome.Type, one.outcome.content)
				}
			}
			if c.typ == chain.TypeResponse && !strings.Contains(b.log.String(), `"msg":"panic"`) {
				t.Error("no panic was logged")
			}
			searchAll(t, b)
		})
	}
}

func answerOf(r *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: io.NopCloser(body), Request: r,
	}
}

type panicCloser struct {
	io.Reader
	r *http.Request
}

func (p panicCloser) Close() error { panic(p.r.Header) }

// TestPanicInRecorder panics before the call is recorded: nothing leaves, and
// the client gets an error of the provider's shape.
func TestPanicInRecorder(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t), recorder: func(r boundary.Recorder) boundary.Recorder { return panicRecorder{r} }})
	res, body, err := b.post(b.url("anthropic", "/v1/messages"), messagesBody, "X-Api-Key", canary)
	if err != nil || res.StatusCode != 500 || !strings.Contains(string(body), `"type":"error"`) {
		t.Errorf("%v %v %s", err, res, body)
	}
	if leaks(b.log.String()) || !strings.Contains(b.log.String(), `"msg":"panic"`) {
		t.Errorf("log: %s", b.log.String())
	}
}

type panicRecorder struct{ boundary.Recorder }

func (panicRecorder) Begin(context.Context, engine.CallSpec) (boundary.Call, error) {
	panic("Bearer " + canary)
}
