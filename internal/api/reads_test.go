package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/api"
)

func (s *service) append(n int, run string) {
	s.t.Helper()
	for i := range n {
		if a := s.post("/v1/events", fmt.Sprintf(`{"type":"tool.call","content":{"i":%d},"run":%q}`, i, run)); a.status != 201 {
			s.t.Fatal(a.status, a.body)
		}
	}
}

// headers parses the event lines of an answer.
func headers(t *testing.T, body string) (list []*chain.Header, trailer *chain.Trailer) {
	t.Helper()
	for line := range strings.Lines(body) {
		l, err := chain.ParseLine([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if l.Trailer != nil {
			trailer = l.Trailer
			continue
		}
		h, err := chain.ParseHeader(l.Event.Header)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h)
	}
	return list, trailer
}

func TestEvents(t *testing.T) {
	s := start(t)
	s.append(600, "r1")
	s.append(3, "r2")
	last := s.seq()
	for _, x := range []struct {
		query       string
		first, last uint64
		count       int
	}{
		{"", 1, last, int(last)},
		{"?from=5&to=7", 5, 7, 3},
		{"?from=7&to=7", 7, 7, 1},
		{fmt.Sprintf("?to=%d", last+100), 1, last, int(last)},
		{fmt.Sprintf("?from=%d", last+1), 0, 0, 0},
		{"?type=ledger.created", 1, 1, 1},
		{"?type=no.such", 0, 0, 0},
		{"?run=r2", last - 3, last, 4},
		{"?run=r2&type=tool.call", last - 2, last, 3},
	} {
		a := s.get("/v1/events" + x.query)
		list, trailer := headers(t, a.body)
		if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" || trailer != nil || len(list) != x.count {
			t.Errorf("%s: %d, %d events, want %d", x.query, a.status, len(list), x.count)
			continue
		}
		if x.count > 0 && (list[0].Seq != x.first || list[len(list)-1].Seq != x.last) {
			t.Errorf("%s: %d to %d", x.query, list[0].Seq, list[len(list)-1].Seq)
		}
	}
	if s.seq() != last {
		t.Error("reading left an event")
	}
}

func TestExport(t *testing.T) {
	s := start(t)
	s.append(5, "r1")
	head := s.engine.Head()
	list, trailer := headers(t, s.get("/v1/events?trailer=true").body)
	if trailer == nil || uint64(len(list)) != head.Seq || trailer.Last != head.Seq || trailer.Head != head.Hash || *trailer.Root != head.Root {
		t.Fatalf("trailer %+v of %d events", trailer, len(list))
	}
	part, trailer := headers(t, s.get("/v1/events?trailer=true&from=3&to=5").body)
	if len(part) != 3 || trailer == nil || trailer.First != 3 || trailer.Last != 5 || len(trailer.Peaks) != 1 {
		t.Errorf("a range of %d events, %+v", len(part), trailer)
	}
	left, _ := headers(t, s.get(fmt.Sprintf("/v1/events?from=%d", head.Seq+1)).body)
	if len(left) != 2 || left[0].Type != chain.TypeEvExported || left[0].Peer == nil || left[0].Peer.PID != uint64(os.Getpid()) {
		t.Errorf("the export left %+v", left)
	}
}

