package boundary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
	"github.com/docket-audit/docket/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a ledger on disk, a boundary that records into it, a server in
// front, and one open run.
type bench struct {
	t       testing.TB
	path    string
	engine  *engine.Engine
	handler *boundary.Handler
	server  *httptest.Server
	run     engine.Run
	token   string
	log     *safeBuffer
	client  *http.Client
	once    sync.Once
	report  *verify.Report // once closed
}

// setup is what a test wants different of its bench.
type setup struct {
	upstreams map[string]boundary.Upstream
	prices    string // a price file's text
	options   func(*boundary.Options)
	recorder  func(boundary.Recorder) boundary.Recorder
	run       engine.RunSpec
}

func newBench(t testing.TB, s setup) *bench {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	b := &bench{t: t, path: filepath.Join(dir, "ledger.db"), log: &safeBuffer{}}
	if _, err := engine.Init(ctx, b.path, engine.InitOptions{CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Path: b.path, Version: "test"}
	if s.prices != "" {
		file := filepath.Join(dir, "prices.toml")
		if err := os.WriteFile(file, []byte(s.prices), 0o600); err != nil {
			t.Fatal(err)
		}
		o.PriceFiles = []string{file}
	}
	var err error
	if b.engine, err = engine.Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	recorder := boundary.Record(b.engine)
	if s.recorder != nil {
		recorder = s.recorder(recorder)
	}
	bo := boundary.Options{
		Recorder: recorder, Upstreams: s.upstreams,
		Log: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if s.options != nil {
		s.options(&bo)
	}
	if b.handler, err = boundary.New(bo); err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewUnstartedServer(b.handler)
	b.server.Config.ErrorLog = slog.NewLogLogger(slog.NewJSONHandler(b.log, nil), slog.LevelError)
	b.server.Start()
	b.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 128}}
	if b.run, b.token, err = b.engine.OpenRun(ctx, s.run); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// close ends everything and has the ledger verified from outside. It is safe
// to call twice.
func (b *bench) close() {
	b.once.Do(func() {
		b.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.engine.Close(ctx); err != nil {
			b.t.Errorf("close engine: %v", err)
		}
		b.server.Close()
		b.handler.Close()
		var err error
		if b.report, err = verify.File(context.Background(), b.path, verify.Options{}); err != nil {
			b.t.Fatalf("verify: %v", err)
		}
		if b.report.Verdict != verify.Intact || b.report.OpenCalls != 0 {
			b.t.Errorf("verify says %s with %d open calls: %v", b.report.Verdict, b.report.OpenCalls, b.report.Faults)
		}
	})
}

// url is where a client calls path of an upstream.
func (b *bench) url(upstream, path string) string {
	return b.server.URL + "/b/" + b.token + "/" + upstream + path
}

// post calls and reads the whole answer.
func (b *bench) post(url, body string, header ...string) (*http.Response, []byte, error) {
	return b.do(http.MethodPost, url, strings.NewReader(body), header...)
}

func (b *bench) do(method, url string, body io.Reader, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return res, got, err
}

// event is an event of the ledger, read.
type event struct {
	chain.Header
	salts   map[string]chain.Salt
	content map[string]any
	raw     chain.Event
}

// events reads the durable events of model.* types.
func (b *bench) events() []event {
	b.t.Helper()
	var all []event
	for from := uint64(1); ; {
		list, err := b.engine.Read(from, 4096)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(list) == 0 {
			return all
		}
		for _, raw := range list {
			h, err := chain.ParseHeader(raw.Header)
			if err != nil {
				b.t.Fatal(err)
			}
			from = h.Seq + 1
			if !strings.HasPrefix(h.Type, "model.") {
				continue
			}
			e := event{Header: *h, raw: raw, salts: raw.PartSalts}
			if err := json.Unmarshal(raw.Content, &e.content); err != nil {
				b.t.Fatal(err)
			}
			all = append(all, e)
		}
	}
}

// call is a request with its outcome.
type call struct{ request, outcome event }

// calls pairs the ledger's requests with their outcomes, in the order of the
// requests, and fails where one has not exactly one.
func (b *bench) calls() []call {
	b.t.Helper()
	var list []call
	at := map[uint64]int{}
	for _, e := range b.events() {
		switch e.Type {
		case chain.TypeRequest:
			at[e.Seq] = len(list)
			list = append(list, call{request: e})
		case chain.TypeResponse, chain.TypeFailed:
			i, ok := at[e.Call]
			if !ok {
				b.t.Fatalf("event %d settles %d, which is no request", e.Seq, e.Call)
			}
			if list[i].outcome.Seq != 0 {
				b.t.Fatalf("request %d has two outcomes, %d and %d", e.Call, list[i].outcome.Seq, e.Seq)
			}
			list[i].outcome = e
		}
	}
	for _, c := range list {
		if c.outcome.Seq == 0 {
			b.t.Fatalf("request %d has no outcome", c.request.Seq)
		}
	}
	return list
}

// settled waits until n calls have their outcome: where the client left first,
// its own end of the call says nothing about docket's.
func (b *bench) settled(n int) []call {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%d settled calls", n), func() bool {
		done := 0
		for _, e := range b.events() {
			if e.Type == chain.TypeResponse || e.Type == chain.TypeFailed {
				done++
			}
		}
		return done >= n
	})
	return b.calls()
}

