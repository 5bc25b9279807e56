package store

import (
	"errors"
	"time"

	"go.etcd.io/bbolt"
)

// DB is the database under s.
func (s *Store) DB() *bbolt.DB { return s.back.(*boltFile).db }

// SetNext makes the next number n, for tests of the last ones.
func (s *Store) SetNext(n uint64) {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	s.next = n
}

// InHand is the number of idempotency keys that are not durable yet.
func (s *Store) InHand() int {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	return len(s.inHand)
}

// Short makes the reserve believe that the disk is full.
func (s *Store) Short() {
	s.reserve.mu.Lock()
	defer s.reserve.mu.Unlock()
	s.reserve.free, s.reserve.asked = 17, time.Now().Add(time.Hour)
}

// MarkerPath is where the marker of a ledger lies.
func MarkerPath(ledger string) string { return markerPath(ledger) }

// Constants of the store that tests are written against.
const (
	MaxGroupEvents = maxGroupEvents
	TailEvents     = tailEvents
	MarkerSize     = markerSize
	MaxSequence    = maxSequence
)

// ErrInjected is the error of a commit that was made to fail.
var ErrInjected = errors.New("injected")

// Fault is a way in which a commit can fail.
type Fault struct {
	Kept  bool // the change was made durable all the same
	Panic bool
	Lie   bool // nothing was written, and no error says so
}

// Faulty stands between a store and its backend. It is put there before the
// first append.
type Faulty struct {
	backend
	gate    chan struct{} // each commit takes one from it; nil for none
	Entered chan struct{} // gets one when a commit has come to the gate
	faults  map[int]Fault // by the number of the commit, from 1
	Commits int           // begun so far; read it when the store is closed
	Writes  int           // that reached the backend
}

// Interpose puts a Faulty under s. With gated, each commit waits for Let.
func (s *Store) Interpose(gated bool, faults map[int]Fault) *Faulty {
	f := &Faulty{backend: s.back, faults: faults}
	if gated {
		f.gate, f.Entered = make(chan struct{}, 1<<20), make(chan struct{}, 1<<20)
	}
	s.back = f
	return f
}

// Let lets n commits pass the gate.
func (f *Faulty) Let(n int) {
	for range n {
		f.gate <- struct{}{}
	}
}

func (f *Faulty) commit(build func(reader) (*change, error)) error {
	f.Commits++
	if f.gate != nil {
		f.Entered <- struct{}{}
		<-f.gate
	}
	fault, ok := f.faults[f.Commits]
	if !ok {
		f.Writes++
		return f.backend.commit(build)
	}
	if fault.Kept {
		f.Writes++
		if err := f.backend.commit(build); err != nil {
			return err
		}
	}
	if fault.Lie {
		return f.backend.view(func(r reader) error {
			_, err := build(r)
			return err
		})
	}
	if fault.Panic {
		return guard(func() error { panic(ErrInjected) })
	}
	return ErrInjected
}