func TestFollow(t *testing.T) {
	s := start(t)
	from := s.seq() + 1
	req, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://docket/v1/events?follow=true&from=%d", from), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	for i := range 3 {
		s.append(1, "r1")
		for range 1 + (3-i)/3 { // the first append opens its run
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.api.Stop()
	if b, err := io.ReadAll(r); err != nil || len(b) != 0 {
		t.Errorf("after the stop: %q %v", b, err)
	}
	if a := s.get("/readyz"); a.status != 503 || a.code() != "stopping" {
		t.Errorf("ready while stopping: %d %s", a.status, a.body)
	}
}

func TestRuns(t *testing.T) {
	s := start(t, func(o *api.Options, _ *engine.Options) {
		o.CheckUpstreams = func(urls map[string]string) error {
			if urls["anthropic"] == "" {
				return errors.New("no such upstream")
			}
			return nil
		}
	})
	a := s.post("/v1/runs", `{"run":"r1","name":"first","actor":{"role":"coder","context":"c","pass":"p"},"upstreams":{"anthropic":"https://elsewhere.example"}}`)
	opened := decode[struct {
		Run, Token string
		BaseURLs   map[string]string `json:"base_urls"`
	}](t, a)
	if a.status != 201 || opened.Run != "r1" || len(opened.Token) != 32 || opened.BaseURLs["anthropic"] != "http://boundary/b/"+opened.Token+"/anthropic" {
		t.Fatal(a.status, a.body)
	}
	for _, path := range []string{"/v1/events", "/v1/runs", "/v1/runs/r1"} {
		if b := s.get(path).body; strings.Contains(b, opened.Token) || !strings.Contains(b, "r1") {
			t.Errorf("%s: %s", path, b)
		}
	}
	for _, x := range []struct {
		path, body, code string
	}{
		{"/v1/runs", `{"run":"r1"}`, "run-exists"},
		{"/v1/runs", `{"id":"r2"}`, "bad-request"},
		{"/v1/runs", `{"run":"a b"}`, "bad-draft"},
		{"/v1/runs", `{"run":"a","run":"b"}`, "bad-request"},
		{"/v1/runs", `{"upstreams":{"nobody":"https://x.example"}}`, "bad-request"},
		{"/v1/runs", ``, "bad-request"},
		{"/v1/runs/r9/close", `{}`, "run-unknown"},
		{"/v1/runs/r1/close", `{"wait_ms":0}`, "bad-request"},
		{"/v1/runs/r1/close", `{"exit_code":256}`, "bad-request"},
		{"/v1/runs/r1/close", `{"why":"x"}`, "bad-request"},
	} {
		before := s.seq()
		if a := s.post(x.path, x.body); a.code() != x.code {
			t.Errorf("%s %s: %d %s, want %s", x.path, x.body, a.status, a.body, x.code)
		}
		if s.seq() != before {
			t.Errorf("%s %s: something was written", x.path, x.body)
		}
	}
	if a := s.do("POST", "/v1/runs", "text/plain", `{}`); a.code() != "unsupported-media" {
		t.Errorf("text: %d %s", a.status, a.body)
	}
	if a := s.get("/v1/runs/%2E%2E"); a.code() != "run-unknown" {
		t.Errorf("a run of points: %d %s", a.status, a.body)
	}
	type run struct {
		Run, Name string
		Closed    uint64
		Events    uint64
		Totals    struct {
			CostUSD string `json:"cost_usd"`
		}
	}
	closed := s.post("/v1/runs/r1/close", `{"reason":"done","exit_code":0,"wait_ms":100}`)
	if r := decode[run](t, closed); closed.status != 200 || r.Closed != s.seq() || r.Events != 2 || r.Totals.CostUSD != "0" || r.Name != "first" {
		t.Errorf("%d %s", closed.status, closed.body)
	}
	for path, body := range map[string]string{"/v1/runs/r1/close": `{}`, "/v1/events": `{"type":"tool.call","content":{},"run":"r1"}`} {
		if a := s.post(path, body); a.status != 409 || a.code() != "run-closed" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if got := decode[struct{ Runs []run }](t, s.get("/v1/runs")); len(got.Runs) != 1 || got.Runs[0].Closed == 0 {
		t.Errorf("runs %+v", got)
	}
}

func TestReads(t *testing.T) {
	s := start(t)
	s.append(2, "r1")
	h := s.engine.Head()
	if got := decode[map[string]any](t, s.get("/v1/head")); got["ledger"] != h.Ledger || got["hash"] != h.Hash.String() || got["root"] != chain.Hash(h.Root).String() {
		t.Errorf("head %v", got)
	}
	if got := decode[map[string]any](t, s.get("/v1/status")); got["open_runs"] != 1.0 || got["bytes"].(float64) < 4096 {
		t.Errorf("status %v", got)
	}
	for _, by := range []string{"", "?by=ledger", "?by=run", "?by=model", "?by=role", "?by=day"} {
		if a := s.get("/v1/costs" + by); a.status != 200 || !strings.Contains(a.body, `"rows":[`) {
			t.Errorf("costs %s: %d %s", by, a.status, a.body)
		}
	}
	if a := s.get("/v1/checkpoint"); a.status != 200 || !strings.HasPrefix(a.body, "docketd.ledger/1/"+h.Ledger+"\n") {
		t.Errorf("checkpoint: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := s.get(path); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	before := s.seq()
	snap := s.get("/v1/snapshot")
	if snap.status != 200 || snap.header.Get("Docket-Seq") != fmt.Sprint(before) || snap.header.Get("Content-Length") != fmt.Sprint(len(snap.body)) {
		t.Errorf("snapshot: %d %v", snap.status, snap.header)
	}
	left, _ := headers(t, s.get(fmt.Sprintf("/v1/events?from=%d", before+1)).body)
	if len(left) != 1 || left[0].Type != chain.TypeEvSnapshot {
		t.Errorf("the snapshot left %+v", left)
	}
}

// TestNoKey: a service without a key says so, and can do everything else.
func TestNoKey(t *testing.T) {
	s := start(t, func(_ *api.Options, o *engine.Options) { o.Signer = nil })
	if a := s.get("/v1/checkpoint"); a.status != 409 || a.code() != "no-signing-key" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.post("/v1/runs", `{"upstreams":{"x":"https://x.example"}}`); a.code() != "bad-request" {
		t.Errorf("upstreams without a boundary: %d %s", a.status, a.body)
	}
}

// TestFaults: an error has its body, a panic is an answer and a log line
// without a stop, and a stream that fails midway never looks whole.
func TestFaults(t *testing.T) {
	s := start(t)
	serve := func(h func(http.ResponseWriter, *http.Request) error) (int, string, error) {
		ln, err := api.ListenTCP(":0")
		if err != nil {
			t.Fatal(err)
		}
		server := api.HTTP(s.api.Handler(h), nil)
		done := make(chan error)
		go func() { done <- server.Serve(api.Limit(ln, 2)) }()
		defer func() { server.Close(); <-done }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + ln.Addr().String() + "/x")
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	code, body, err := serve(func(http.ResponseWriter, *http.Request) error { panic("canary") })
	if code != 500 || !strings.Contains(body, `"internal"`) || strings.Contains(body, "canary") || err != nil {
		t.Errorf("panic: %d %s %v", code, body, err)
	}
	if code, body, err = serve(func(http.ResponseWriter, *http.Request) error { return errors.New("secret path") }); code != 500 || strings.Contains(body, "secret") || err != nil {
		t.Errorf("unknown error: %d %s %v", code, body, err)
	}
	for name, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"error": func(w http.ResponseWriter, _ *http.Request) error {
			io.WriteString(w, "a part")
			return errors.New("broke")
		},
		"panic": func(w http.ResponseWriter, _ *http.Request) error { io.WriteString(w, "a part"); panic("broke") },
	} {
		if _, body, err := serve(h); err == nil {
			t.Errorf("%s midway: %q looks whole", name, body)
		}
	}
}

// TestStopping: what comes while the engine drains is refused as such.
func TestStopping(t *testing.T) {
	s := start(t)
	s.engine.Drain(context.Background())
	for path, body := range map[string]string{"/v1/events": plainDraft, "/v1/runs": `{}`} {
		if a := s.post(path, body); a.status != 503 || a.code() != "stopping" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
