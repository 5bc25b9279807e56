package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// Every way in which a commit can fail ends all writing: each waiter is told,
// the next append is refused, nothing is written any more, and the next start
// goes on from what the file holds, without a gap and without a second number.
func TestLatch(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]store.Fault{
		"error, not kept": {},
		"error, kept":     {Kept: true},
		"panic, not kept": {Panic: true},
		"panic, kept":     {Kept: true, Panic: true},
	} {
		for at := 1; at <= 3; at++ {
			t.Run(fmt.Sprintf("%s/commit %d", name, at), func(t *testing.T) { testLatch(t, fault, at) })
		}
	}
}

func testLatch(t *testing.T, fault store.Fault, at int) {
	path := newLedger(t)
	s := open(t, path)
	f := s.Interpose(true, map[int]store.Fault{at: fault})
	for i := range at - 1 {
		f.Let(1)
		mustAppend(t, s, event("before %d", i))
		<-f.Entered
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Append(t.Context(), keyed("in-hand", "x"))
		if !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, store.ErrLatched) || strings.Contains(err.Error(), "fail to") {
			t.Errorf("the one in hand got %v", err)
		}
	})
	<-f.Entered
	// Others wait behind it.
	var tickets []*store.Ticket
	for range 10 {
		p, err := store.Prepare(event("behind"))
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := s.Sequence(func(q *store.Sequencer) error { q.Add(p); return nil })
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	wg.Go(func() {
		if err := s.Wait(t.Context(), uint64(at+1)); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("who waits for the one in hand got %v", err)
		}
	})
	wg.Go(func() {
		if err := s.Wait(t.Context(), uint64(at+2)); !errors.Is(err, store.ErrLatched) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("who waits for one behind got %v", err)
		}
	})
	f.Let(1)
	wg.Wait()
	for _, ticket := range tickets {
		if _, err := ticket.Wait(t.Context()); !errors.Is(err, store.ErrLatched) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("one behind got %v", err)
		}
	}
	<-s.Dead()
	if _, err := s.Append(t.Context(), event("second")); !errors.Is(err, store.ErrLatched) || !errors.Is(err, s.Err()) {
		t.Errorf("the second append got %v", err)
	}
	if _, err := s.Sequence(func(*store.Sequencer) error { t.Error("called"); return nil }); !errors.Is(err, store.ErrLatched) {
		t.Error(err)
	}
	if _, err := s.Snapshot(new(strings.Builder)); !errors.Is(err, store.ErrLatched) {
		t.Errorf("snapshot: %v", err)
	}
	// What is visible and not known to be durable is shown to nobody.
	if events, err := s.Read(1, 100); err != nil || len(events) != at {
		t.Errorf("read %d events, %v", len(events), err)
	}
	if _, err := s.Total(chain.ScopeLedger); fault.Kept != errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("totals: %v", err)
	}
	mustClose(t, s)
	if f.Commits != at {
		t.Errorf("%d commits begun after the failed one", f.Commits-at)
	}
	afterLatch(t, path, fault, at)
}

// afterLatch is the next start.
func afterLatch(t *testing.T, path string, fault store.Fault, at int) {
	if _, err := store.Open(t.Context(), path, store.Options{}); err == nil || !strings.Contains(err.Error(), "no verifier") {
		t.Fatalf("opened without a rewrite: %v", err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	verified := 0
	s, err := store.Open(t.Context(), path, store.Options{Verify: func(context.Context, string) error { verified++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) || verified != 1 {
		t.Errorf("not rewritten: verified %d times", verified)
	}
	if !s.Unclean() {
		t.Error("not unclean")
	}
	want := uint64(at)
	if fault.Kept {
		want++
	}
	if got := s.Head().Seq; got != want {
		t.Errorf("head %d, not %d", got, want)
	}
	// The client sends again what it doesn't know the outcome of.
	if r := mustAppend(t, s, keyed("in-hand", "x")); r.Seq != uint64(at+1) || r.Replayed != fault.Kept {
		t.Errorf("sent again: %+v", r)
	}
	mustClose(t, s)
	if got := len(checkFile(t, path)); got != at+1 {
		t.Errorf("%d events", got)
	}
}

// A file that goes away under the writer is noticed before anything is
// acknowledged.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"removed":   os.Remove,
		"renamed":   func(p string) error { return os.Rename(p, p+".old") },
		"replaced":  func(p string) error { return errors.Join(os.Rename(p, p+".old"), copyFile(p+".old", p)) },
		"symlinked": func(p string) error { return errors.Join(os.Rename(p, p+".old"), os.Symlink(p+".old", p)) },
		"hard link": func(p string) error { return os.Link(p, p+".second") },
		"directory": func(p string) error { return os.Rename(filepath.Dir(p), filepath.Dir(p)+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "ledger.db")
			makeLedger(t, path)
			var log strings.Builder
			s, err := store.Open(t.Context(), path, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			begun := make(chan struct{}, 1<<10)
			for range 16 {
				wg.Go(func() {
					for {
						if _, err := s.Append(t.Context(), event("x")); err != nil {
							if !errors.Is(err, store.ErrLatched) {
								t.Error(err)
							}
							return
						}
						select {
						case begun <- struct{}{}:
						default:
						}
					}
				})
			}
			<-begun
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			changed := s.Head().Seq
			wg.Wait()
			// One group can have passed the check before the change.
			if got := s.Head().Seq; got > changed+2*16 {
				t.Errorf("%d events acknowledged after the change", got-changed)
			}
			if err := s.Err(); err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, store.ErrUnsafeFile) {
				t.Error(err)
			}
			mustClose(t, s)
			if !strings.Contains(log.String(), "ledger latched") {
				t.Error("nothing logged")
			}
		})
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// A head that somebody else moved is noticed inside the commit.
func TestHeadMovedByAnother(t *testing.T) {
	t.Parallel()
	s := open(t, newLedger(t))
	mustAppend(t, s, event("x"))
	s.SetNext(2)
	if _, err := s.Append(t.Context(), event("y")); !errors.Is(err, store.ErrLatched) || !strings.Contains(err.Error(), "head moved") {
		t.Error(err)
	}
	if events, err := s.Read(1, 9); err != nil || len(events) != 2 {
		t.Errorf("%d events, %v", len(events), err)
	}
	mustClose(t, s)
}

// Where space runs out, ordinary events are refused with nothing latched, and
// those that end what has begun are admitted.
func TestReserve(t *testing.T) {
	t.Parallel()
	s := opened(t)
	mustAppend(t, s, event("x"))
	s.Short()
	if _, err := s.Append(t.Context(), event("y")); !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), s.Path()+": 17 bytes free") || s.Err() != nil {
		t.Error(err, s.Err())
	}
	p, err := store.Prepare(event("end"))
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := s.SequenceClosing(func(q *store.Sequencer) error { q.Add(p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ticket.Wait(t.Context()); err != nil || r[0].Seq != 3 {
		t.Error(r, err)
	}
	// The commit asked the disk again, and there was room.
	if r := mustAppend(t, s, event("z")); r.Seq != 4 {
		t.Error(r)
	}
}

// A storage that claims a write which it did not make is noticed before the
// answer.
func TestLostWrite(t *testing.T) {
	t.Parallel()
	s := open(t, newLedger(t))
	s.Interpose(false, map[int]store.Fault{2: {Lie: true}})
	mustAppend(t, s, event("x"))
	_, err := s.Append(t.Context(), event("y"))
	if !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, store.ErrLatched) || !strings.Contains(err.Error(), "lost a write") {
		t.Error(err)
	}
	mustClose(t, s)
}
