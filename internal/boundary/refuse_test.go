package boundary_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
)

// uncalled is an upstream that must not be reached.
func uncalled(t testing.TB) map[string]boundary.Upstream {
	return upstreams(rawProvider(t, func(net.Conn) { t.Error("the upstream was reached") }))
}

// shape checks that body is the error that SDKs of a dialect read.
func shape(t *testing.T, dialect string, body []byte, code string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct {
			Type, Message string
			Code          *string
			Param         *string
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if dialect == "anthropic" && (e.Type != "error" || e.Error.Type == "" || !strings.HasPrefix(e.Error.Message, code)) {
		t.Errorf("not an error of Anthropic's shape: %s", body)
	}
	if dialect == "openai" && (e.Error.Type == "" || e.Error.Code == nil || *e.Error.Code != code || e.Error.Message == "") {
		t.Errorf("not an error of OpenAI's shape: %s", body)
	}
}

// TestRefused walks routes that are not forwarded: the shape of the answer, the
// record, and that the provider saw nothing.
func TestRefused(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t)})
	long := "/" + strings.Repeat("x", 3000)
	for _, c := range []struct {
		name, method, upstream, path string
		header                       []string
		recorded                     string // path; "" is path
	}{
		{"unknown post", "POST", "openai", "/v1/responses", nil, ""},
		{"embeddings", "POST", "openai", "/v1/embeddings", nil, ""},
		{"batches", "POST", "anthropic", "/v1/messages/batches", nil, ""},
		{"root", "POST", "openai", "/", nil, ""},
		{"delete", "DELETE", "openai", "/v1/chat/completions", nil, ""},
		{"put", "PUT", "anthropic", "/v1/messages", nil, ""},
		{"odd method", "BREW", "anthropic", "/v1/messages", nil, ""},
		{"encoded", "POST", "openai", "/v1/chat/%63ompletions", nil, ""},
		{"encoded slash", "POST", "openai", "/v1%2fchat/completions", nil, ""},
		{"encoded dots", "GET", "openai", "/v1/%2e%2e/x", nil, ""},
		{"dots", "GET", "openai", "/v1/../x", nil, ""},
		{"empty step", "POST", "openai", "//v1/chat/completions", nil, ""},
		{"parameter", "POST", "openai", "/v1/chat/completions;x=1", nil, ""},
		{"long path", "GET", "openai", long, nil, "(too long, 3001 bytes)"},
		{"gemini", "POST", "gemini", "/v1beta/models/gemini-3-flash:generateContent", nil, ""},
		{"override", "GET", "openai", "/v1/models", []string{"X-HTTP-Method-Override", "POST"}, ""},
		// A base URL joined to itself must bring no token into the ledger.
		{"own token", "POST", "openai", "/v1/b/" + b.token + "/openai/v1/chat/completions", nil, "(holds a run token)"},
		{"own token alone", "GET", "openai", "/v1/models/" + b.token, nil, "(holds a run token)"},
		{"own token escaped", "GET", "openai", "/v1/models/%" + fmt.Sprintf("%02x", b.token[0]) + b.token[1:], nil, "(holds a run token)"},
		{"another token", "POST", "openai", "/v1/b/0123456789abcdef0123456789ABCDEF/openai/v1/chat/completions", nil, "(holds a run token)"},
		{"long model", "POST", "openai", "/v1/chat/completions", []string{"X-Body", `{"model":"` + strings.Repeat("m", 2000) + `"}`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(b.ofType(chain.TypeRefused))
			body := chatBody
			if len(c.header) > 0 && c.header[0] == "X-Body" {
				body, c.header = c.header[1], nil
			}
			res, got, err := b.do(c.method, b.url(c.upstream, c.path), strings.NewReader(body), c.header...)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 403 || res.Header.Get("X-Docket") != boundary.CodePolicy || res.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%d %v", res.StatusCode, res.Header)
			}
			dialect := "openai"
			if c.upstream == "anthropic" {
				dialect = "anthropic"
			}
			shape(t, dialect, got, boundary.CodePolicy)
			all := b.ofType(chain.TypeRefused)
			if len(all) != before+1 {
				t.Fatalf("%d refusals recorded, want 1", len(all)-before)
			}
			e := all[before].content
			want := c.recorded
			if want == "" {
				want, _, _ = strings.Cut(c.path, "?")
			}
			if e["path"] != want || e["method"] != c.method || e["upstream"] != c.upstream || e["code"] != boundary.CodePolicy || e["http_status"] != 403.0 {
				t.Errorf("recorded %v", e)
			}
		})
	}
	if n := b.handler.Refusals()[boundary.CodePolicy]; n != 21 {
		t.Errorf("%d refusals counted, want 21", n)
	}
}

