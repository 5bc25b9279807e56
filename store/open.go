package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/durable"
	"github.com/docket-audit/docket/migrations"
	"go.etcd.io/bbolt"
)

// mmapSize is reserved in the address space at once, so that the file can grow
// to it without waiting for readers to leave the old map.
const mmapSize = 1 << 30

// Open opens the ledger at path for writing and holds its lock until Close. It
// makes nothing: see Init. After an unclean end it first does what is needed:
// after a crash of the process the tail is checked, after a failure of storage
// or of the machine the file is rewritten. The tail is checked in any case.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s := newStore(path, o)
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if s.file, err = openLocked(path, o.AnyFileSystem); err != nil {
		return nil, err
	}
	if err := s.start(ctx, boot); err != nil {
		s.abandon()
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return s, nil
}

func newStore(path string, o Options) *Store {
	s := &Store{
		path: path, opts: o, log: o.Log, now: o.Now,
		keysInHand:    map[string]uint64{},
		committerDone: make(chan struct{}),
		moved:         make(chan struct{}),
		dead:          make(chan struct{}),
	}
	s.wake = sync.NewCond(&s.queueMu)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// start brings an open and locked file to the point where appends can begin.
func (s *Store) start(ctx context.Context, boot string) error {
	if err := durable.RemoveTemps(s.path); err != nil {
		return err
	}
	left, err := readMarker(s.path, boot)
	if err != nil {
		return err
	}
	if s.db, err = openDB(s.path, s.file); err != nil {
		return err
	}
	if left.rewrite {
		s.log.Warn("rewriting the ledger before the first append", "path", s.path, "why", left.why)
		if err := s.rewrite(ctx, left.why); err != nil {
			return err
		}
	}
	if err := s.load(); err != nil {
		return err
	}
	if s.marker, err = setMarker(s.path, boot, s.now()); err != nil {
		return err
	}
	s.marker.setUnavailable(left.unavailable)
	s.unclean, s.leftUnavailable = left.marker, left.unavailable
	go s.commitLoop()
	return nil
}

// openDB gives bbolt our descriptor, so that the file that was judged and
// locked is the one that is written. bbolt locks it again, which changes
// nothing on the same descriptor.
func openDB(path string, f *os.File) (*bbolt.DB, error) {
	var db *bbolt.DB
	err := guard(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         time.Second,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mmapSize,
			PageSize:        PageSize,
			OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return f, nil },
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; docket verify tells more, and the file was left as it is: %w", err, ErrNotLedger)
	}
	return db, nil
}

// load reads the head, checks the tail, and rebuilds what is derived where it
// doesn't fit.
func (s *Store) load() error {
	if err := s.view(migrations.Check); err != nil {
		return err
	}
	var misfit error
	err := s.view(func(tx *bbolt.Tx) error {
		misfit = derivedFit(tx)
		return nil
	})
	if err != nil {
		return err
	}
	if misfit != nil {
		s.log.Warn("rebuilding what is derived from the events", "path", s.path, "why", misfit.Error())
		if err := guard(func() error { return s.db.Update(rebuild) }); err != nil {
			return err
		}
	}
	return s.view(func(tx *bbolt.Tx) error {
		head, err := chain.ParseHead(tx.Bucket([]byte(chain.BucketMeta)).Get([]byte(chain.KeyHead)))
		if err != nil {
			return err
		}
		if s.ledger, err = ledgerID(tx); err != nil {
			return err
		}
		if err := checkTail(tx, head); err != nil {
			return err
		}
		s.head, s.next = head, head.Seq+1
		return nil
	})
}

// ledgerID reads the id from event 1.
func ledgerID(tx *bbolt.Tx) (string, error) {
	e, err := chain.DecodeEvent(tx.Bucket([]byte(chain.BucketEvents)).Get(chain.SeqKey(1)))
	if err != nil {
		return "", fmt.Errorf("event 1: %w: %w", err, ErrNotLedger)
	}
	c, err := chain.ParseCreated(e.Content)
	if err != nil {
		return "", fmt.Errorf("event 1: %w: %w", err, ErrNotLedger)
	}
	return c.Ledger, nil
}

// tailEvents is how far back the tail is checked: more than one group.
const tailEvents = 2 * maxGroupEvents

// checkTail recomputes hashes, commitments and links of the last events: what
// the database returns without an error can still be another write's page.
func checkTail(tx *bbolt.Tx, head chain.Head) error {
	bucket := tx.Bucket([]byte(chain.BucketEvents))
	first := uint64(1)
	if head.Seq > tailEvents {
		first = head.Seq - tailEvents + 1
	}
	var before *chain.Event
	for seq := first; seq <= head.Seq; seq++ {
		e, err := chain.DecodeEvent(bucket.Get(chain.SeqKey(seq)))
		if err == nil {
			err = checkEvent(e, before, seq)
		}
		if err != nil {
			return fmt.Errorf("event %d of %d is damaged; docket verify tells more, and the file was left as it is: %w: %w", seq, head.Seq, err, ErrNotLedger)
		}
		before = e
	}
	return nil
}

func checkEvent(e, before *chain.Event, seq uint64) error {
	h, err := chain.ParseHeader(e.Header)
	switch {
	case err != nil:
		return err
	case chain.EventHash(e.Header) != e.Hash:
		return errors.New("its header has another hash")
	case h.Seq != seq:
		return fmt.Errorf("it says that it is event %d", h.Seq)
	case before != nil && h.Prev != before.Hash:
		return errors.New("it is not linked to the event before")
	case e.Content != nil && chain.ContentCommit(e.Salt, e.Content) != h.Content:
		return errors.New("its content is not the one committed to")
	}
	return nil
}

// Close stops appends, makes durable what has a number, and closes the file.
// After a latch it closes the file and leaves the marker for the next start.
func (s *Store) Close() error {
	s.seqMu.Lock()
	if s.closing {
		s.seqMu.Unlock()
		return nil
	}
	s.closing = true
	s.seqMu.Unlock()

	s.queueMu.Lock()
	s.stop = true
	s.wake.Signal()
	s.queueMu.Unlock()
	<-s.committerDone

	err := guard(s.db.Close)
	if s.Err() != nil {
		return errors.Join(err, s.marker.file.Close())
	}
	return errors.Join(err, s.marker.clear())
}

// abandon closes what a failed start has opened.
func (s *Store) abandon() {
	if s.db != nil {
		_ = guard(s.db.Close) // closes file as well
		return
	}
	s.file.Close()
}
