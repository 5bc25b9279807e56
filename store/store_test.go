package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// Any mix of parallel appends gives one contiguous chain, and the number of
// events is the highest number.
func TestParallelAppendsGiveOneChain(t *testing.T) {
	t.Parallel()
	s := opened(t)
	var wg sync.WaitGroup
	var appended atomic.Uint64
	for g := range 64 {
		wg.Go(func() {
			for i := range 50 {
				d := event("%d of %d", i, g)
				if g%3 > 0 {
					d.Header.Run = fmt.Sprint("r", g%7)
				}
				var err error
				if n := i % 5; n > 2 {
					_, err = s.AppendAll(t.Context(), slices.Repeat([]store.Draft{d}, n))
					appended.Add(uint64(n))
				} else {
					_, err = s.Append(t.Context(), d)
					appended.Add(1)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := s.Head().Seq, appended.Load()+1; got != want {
		t.Errorf("head is %d, not %d", got, want)
	}
	if err := checkChain(readAll(t, s), s.Head()); err != nil {
		t.Error(err)
	}
}

// The events of one AppendAll are consecutive, and of one commit.
func TestAppendAllIsWhole(t *testing.T) {
	t.Parallel()
	s := opened(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				receipts, err := s.AppendAll(t.Context(), slices.Repeat([]store.Draft{event("x")}, 7))
				if err != nil {
					t.Error(err)
					return
				}
				for i, r := range receipts {
					if r.Seq != receipts[0].Seq+uint64(i) {
						t.Errorf("receipt %d has number %d", i, r.Seq)
					}
				}
			}
		})
	}
	wg.Wait()
	before := s.Head().Seq
	bad := event("y")
	bad.Content = []byte(`{"a":1,"a":2}`)
	_, err := s.AppendAll(t.Context(), []store.Draft{event("x"), bad, event("z")})
	if form, ok := errors.AsType[*chain.FormError](err); !ok || form.Path != "/content/a" {
		t.Errorf("refusal %v", err)
	}
	if got := s.Head().Seq; got != before {
		t.Errorf("a refused batch left %d events", got-before)
	}
	if r, err := s.AppendAll(t.Context(), nil); err != nil || len(r) != 0 {
		t.Errorf("nothing appended: %v, %v", r, err)
	}
}

// A batch larger than a group is still one commit.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	s := opened(t)
	f := s.Interpose(false, nil)
	r, err := s.AppendAll(t.Context(), slices.Repeat([]store.Draft{event("x")}, 3*store.MaxGroupEvents))
	if err != nil || len(r) != 3*store.MaxGroupEvents {
		t.Fatal(len(r), err)
	}
	if f.Commits != 1 {
		t.Errorf("%d commits", f.Commits)
	}
}

// An append is durable when it returns: what a reader sees then is in the
// file, and no number is given out whose predecessor is not.
func TestAppendReturnsDurable(t *testing.T) {
	t.Parallel()
	s := opened(t)
	f := s.Interpose(true, nil)
	done := make(chan store.Receipt)
	go func() {
		r, err := s.Append(t.Context(), event("x"))
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-f.Entered
	if got := s.Head().Seq; got != 1 {
		t.Errorf("head is %d before the commit", got)
	}
	if events, err := s.Read(2, 1); err != nil || len(events) != 0 {
		t.Errorf("read %d events before the commit, %v", len(events), err)
	}
	select {
	case <-done:
		t.Error("acknowledged before the commit")
	default:
	}
	f.Let(1)
	if r := <-done; r.Seq != 2 || s.Head().Seq != 2 {
		t.Errorf("receipt %d, head %d", r.Seq, s.Head().Seq)
	}
}

// What somebody adds from inside the writer's own path has the next number and
// doesn't deadlock, and reading there neither.
func TestAppendFromInsideTheWriter(t *testing.T) {
	t.Parallel()
	s := opened(t)
	mustAppend(t, s, event("before"))
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			p, err := store.Prepare(event("call %d", g))
			if err != nil {
				t.Error(err)
				return
			}
			ticket, err := s.Sequence(func(q *store.Sequencer) error {
				if _, _, err := s.Run("r"); err != nil {
					return err
				}
				if _, err := s.OpenCalls(); err != nil {
					return err
				}
				at := q.Next()
				control, err := store.Prepare(event("control of %d", at))
				if err != nil {
					return err
				}
				if got := q.Add(control); got != at {
					t.Errorf("number %d, not %d", got, at)
				}
				q.Add(p)
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := ticket.Wait(t.Context())
			if err != nil || len(r) != 2 || r[1].Seq != r[0].Seq+1 {
				t.Error(r, err)
			}
		})
	}
	wg.Wait()
}

// A decision that ends in an error leaves nothing, and what it added can be
// added again.
func TestSequenceRefused(t *testing.T) {
	t.Parallel()
	s := opened(t)
	p, err := store.Prepare(event("x"))
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	if _, err := s.Sequence(func(q *store.Sequencer) error { q.Add(p); return no }); err != no {
		t.Error(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = s.Sequence(func(q *store.Sequencer) error { q.Add(p); panic("in the decision") })
	}()
	ticket, err := s.Sequence(func(q *store.Sequencer) error { q.Add(p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ticket.Wait(t.Context()); err != nil || r[0].Seq != 2 {
		t.Error(r, err)
	}
	for _, again := range []func(*store.Sequencer) error{
		func(q *store.Sequencer) error { q.Add(p); return nil },
		func(q *store.Sequencer) error {
			fresh, err := store.Prepare(event("y"))
			if err == nil {
				q.Add(fresh)
				q.Add(fresh)
			}
			return err
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("appended twice")
				}
			}()
			_, _ = s.Sequence(again)
		}()
	}
	if ticket, err = s.Sequence(func(*store.Sequencer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if r, err := ticket.Wait(t.Context()); len(r) != 0 || err != nil {
		t.Error(r, err)
	}
}

// A header that a decision changed is judged again: an ill-formed event would
// stay in the chain for ever.
func TestChangedHeaderIsJudged(t *testing.T) {
	t.Parallel()
	s := opened(t)
	for name, change := range map[string]func(*chain.Header){
		"type":   func(h *chain.Header) { h.Type = "nonsense" },
		"first":  func(h *chain.Header) { h.Type = chain.TypeCreated },
		"run":    func(h *chain.Header) { h.Run = "a b" },
		"totals": func(h *chain.Header) { h.Totals = &chain.RunTotals{} },
		"role":   func(h *chain.Header) { h.Actor.Role = " " },
		"key":    func(h *chain.Header) { h.Key = "\x00" },
	} {
		d := event("x")
		d.Header.Actor = &chain.Actor{Role: "a", Context: "b", Pass: "c"}
		p, err := store.Prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Sequence(func(q *store.Sequencer) error { q.Add(p); change(&p.Header); return nil })
		if !errors.Is(err, chain.ErrForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := event("x")
	d.Header.Type, d.Header.Actor = chain.TypeLockAcquired, &chain.Actor{Role: "a", Context: "b", Pass: "c", Fence: chain.MaxInt}
	p, err := store.Prepare(d)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := s.Sequence(func(q *store.Sequencer) error { p.Header.Actor.Fence = q.Add(p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := ticket.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.Read(r[0].Seq, 1)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := chain.ParseHeader(events[0].Header); err != nil || h.Actor.Fence != h.Seq {
		t.Error(h, err)
	}
	d.Header = chain.Header{Type: chain.TypeCreated}
	if _, err := s.Append(t.Context(), d); !errors.Is(err, chain.ErrForm) {
		t.Errorf("a second ledger.created: %v", err)
	}
	if got := s.Head().Seq; got != r[0].Seq {
		t.Errorf("head %d", got)
	}
}

// Two ledgers share nothing: one that waits for its disk doesn't hold up the
// other, in one folder too.
func TestTwoLedgersDoNotContend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeLedger(t, dir+"/a.db")
	makeLedger(t, dir+"/b.db")
	a, b := open(t, dir+"/a.db"), open(t, dir+"/b.db")
	f := a.Interpose(true, nil)
	stuck := make(chan error, 1)
	go func() { _, err := a.Append(t.Context(), event("a")); stuck <- err }()
	<-f.Entered
	for range 100 {
		mustAppend(t, b, event("b"))
	}
	f.Let(1)
	if err := <-stuck; err != nil {
		t.Error(err)
	}
	mustClose(t, a)
	if m := store.MarkerPath(dir + "/b.db"); !slices.Contains(names(t, m), "b.db.dirty") {
		t.Errorf("closing one ledger took the other's marker: %v", names(t, m))
	}
	mustClose(t, b)
	if got := names(t, dir+"/a.db"); !slices.Equal(got, []string{"a.db", "b.db"}) {
		t.Errorf("left behind: %v", got)
	}
}

// The same calls made by 1 and by 64 goroutines give the same totals and the
// same rows.
func TestSameCallsSameRows(t *testing.T) {
	t.Parallel()
	rows := func(workers int) (list []string, totals string) {
		s := opened(t)
		runCalls(t, s, workers, 200)
		for _, e := range readAll(t, s)[1:] {
			h, err := chain.ParseHeader(e.Header)
			if err != nil {
				t.Fatal(err)
			}
			cost := ""
			if h.Meter != nil {
				cost = h.Meter.Cost.String()
			}
			list = append(list, fmt.Sprintf("%s %s %s %s", h.Type, h.Run, cost, e.Content))
		}
		slices.Sort(list)
		for _, scope := range []string{chain.ScopeLedger, chain.ScopeRun, chain.ScopeModel} {
			err := s.Totals(scope, func(parts []string, t chain.Totals) error {
				totals += fmt.Sprintf("%s %q %d %d %d %s\n", scope, parts, t.Calls, t.Failed, t.Unpriced, t.Cost)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if calls, err := s.OpenCalls(); err != nil || len(calls) != 0 {
			t.Errorf("open calls %v, %v", calls, err)
		}
		return list, totals
	}
	oneRows, oneTotals := rows(1)
	manyRows, manyTotals := rows(64)
	if !slices.Equal(oneRows, manyRows) {
		t.Error("other rows")
	}
	if oneTotals != manyTotals || oneTotals == "" {
		t.Errorf("other totals:\n%s\n%s", oneTotals, manyTotals)
	}
}

// runCalls records n calls, each a request and its outcome, by so many workers.
func runCalls(t *testing.T, s *store.Store, workers, n int) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := recordCall(t.Context(), s, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func recordCall(ctx context.Context, s *store.Store, i int) error {
	run := fmt.Sprint("run-", i%9)
	r, err := s.Append(ctx, store.Draft{
		Header:  chain.Header{Type: chain.TypeRequest, Run: run, Parts: map[string]chain.Part{"request": {Media: "x/y"}}},
		Content: fmt.Appendf(nil, `{"call":%d}`, i),
	})
	if err != nil {
		return err
	}
	price, err := chain.ParsePrice("2.5")
	if err != nil {
		return err
	}
	units := uint64(i * 7)
	cost := price.TimesUnits(units)
	_, err = s.Append(ctx, store.Draft{
		Header: chain.Header{
			Type: chain.TypeResponse, Run: run, Call: r.Seq, Parts: map[string]chain.Part{"response": {Media: "x/y"}},
			Meter: &chain.Meter{
				Model: "m", Provider: "p", Source: chain.SourceReported,
				Usage: map[string]uint64{"input": units}, Prices: map[string]chain.Decimal{"input": price}, Cost: &cost,
			},
		},
		Content: fmt.Appendf(nil, `{"of":%d}`, i),
	})
	return err
}

// Appends are linearizable: one that began after another had returned has the
// greater number, and numbers are given out once.
// Groups: whoever comes while a commit runs shares the next one.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := opened(t)
	f := s.Interpose(true, nil)
	var wg sync.WaitGroup
	wg.Go(func() { mustAppend(t, s, event("first")) })
	<-f.Entered
	prepared := make([]*store.Prepared, 500)
	for i := range prepared {
		var err error
		if prepared[i], err = store.Prepare(event("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	tickets := make([]*store.Ticket, len(prepared))
	for i, p := range prepared {
		var err error
		tickets[i], err = s.Sequence(func(q *store.Sequencer) error { q.Add(p); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Let(2)
	for i, ticket := range tickets {
		if r, err := ticket.Wait(t.Context()); err != nil || r[0].Seq != uint64(i+3) {
			t.Fatal(i, r, err)
		}
	}
	wg.Wait()
	if f.Commits != 2 {
		t.Errorf("%d commits", f.Commits)
	}
}

// Whoever gives up waiting learns that the outcome is unknown, and the event
// is kept all the same.
func TestGivingUpTheWait(t *testing.T) {
	t.Parallel()
	s := opened(t)
	f := s.Interpose(true, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error)
	d := event("x")
	d.Header.Key = "k"
	go func() { _, err := s.Append(ctx, d); gone <- err }()
	<-f.Entered
	left := errors.New("client left")
	cancel(left)
	if err := <-gone; !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, left) {
		t.Error(err)
	}
	f.Let(2)
	if r := mustAppend(t, s, d); r.Seq != 2 || !r.Replayed {
		t.Error(r)
	}
	// One that never began says nothing of the kind.
	if _, err := s.Append(ctx, event("y")); errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, left) {
		t.Error(err)
	}
	if got := s.Head().Seq; got != 2 {
		t.Errorf("head %d", got)
	}
}

// What was acknowledged when Close came is there, what was refused is not.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[uint64]chain.Hash{}
	for g := range 32 {
		wg.Go(func() {
			for i := 0; ; i++ {
				r, err := s.Append(t.Context(), event("%d %d", g, i))
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged[r.Seq] = r.Hash
				mu.Unlock()
			}
		})
	}
	if err := s.Wait(t.Context(), 300); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	events := checkFile(t, path)
	if len(events) != len(acknowledged)+1 {
		t.Errorf("%d events, %d acknowledged", len(events), len(acknowledged))
	}
	for i, e := range events[1:] {
		if acknowledged[uint64(i+2)] != e.Hash {
			t.Errorf("event %d is not the one acknowledged", i+2)
		}
	}
}

// The bytes that leave a transaction are the reader's own.
// Tail gives every event once, in order, while others append.
// What makes a commit durable can't be switched off.
// Numbers end before they could wrap.
// The clock is recorded as read, whatever it reads; what the format can't
// spell is refused.
// A snapshot under load is a ledger of its own, and knows nothing that the
// ledger could still lose.
// A ledger of each version that was ever written can be gone on with: its
// events stay as they are, and what is derived from them fits.