// TestNoRun answers where no open run has the token: nothing can be recorded.
func TestNoRun(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t)})
	closed := b.url("anthropic", "/v1/messages")
	if _, err := b.engine.CloseRun(t.Context(), b.run.ID, engine.CloseSpec{}); err != nil {
		t.Fatal(err)
	}
	head := b.engine.Head().Seq
	for url, want := range map[string]string{
		closed: boundary.CodeRunClosed,
		b.server.URL + "/b/" + strings.Repeat("0", 32) + "/anthropic/v1/messages": boundary.CodeRunClosed,
		b.server.URL + "/b/x/anthropic/v1/messages":                               boundary.CodeRunClosed,
		b.server.URL + "/b/":                       boundary.CodePolicy,
		b.server.URL + "/b":                        boundary.CodePolicy,
		b.server.URL + "/b//anthropic/v1/messages": boundary.CodePolicy,
		b.server.URL + "/v1/messages":              boundary.CodePolicy,
	} {
		res, body, err := b.post(url, messagesBody)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 403 || res.Header.Get("X-Docket") != want {
			t.Errorf("%d %s, want 403 %s", res.StatusCode, res.Header.Get("X-Docket"), want)
		}
		if strings.Contains(url, "anthropic") && want == boundary.CodeRunClosed {
			shape(t, "anthropic", body, want)
		}
	}
	if b.engine.Head().Seq != head {
		t.Error("something was recorded without an open run")
	}
}

// TestTooLarge refuses a body over the limit, its length declared or not, and
// takes one of exactly the limit.
func TestTooLarge(t *testing.T) {
	up := provider(t, answerChat)
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	url := b.url("openai", "/v1/chat/completions")
	over := strings.Repeat("x", boundary.MinBody+1)
	for name, body := range map[string]io.Reader{"declared": strings.NewReader(over), "chunked": io.MultiReader(strings.NewReader(over))} {
		before := len(b.ofType(chain.TypeRefused))
		res, got, err := b.do(http.MethodPost, url, body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.StatusCode != 413 || res.Header.Get("X-Docket") != boundary.CodeTooLarge {
			t.Errorf("%s: %d %v", name, res.StatusCode, res.Header)
		}
		shape(t, "openai", got, boundary.CodeTooLarge)
		if all := b.ofType(chain.TypeRefused); len(all) != before+1 || all[before].content["http_status"] != 413.0 {
			t.Errorf("%s: %d refusals recorded", name, len(all)-before)
		}
	}
	if len(b.ofType(chain.TypeRequest)) != 0 {
		t.Error("a call left")
	}
	if res, _, err := b.post(url, over[1:]); err != nil || res.StatusCode != 200 {
		t.Errorf("a body of the limit: %v %v", res, err)
	}
}

// TestExpect refuses before it asks for the body, and asks before it forwards.
func TestExpect(t *testing.T) {
	up := provider(t, answerChat)
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	for path, want := range map[string]string{"/openai/v1/responses": "HTTP/1.1 403", "/openai/v1/chat/completions": "HTTP/1.1 100"} {
		c, err := net.Dial("tcp", b.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /b/"+b.token+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: "+strconv.Itoa(len(chatBody))+"\r\n\r\n")
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		if !strings.HasPrefix(line, want) {
			t.Errorf("%s: %q %v, want %s", path, line, err, want)
		}
		if strings.HasPrefix(line, "HTTP/1.1 100") {
			_, _ = r.ReadString('\n')
			_, _ = io.WriteString(c, chatBody)
			if line, _ = r.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200") {
				t.Errorf("after the body: %q", line)
			}
		}
		c.Close()
	}
}

// TestUnavailable answers 503 where the recorder takes nothing, and counts it.
func TestUnavailable(t *testing.T) {
	broken := &brokenRecorder{}
	b := newBench(t, setup{upstreams: uncalled(t), recorder: func(r boundary.Recorder) boundary.Recorder {
		broken.Recorder = r
		return broken
	}})
	for i, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		res, body, err := b.post(b.url("openai", path), chatBody)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 503 || res.Header.Get("X-Docket") != boundary.CodeUnavailable || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
		}
		shape(t, "openai", body, boundary.CodeUnavailable)
		if n := broken.count(); n != i+1 {
			t.Errorf("%d counted, want %d", n, i+1)
		}
	}
}

