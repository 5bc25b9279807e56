package store_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
)

func TestAppendsAreLinearizable(t *testing.T) {
	t.Parallel()
	s := opened(t)
	type op struct {
		began, ended time.Time
		seq          uint64
	}
	var mu sync.Mutex
	var ops []op
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 40 {
				o := op{began: time.Now()}
				r, err := s.Append(t.Context(), event("x"))
				o.ended, o.seq = time.Now(), r.Seq
				if err != nil {
					t.Error(err)
					return
				}
				if got := s.Head().Seq; got < r.Seq {
					t.Errorf("head %d after receipt %d", got, r.Seq)
				}
				mu.Lock()
				ops = append(ops, o)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// By number: none began after a later one had ended.
	slices.SortFunc(ops, func(a, b op) int { return int(a.seq) - int(b.seq) })
	earliestEnd := ops[len(ops)-1].ended
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].seq != uint64(i+2) {
			t.Fatalf("operation %d has number %d", i, ops[i].seq)
		}
		if ops[i].began.After(earliestEnd) {
			t.Fatalf("number %d began after a greater one had returned", ops[i].seq)
		}
		if ops[i].ended.Before(earliestEnd) {
			earliestEnd = ops[i].ended
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	s := open(t, newLedger(t))
	mustAppend(t, s, event("x"))
	tailing := make(chan error)
	go func() { tailing <- s.Tail(t.Context(), 1, func(chain.Event) error { return nil }) }()
	mustClose(t, s)
	mustClose(t, s)
	if err := <-tailing; !errors.Is(err, store.ErrClosed) {
		t.Errorf("tail: %v", err)
	}
	p, err := store.Prepare(event("x"))
	if err != nil {
		t.Fatal(err)
	}
	_, appendErr := s.Append(t.Context(), event("x"))
	_, sequenceErr := s.Sequence(func(q *store.Sequencer) error { q.Add(p); return nil })
	_, readErr := s.Read(1, 1)
	_, _, runErr := s.Run("r")
	_, callsErr := s.OpenCalls()
	_, totalErr := s.Total(chain.ScopeLedger)
	_, snapshotErr := s.Snapshot(new(bytes.Buffer))
	for what, err := range map[string]error{
		"append": appendErr, "sequence": sequenceErr, "read": readErr, "run": runErr, "open calls": callsErr,
		"total": totalErr, "snapshot": snapshotErr, "wait": s.Wait(t.Context(), 3),
		"runs":   s.Runs(func(string, chain.RunState) error { return nil }),
		"totals": s.Totals(chain.ScopeRun, func([]string, chain.Totals) error { return nil }),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.KeepUnavailable(3) // too late, and harmless
	if got := s.Head().Seq; got != 2 {
		t.Errorf("head %d", got)
	}
}

func TestReadMemoryIsOwned(t *testing.T) {
	t.Parallel()
	s := open(t, newLedger(t))
	for i := range 50 {
		mustAppend(t, s, event("%d", i))
	}
	events, err := s.Read(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Read(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again {
		clear(again[i].Header)
		clear(again[i].Content)
	}
	head := s.Head()
	other := s.Head()
	other.Frontier.Add(chain.Hash{}) // a frontier that grows apart
	mustClose(t, s)                  // unmaps the file
	if err := checkChain(events, head); err != nil {
		t.Error(err)
	}
}

func TestReadBounds(t *testing.T) {
	t.Parallel()
	s := opened(t)
	for i := range 9 {
		mustAppend(t, s, event("%d", i))
	}
	for _, c := range []struct {
		from uint64
		most int
		want int
	}{{0, 3, 3}, {1, 3, 3}, {9, 10, 2}, {10, 10, 1}, {11, 10, 0}, {chain.MaxInt, 1, 0}, {1, 0, 0}, {1, -1, 0}} {
		events, err := s.Read(c.from, c.most)
		if err != nil || len(events) != c.want {
			t.Errorf("Read(%d, %d): %d events, %v", c.from, c.most, len(events), err)
		}
	}
	big := event("x")
	big.Content = []byte(`{"a":"` + string(bytes.Repeat([]byte("x"), 1<<20-16)) + `"}`)
	for range 12 {
		mustAppend(t, s, big)
	}
	if events, err := s.Read(11, 12); err != nil || len(events) == 0 || len(events) >= 12 {
		t.Errorf("one read gave %d events of 1 MiB, %v", len(events), err)
	}
	if got := len(readAll(t, s)); got != 22 {
		t.Errorf("%d events", got)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	s := opened(t)
	var wg sync.WaitGroup
	stop := errors.New("enough")
	for _, from := range []uint64{0, 1, 5, 101} {
		wg.Go(func() {
			want := max(from, 1)
			err := s.Tail(t.Context(), from, func(e chain.Event) error {
				h, err := chain.ParseHeader(e.Header)
				if err != nil {
					return err
				}
				if h.Seq != want {
					return fmt.Errorf("event %d in place of %d", h.Seq, want)
				}
				want++
				if h.Seq == 201 {
					return stop
				}
				return nil
			})
			if err != stop {
				t.Error(err)
			}
		})
	}
	for i := range 200 {
		mustAppend(t, s, event("%d", i))
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Tail(ctx, 1, func(chain.Event) error { t.Error("called"); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSyncsAreOn(t *testing.T) {
	t.Parallel()
	s := opened(t)
	db := s.DB()
	if db.NoSync || db.NoGrowSync || db.NoFreelistSync {
		t.Errorf("NoSync %v, NoGrowSync %v, NoFreelistSync %v", db.NoSync, db.NoGrowSync, db.NoFreelistSync)
	}
	if got := db.Info().PageSize; got != store.PageSize {
		t.Errorf("pages of %d bytes", got)
	}
}

func TestNumbersEnd(t *testing.T) {
	t.Parallel()
	s := opened(t)
	s.SetNext(chain.MaxInt - store.MaxSequence + 1)
	called := false
	_, err := s.Sequence(func(*store.Sequencer) error { called = true; return nil })
	if !errors.Is(err, store.ErrFull) || called {
		t.Error(err, called)
	}
	s.SetNext(2)
	mustAppend(t, s, event("x"))
}

func TestClock(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	var now atomic.Pointer[time.Time]
	set := func(v time.Time) { now.Store(&v) }
	set(time.Unix(0, 0))
	s, err := store.Open(t.Context(), path, store.Options{Now: func() time.Time { return *now.Load() }})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2106, 2, 7, 6, 28, 16, 1, time.UTC), time.Date(2026, 11, 30, 0, 0, 0, 0, time.FixedZone("", 3600)), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)} {
		set(at)
		if r := mustAppend(t, s, event("x")); r.TS != chain.FormatTime(at) {
			t.Errorf("ts %s", r.TS)
		}
	}
	for _, at := range []time.Time{time.Unix(-1, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		set(at)
		if _, err := s.Append(t.Context(), event("x")); !errors.Is(err, chain.ErrForm) {
			t.Errorf("%v: %v", at, err)
		}
	}
	set(time.Unix(1e9, 0))
	mustAppend(t, s, event("x"))
	mustClose(t, s)
	if got := len(checkFile(t, path)); got != 6 {
		t.Errorf("%d events", got)
	}
}

func TestSnapshotUnderLoad(t *testing.T) {
	t.Parallel()
	s := opened(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					mustAppend(t, s, event("x"))
				}
			}
		})
	}
	for i := range 20 {
		path := fmt.Sprintf("%s/copy-%d.db", t.TempDir(), i)
		head := snapshotTo(t, s, path)
		if durable := s.Head().Seq; head.Seq > durable {
			t.Errorf("snapshot of %d events, %d durable", head.Seq, durable)
		}
		if got := uint64(len(checkFile(t, path))); got != head.Seq {
			t.Errorf("snapshot %d has %d events, not %d", i, got, head.Seq)
		}
	}
	close(stop)
	wg.Wait()
}

func TestStoredLedgers(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../migrations/testdata/v1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/ledger.db"
	if err := writeFile(path, b); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t, path, verify.Intact)
	s := storetest.Reopen(t, path)
	if got := s.Head(); got.Seq != 19 || got.Hash.String() != "68ca52a4e0835d298db5606e9a74163e5f4ffb82c150db08f9d87b3f4e966b14" {
		t.Errorf("head %d %s", got.Seq, got.Hash)
	}
	if r := mustAppend(t, s.Store, keyed("key", "x")); !r.Replayed || r.Seq != 7 {
		t.Errorf("a stored key gives %+v", r)
	}
	if calls, err := s.OpenCalls(); err != nil || len(calls) != 1 || calls[0].Seq != 19 {
		t.Errorf("open calls %v, %v", calls, err)
	}
	if total, err := s.Total(chain.ScopeLedger); err != nil || total.Calls != 6 || total.Cost.String() != "0.0005775" {
		t.Errorf("totals %+v, %v", total, err)
	}
	mustAppend(t, s.Store, event("x"))
}
