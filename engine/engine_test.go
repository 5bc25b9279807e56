package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/receipt"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		crashChild(os.Getenv(crashEnv))
		return
	}
	goleak.VerifyTestMain(m)
}

// newLedger makes a ledger with a key and returns its path and key.
func newLedger(t *testing.T) (string, *receipt.Signer) {
	t.Helper()
	signer, err := receipt.GenerateKey(strings.NewReader(strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := engine.Init(t.Context(), path, engine.InitOptions{Signer: signer, CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	return path, signer
}

// open opens the ledger and closes it at the end of the test, where it then
// has to verify.
func open(t *testing.T, path string, signer *receipt.Signer) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Path: path, Signer: signer, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil && e.Err() == nil {
			t.Error(err)
		}
	})
	return e
}

// event is an event with its header parsed.
type event struct {
	*chain.Header
	content map[string]any
}

func events(t *testing.T, e *engine.Engine) []event {
	t.Helper()
	var list []event
	for from := uint64(1); ; {
		got, err := e.Read(from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return list
		}
		for _, x := range got {
			h, err := chain.ParseHeader(x.Header)
			if err != nil {
				t.Fatal(err)
			}
			var content map[string]any
			if err := json.Unmarshal(x.Content, &content); err != nil {
				t.Fatal(err)
			}
			list = append(list, event{h, content})
		}
		from += uint64(len(got))
	}
}

func types(list []event, run string) string {
	var names []string
	for _, ev := range list {
		if ev.Run == run {
			names = append(names, ev.Type)
		}
	}
	return strings.Join(names, " ")
}

func spec(run string) engine.CallSpec {
	return engine.CallSpec{
		Run: run, Upstream: "anthropic", Provider: "anthropic", Method: "POST", Path: "/v1/messages",
		Model: "claude-haiku-4-5", Request: engine.NewPartOf("request", "application/json", []byte(`{}`)),
	}
}

func response(input uint64) engine.Response {
	return engine.Response{
		HTTPStatus: 200, Ended: engine.EndedComplete,
		Reading: engine.Reading{Model: "claude-haiku-4-5", Source: chain.SourceReported, Usage: map[string]uint64{"input": input}},
		Body:    engine.NewPartOf("response", "application/json", []byte(`{}`)),
	}
}

func TestRunIsOpenedOnceAndClosedForGood(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	ctx := t.Context()
	if _, err := e.Append(ctx, engine.Draft{Type: "tool.call", Run: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.OpenRun(ctx, engine.RunSpec{ID: "r"}); !errors.Is(err, engine.ErrRunExists) {
		t.Errorf("OpenRun of an open run: %v", err)
	}
	r, err := e.CloseRun(ctx, "r", engine.CloseSpec{Reason: "done"})
	if err != nil || r.Closed == 0 || !r.Implicit {
		t.Fatal(r, err)
	}
	for name, err := range map[string]error{
		"append":  second(e.Append(ctx, engine.Draft{Type: "tool.call", Run: "r"})),
		"close":   second(e.CloseRun(ctx, "r", engine.CloseSpec{})),
		"begin":   second(e.Begin(ctx, spec("r"))),
		"refuse":  second(e.Refuse(ctx, spec("r"), "x-docket.policy", 403)),
		"in many": second(e.AppendAll(ctx, []engine.Draft{{Type: "a.b", Run: "new"}, {Type: "a.b", Run: "r"}})),
	} {
		if !errors.Is(err, engine.ErrRunClosed) {
			t.Errorf("%s after the close: %v", name, err)
		}
	}
	if _, err := e.Run("new"); !errors.Is(err, engine.ErrRunUnknown) {
		t.Errorf("a refused batch opened a run: %v", err)
	}
	if _, _, err := e.OpenRun(ctx, engine.RunSpec{ID: "r"}); !errors.Is(err, engine.ErrRunExists) {
		t.Errorf("OpenRun of a closed run: %v", err)
	}
	if got, want := types(events(t, e), "r"), "run.opened tool.call run.closed"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTokenLeadsToItsRunUntilTheClose(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	ctx := t.Context()
	actor := &chain.Actor{Role: "implementer", Context: "billing", Pass: "p-1"}
	run, token, err := e.OpenRun(ctx, engine.RunSpec{Name: "nightly", Actor: actor, Upstreams: map[string]string{"openai": "http://127.0.0.1:1"}})
	if err != nil || len(token) != 32 {
		t.Fatal(token, err)
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	// The token survives a restart, though only its hash is kept.
	e = open(t, path, signer)
	got, err := e.RunByToken(token)
	if err != nil || got.ID != run.ID || *got.Actor != *actor || got.Upstreams["openai"] != "http://127.0.0.1:1" || got.Name != "nightly" {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := e.RunByToken("0123"); !errors.Is(err, engine.ErrRunUnknown) {
		t.Error(err)
	}
	if _, err := e.CloseRun(ctx, run.ID, engine.CloseSpec{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RunByToken(token); !errors.Is(err, engine.ErrRunUnknown) {
		t.Error(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || bytes.Contains(b, []byte(token)) {
		t.Error("the token stands in the ledger", err)
	}
}

func TestDraftsThatAreRefusedLeaveNothing(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	head := e.Head()
	for name, c := range map[string]struct {
		d    engine.Draft
		want error
	}{
		"reserved":     {engine.Draft{Type: "model.request", Run: "r"}, engine.ErrReserved},
		"reserved own": {engine.Draft{Type: "service.mine"}, engine.ErrReserved},
		"type":         {engine.Draft{Type: "Tool"}, chain.ErrForm},
		"run":          {engine.Draft{Type: "a.b", Run: "a b"}, chain.ErrForm},
		"content":      {engine.Draft{Type: "a.b", Content: []byte(`{"n":9007199254740993}`)}, chain.ErrForm},
		"twice":        {engine.Draft{Type: "a.b", Content: []byte(`{"a":1,"a":2}`)}, chain.ErrForm},
		"fence":        {engine.Draft{Type: "a.b", Actor: &chain.Actor{Role: "r", Context: "c", Pass: "p", Fence: 3}}, engine.ErrStaleFence},
		"actor":        {engine.Draft{Type: "a.b", Actor: &chain.Actor{Role: " r", Context: "c", Pass: "p"}}, chain.ErrForm},
		"parts":        {engine.Draft{Type: "a.b", Parts: []engine.Part{{Name: "a", Media: "b"}, {Name: "a", Media: "b"}}}, chain.ErrForm},
	} {
		if _, err := e.Append(t.Context(), c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	var form *chain.FormError
	_, err := e.Append(t.Context(), engine.Draft{Type: "a.b", Content: []byte(`{"deep":{"n":1e400}}`)})
	if !errors.As(err, &form) || form.Path != "/content/deep/n" {
		t.Errorf("path of a refusal: %v", err)
	}
	if got := e.Head(); got != head {
		t.Errorf("head moved from %d to %d", head.Seq, got.Seq)
	}
}

func TestKeyGivesTheFirstAnswerAgain(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	ctx := t.Context()
	d := engine.Draft{Type: "tool.call", Run: "r", Key: "k-1", Content: []byte(`{"b":1,"a":2}`)}
	first, err := e.Append(ctx, d)
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	d.Content = []byte(`{ "a": 2, "b": 1.0 }`) // the same value
	again, err := e.Append(ctx, d)
	if err != nil || !again.Replayed || again.Seq != first.Seq || again.Hash != first.Hash || again.TS != first.TS {
		t.Fatal(again, err)
	}
	d.Content = []byte(`{"a":3}`)
	if _, err := e.Append(ctx, d); !errors.Is(err, engine.ErrKeyConflict) {
		t.Error(err)
	}
	// Many at once, one event.
	var wg sync.WaitGroup
	seqs := make([]uint64, 32)
	for i := range seqs {
		wg.Go(func() {
			r, err := e.Append(ctx, engine.Draft{Type: "tool.call", Key: "k-2"})
			if err != nil {
				t.Error(err)
			}
			seqs[i] = r.Seq
		})
	}
	wg.Wait()
	for _, s := range seqs {
		if s != seqs[0] {
			t.Fatalf("one key, several events: %v", seqs)
		}
	}
	receipts, err := e.AppendAll(ctx, []engine.Draft{{Type: "a.b", Key: "k-3"}, {Type: "a.b", Key: "k-3"}, {Type: "a.c", Run: "fresh"}})
	if err != nil || receipts[0].Seq != receipts[1].Seq || !receipts[1].Replayed || receipts[2].Seq != receipts[0].Seq+2 {
		t.Errorf("%+v %v", receipts, err)
	}
}

func TestCheckpointsAreSignedOverWhatStands(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	for range 5 {
		if _, err := e.Append(t.Context(), engine.Draft{Type: "a.b"}); err != nil {
			t.Fatal(err)
		}
	}
	before := e.Head()
	note, err := e.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := receipt.ParseSignedCheckpoint(note)
	if err != nil {
		t.Fatal(err)
	}
	if c.Size != before.Seq || c.Root != before.Root || c.Ledger != before.Ledger {
		t.Errorf("%+v, want %+v", c, before)
	}
	other, err := receipt.GenerateKey(strings.NewReader(strings.Repeat("o", 32)))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Open(t.Context(), engine.Options{Path: path, Signer: other}); err == nil || !strings.Contains(err.Error(), "not one of ledger") {
		t.Errorf("another ledger's key: %v", err)
	}
}

func TestStartIsRecordedAndPricesWhereTheyChanged(t *testing.T) {
	path, signer := newLedger(t)
	for i := range 3 {
		e := open(t, path, signer)
		list := events(t, e)
		starts, prices, stops := 0, 0, 0
		for _, ev := range list {
			switch ev.Type {
			case chain.TypeServiceStart:
				starts++
				if ev.content["clean"] != true {
					t.Errorf("start %d: %v", i, ev.content)
				}
			case chain.TypePricesLoaded:
				prices++
			case chain.TypeServiceStop:
				stops++
			}
		}
		if starts != i+1 || stops != i || prices != 1 {
			t.Errorf("start %d: %d starts, %d stops, %d price tables", i, starts, stops, prices)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnrecordedRefusalsAreToldByTheNextStart(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	for range 3 {
		e.CountUnavailable()
	}
	// The file goes away: the next append latches, and the marker stays.
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), engine.Draft{Type: "a.b"}); !errors.Is(err, engine.ErrLatched) {
		t.Fatalf("append to a file that is gone: %v", err)
	}
	<-e.Dead()
	e.CountUnavailable()
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Options{
		Path: path, Signer: signer,
		Verify: func(context.Context, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	list := events(t, e)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Type == chain.TypeServiceStart {
			if list[i].content["unavailable"] != 4.0 || list[i].content["clean"] != false {
				t.Errorf("%v", list[i].content)
			}
			return
		}
	}
	t.Error("no service.started")
}

func TestDrainAdmitsNothingMore(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	c, err := e.Begin(t.Context(), spec("r"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { e.Drain(ctx); close(done) }()
	for { // until the drain has begun
		_, err := e.Append(t.Context(), engine.Draft{Type: "a.b"})
		if errors.Is(err, engine.ErrStopping) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Begin(t.Context(), spec("r")); !errors.Is(err, engine.ErrStopping) {
		t.Error(err)
	}
	select {
	case <-done:
		t.Error("drained over a call in flight")
	default:
	}
	cancel() // patience is over: the call is told to stop
	<-c.Context().Done()
	if _, err := c.Fail(engine.FailedStopped, 0); err != nil {
		t.Error(err)
	}
	<-done
}

func TestExportOfAnyRange(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	for range 20 {
		if _, err := e.Append(t.Context(), engine.Draft{Type: "a.b"}); err != nil {
			t.Fatal(err)
		}
	}
	head := e.Head()
	for from := uint64(1); from <= head.Seq; from += 3 {
		for to := from; to <= head.Seq; to += 4 {
			var b bytes.Buffer
			if err := e.Export(t.Context(), &b, engine.ExportSpec{From: from, To: to}); err != nil {
				t.Fatal(err)
			}
			checkExport(t, b.Bytes(), from, to)
		}
	}
	for _, s := range []engine.ExportSpec{{From: 5, To: 4}, {To: 1 << 40}} {
		if err := e.Export(t.Context(), &bytes.Buffer{}, s); !errors.Is(err, engine.ErrRange) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// checkExport judges an export by the trailer's own statements.
func checkExport(t *testing.T, b []byte, from, to uint64) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	last, err := chain.ParseLine(lines[len(lines)-1])
	if err != nil || last.Trailer == nil {
		t.Fatal(err)
	}
	tr := last.Trailer
	if tr.First != from || tr.Last != to || tr.Events != to-from+1 || uint64(len(lines)) != tr.Events+1 {
		t.Errorf("%d to %d: %+v", from, to, tr)
	}
	f, err := chain.NewFrontier(from-1, tr.Peaks)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[:len(lines)-1] {
		line, err := chain.ParseLine(l)
		if err != nil {
			t.Fatal(err)
		}
		f.Add(line.Event.Hash)
	}
	if f.Root() != *tr.Root {
		t.Errorf("%d to %d: the root does not follow from peaks and events", from, to)
	}
}