// brokenRecorder takes no record.
type brokenRecorder struct {
	boundary.Recorder
	mu sync.Mutex
	n  int
}

func (r *brokenRecorder) Begin(context.Context, engine.CallSpec) (boundary.Call, error) {
	return nil, errors.New("disk full")
}

func (r *brokenRecorder) Refuse(context.Context, engine.CallSpec, string, int) (engine.Receipt, error) {
	return engine.Receipt{}, errors.New("disk full")
}

func (r *brokenRecorder) CountUnavailable() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

func (r *brokenRecorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// TestOutcomeNotRecorded has the client see no end where the outcome can't be
// recorded.
func TestOutcomeNotRecorded(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"length": answerChat,
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			answerChat(w, r)
		},
		"empty": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		up := provider(t, serve)
		b := newBench(t, setup{upstreams: upstreams(up.URL), recorder: func(r boundary.Recorder) boundary.Recorder { return noOutcome{r} }})
		if res, body, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody); err == nil {
			t.Errorf("%s: the client saw a whole answer: %s %s", name, res.Status, body)
		}
	}
}

type noOutcome struct{ boundary.Recorder }

func (r noOutcome) Begin(ctx context.Context, s engine.CallSpec) (boundary.Call, error) {
	c, err := r.Recorder.Begin(ctx, s)
	return lostCall{c}, err
}

// lostCall settles itself, since the engine waits for that, and says that it
// could not.
type lostCall struct{ boundary.Call }

func (c lostCall) Respond(o engine.Response) (engine.Receipt, error) {
	_, _ = c.Call.Respond(o)
	return engine.Receipt{}, errors.New("disk full")
}

// TestCodes walks the closed list.
func TestCodes(t *testing.T) {
	if len(boundary.Codes()) != 4 {
		t.Errorf("codes %v", boundary.Codes())
	}
	for _, c := range boundary.Codes() {
		if !strings.HasPrefix(c, "x-docket.") {
			t.Errorf("code %s", c)
		}
	}
}

// TestFlood has many refusals of one run: each recorded, none lost.
func TestFlood(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t)})
	const n = 300
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			res, _, err := b.post(b.url("openai", "/v1/responses"), chatBody)
			if err != nil || res.StatusCode != 403 {
				t.Errorf("%v %v", res, err)
			}
		})
	}
	wg.Wait()
	if got := len(b.ofType(chain.TypeRefused)); got != n {
		t.Errorf("%d refusals recorded, want %d", got, n)
	}
}

// TestOptions refuses what can't work, and repeats no URL.
func TestOptions(t *testing.T) {
	ok := setup{}
	b := newBench(t, ok)
	record := boundary.Record(b.engine)
	for name, o := range map[string]boundary.Options{
		"no recorder":  {},
		"small body":   {Recorder: record, MaxBody: 1 << 20},
		"small budget": {Recorder: record, BodyBudget: 1 << 20},
		"wait":         {Recorder: record, Idle: -1},
		"name":         {Recorder: record, Upstreams: map[string]boundary.Upstream{"a/b": {Dialect: "openai", URL: "https://x"}}},
		"dialect":      {Recorder: record, Upstreams: map[string]boundary.Upstream{"a": {Dialect: "gemini", URL: "https://x"}}},
	} {
		if _, err := boundary.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, url := range []string{
		"", "api.openai.com", "http://canary.example", "ftp://canary.example", "https://u:canary@example.com", "https://canary@example.com",
		"https://example.com?key=canary", "https://example.com?", "https://example.com#canary", "https:canary", "http://[::2]", "http://10.0.0.1", "https://exa mple/canary",
	} {
		_, err := boundary.New(boundary.Options{Recorder: record, Upstreams: map[string]boundary.Upstream{"a": {Dialect: "openai", URL: url}}})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", url, err)
		}
		if err := b.handler.CheckUpstreams(map[string]string{"openai": url}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"https://x", "https://10.0.0.1:8443/a/b/", "http://127.0.0.1:1", "http://[::1]:1", "http://LOCALHOST:1", "http://127.9.9.9"} {
		if err := b.handler.CheckUpstreams(map[string]string{"openai": url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := b.handler.CheckUpstreams(map[string]string{"other": "https://x"}); err == nil {
		t.Error("an upstream that is not configured was accepted")
	}
}
