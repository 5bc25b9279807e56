package store_test

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

func keyed(key, say string) store.Draft {
	d := event("%s", say)
	d.Header.Key = key
	return d
}

// withPart gives d a part with its body.
func withPart(d store.Draft, name, media, body string) store.Draft {
	salt := chain.Salt{1, 2, 3}
	d.Header.Parts = maps.Clone(d.Header.Parts)
	if d.Header.Parts == nil {
		d.Header.Parts, d.PartSalts, d.Bodies = map[string]chain.Part{}, map[string]chain.Salt{}, map[string][]byte{}
	}
	d.Header.Parts[name] = chain.Part{Bytes: uint64(len(body)), Commit: chain.PartCommit(salt, []byte(body)), Media: media}
	d.PartSalts[name], d.Bodies[name] = salt, []byte(body)
	return d
}

// The same key gives the first receipt again: durable, after a restart, and
// however the content is spelled.
func TestKeyGivesTheFirstReceipt(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	d := withPart(keyed("k", "x"), "p", "a/b", "body")
	first := mustAppend(t, s, d)
	if first.Replayed {
		t.Error("replayed at once")
	}
	first.Replayed = true
	d.Content = []byte("{ \"say\" : \"\\u0078\" }")
	if again := mustAppend(t, s, d); again != first {
		t.Errorf("%v, not %v", again, first)
	}
	mustClose(t, s)
	s = open(t, path)
	if again := mustAppend(t, s, d); again != first {
		t.Errorf("%v after a restart, not %v", again, first)
	}
	if got := s.Head().Seq; got != 2 {
		t.Errorf("%d events", got)
	}
	if got := s.InHand(); got != 0 {
		t.Errorf("%d keys in hand", got)
	}
	mustClose(t, s)
}

// Another draft under a key is refused, whatever differs, durable or in hand,
// and with it everything that stands beside it.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	actor := &chain.Actor{Role: "a", Context: "b", Pass: "c"}
	base := func() store.Draft { return withPart(keyed("k", "x"), "p", "a/b", "body") }
	other := map[string]func(*store.Draft){
		"type":        func(d *store.Draft) { d.Header.Type = "tool.other" },
		"run":         func(d *store.Draft) { d.Header.Run = "r" },
		"actor":       func(d *store.Draft) { d.Header.Actor = actor },
		"content":     func(d *store.Draft) { d.Content = []byte(`{"say":"y"}`) },
		"body":        func(d *store.Draft) { *d = withPart(keyed("k", "x"), "p", "a/b", "bodY") },
		"length":      func(d *store.Draft) { *d = withPart(keyed("k", "x"), "p", "a/b", "body2") },
		"media":       func(d *store.Draft) { *d = withPart(keyed("k", "x"), "p", "a/c", "body") },
		"name":        func(d *store.Draft) { *d = withPart(keyed("k", "x"), "q", "a/b", "body") },
		"no part":     func(d *store.Draft) { *d = keyed("k", "x") },
		"no body":     func(d *store.Draft) { d.Bodies = nil },
		"a part more": func(d *store.Draft) { *d = withPart(*d, "q", "a/b", "") },
	}
	check := func(t *testing.T, s *store.Store) {
		for name, change := range other {
			d := base()
			change(&d)
			if _, err := s.Append(t.Context(), d); !errors.Is(err, store.ErrKeyConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		d := base()
		d.Header.Type = "tool.other"
		if _, err := s.AppendAll(t.Context(), []store.Draft{event("beside"), d}); !errors.Is(err, store.ErrKeyConflict) {
			t.Error(err)
		}
	}
	t.Run("durable", func(t *testing.T) {
		s := opened(t)
		mustAppend(t, s, base())
		check(t, s)
		if got := s.Head().Seq; got != 2 {
			t.Errorf("%d events", got)
		}
	})
	t.Run("in hand", func(t *testing.T) {
		s := opened(t)
		f := s.Interpose(true, nil)
		var wg sync.WaitGroup
		wg.Go(func() { mustAppend(t, s, base()) })
		<-f.Entered
		check(t, s)
		wg.Go(func() {
			if r := mustAppend(t, s, base()); r.Seq != 2 || !r.Replayed {
				t.Error(r)
			}
		})
		f.Let(1)
		wg.Wait()
		if got := s.Head().Seq; got != 2 {
			t.Errorf("%d events", got)
		}
	})
	t.Run("in one batch", func(t *testing.T) {
		s := opened(t)
		d := base()
		d.Header.Type = "tool.other"
		if _, err := s.AppendAll(t.Context(), []store.Draft{base(), d}); !errors.Is(err, store.ErrKeyConflict) {
			t.Error(err)
		}
		r, err := s.AppendAll(t.Context(), []store.Draft{event("a"), base(), event("b"), base()})
		if err != nil || r[1].Seq != 3 || r[3].Seq != 3 || !r[3].Replayed || r[2].Seq != 4 {
			t.Error(r, err)
		}
		r, err = s.AppendAll(t.Context(), []store.Draft{base(), event("c"), base()})
		if err != nil || r[0].Seq != 3 || r[1].Seq != 5 || r[2].Seq != 3 {
			t.Error(r, err)
		}
	})
}

// However many bring the same key at once, one event comes of it.
func TestKeyUnderLoad(t *testing.T) {
	t.Parallel()
	s := opened(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seqs := map[uint64]int{}
	fresh := 0
	for range 64 {
		wg.Go(func() {
			for range 5 {
				r := mustAppend(t, s, keyed("k", "x"))
				mu.Lock()
				seqs[r.Seq]++
				if !r.Replayed {
					fresh++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seqs) != 1 || fresh != 1 || s.Head().Seq != 2 {
		t.Errorf("numbers %v, %d fresh, head %d", seqs, fresh, s.Head().Seq)
	}
}

// Key and Find tell of keys where numbers are assigned.
func TestSequencerKeys(t *testing.T) {
	t.Parallel()
	s := opened(t)
	mustAppend(t, s, keyed("old", "x"))
	same, err := store.Prepare(keyed("old", "x"))
	if err != nil {
		t.Fatal(err)
	}
	differs, err := store.Prepare(keyed("old", "y"))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := store.Prepare(keyed("new", "x"))
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := s.Sequence(func(q *store.Sequencer) error {
		if seq, ok, err := q.Key("old"); seq != 2 || !ok || err != nil {
			t.Error(seq, ok, err)
		}
		if seq, ok, err := q.Find(same); seq != 2 || !ok || err != nil {
			t.Error(seq, ok, err)
		}
		if seq, ok, err := q.Find(differs); seq != 2 || !ok || !errors.Is(err, store.ErrKeyConflict) {
			t.Error(seq, ok, err)
		}
		if seq, ok, err := q.Key("new"); seq != 0 || ok || err != nil {
			t.Error(seq, ok, err)
		}
		if _, ok, err := q.Find(fresh); ok || err != nil {
			t.Error(ok, err)
		}
		q.Add(fresh)
		if seq, ok, err := q.Key("new"); seq != 3 || !ok || err != nil {
			t.Error(seq, ok, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