// only is the ledger's one call.
func (b *bench) only() call {
	b.t.Helper()
	list := b.settled(1)
	if len(list) != 1 {
		b.t.Fatalf("%d calls in the ledger, want 1", len(list))
	}
	return list[0]
}

// ofType lists the events of one type.
func (b *bench) ofType(typ string) []event {
	var list []event
	for _, e := range b.events() {
		if e.Type == typ {
			list = append(list, e)
		}
	}
	return list
}

// commits checks that e's part is the commitment to body.
func (e event) commits(part string, body []byte) error {
	p, ok := e.Parts[part]
	switch {
	case !ok:
		return fmt.Errorf("event %d has no part %s", e.Seq, part)
	case p.Bytes != uint64(len(body)):
		return fmt.Errorf("part %s of event %d has %d bytes, want %d", part, e.Seq, p.Bytes, len(body))
	case chain.PartCommit(e.salts[part], body) != p.Commit:
		return fmt.Errorf("part %s of event %d does not commit to the body", part, e.Seq)
	}
	return nil
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// provider is an httptest server as an upstream of the given dialect.
func provider(t testing.TB, f http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// upstreams is a map with one server under both default names.
func upstreams(url string) map[string]boundary.Upstream {
	return map[string]boundary.Upstream{
		"openai":    {Dialect: "openai", URL: url},
		"anthropic": {Dialect: "anthropic", URL: url},
	}
}

// rawProvider answers each connection by f, without any HTTP library.
func rawProvider(t testing.TB, f func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// gated makes a recorder whose outcomes wait twice for gate: when they are
// asked for, and before they are recorded.
func gated(gate chan struct{}) func(boundary.Recorder) boundary.Recorder {
	return func(r boundary.Recorder) boundary.Recorder { return gatedRecorder{r, gate} }
}

// gatedRecorder is what gated makes.
type gatedRecorder struct {
	boundary.Recorder
	gate chan struct{}
}

func (g gatedRecorder) Begin(ctx context.Context, s engine.CallSpec) (boundary.Call, error) {
	c, err := g.Recorder.Begin(ctx, s)
	if err != nil {
		return nil, err
	}
	return gatedCall{c, g.gate}, nil
}

type gatedCall struct {
	boundary.Call
	gate chan struct{}
}

func (c gatedCall) Respond(o engine.Response) (engine.Receipt, error) {
	<-c.gate
	<-c.gate
	return c.Call.Respond(o)
}

// impatient makes waits short enough for a test.
func impatient(o *boundary.Options) {
	o.HeadWait, o.Idle, o.ClientWait = 100*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond
}
