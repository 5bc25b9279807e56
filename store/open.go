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
)

// Open opens the ledger at path for writing and holds its lock until Close. It
// makes nothing: see Init. After an unclean end it first does what is needed:
// after a crash of the process the tail is checked, after a failure of storage
// or of the machine the file is rewritten. The tail is checked in any case.
// Where Open fails, the file is as it was.
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
		return nil, fmt.Errorf("open ledger %s: %w", path, errors.Join(err, s.abandon()))
	}
	return s, nil
}

func newStore(path string, o Options) *Store {
	s := &Store{
		path: path, opts: o, log: o.Log, now: o.Now,
		inHand:        map[string]*Prepared{},
		committerDone: make(chan struct{}),
		closed:        make(chan struct{}),
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
// Up to the marker it only reads, the rewrite aside, which leaves the old file
// whole until the new one has its name.
func (s *Store) start(ctx context.Context, boot string) error {
	left := readMarker(s.path, boot)
	halved, err := checkMetas(s.file, s.path)
	if err != nil {
		return err
	}
	if halved && !left.rewrite {
		return fmt.Errorf("one of the file's two meta pages is damaged, and no crash explains it: the last commit may be lost; docket verify tells more: %w", ErrNotLedger)
	}
	if err := durable.RemoveTemps(s.path); err != nil {
		return err
	}
	if err := durable.RemoveTemps(markerPath(s.path)); err != nil {
		return err
	}
	if err := s.use(s.file); err != nil {
		return err
	}
	if err := s.reaches(left.durable); err != nil {
		return err
	}
	if left.rewrite {
		s.log.Warn("rewriting the ledger before the first append", "path", s.path, "why", left.why)
		if err := s.rewrite(ctx, left.why); err != nil {
			return err
		}
	}
	fix, err := s.examine()
	if err != nil {
		return err
	}
	s.reserve = &reserve{file: s.file, path: s.path}
	if err := errors.Join(s.reserve.ask(), s.reserve.admits()); err != nil {
		return err
	}
	s.unclean, s.leftUnavailable = left.unclean, left.unavailable
	if s.marker, err = setMarker(s.path, boot, s.now(), left.unavailable); err != nil {
		return err
	}
	if err := s.begin(fix); err != nil {
		return errors.Join(s.describe(err), s.marker.flagStorageError(s.head.Seq), s.marker.leave())
	}
	go s.commitLoop()
	return nil
}

// use makes f the file that is worked on.
func (s *Store) use(f *os.File) error {
	b, err := openBolt(s.path, f)
	if err != nil {
		return err
	}
	s.file, s.back = f, b
	return b.checkSchema()
}

// reaches makes sure that the file has the event seq, which was acknowledged.
func (s *Store) reaches(seq uint64) error {
	return s.back.view(func(r reader) error {
		key, _ := r.last(chain.BucketEvents)
		last, err := chain.ParseSeqKey(key)
		if err == nil && last < seq {
			err = fmt.Errorf("the file ends at event %d, and event %d was acknowledged: the storage lost it; keep the file, and restore a copy or salvage it", last, seq)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, ErrNotLedger)
		}
		return nil
	})
}

// examine reads what a writer has to know and checks the tail. It returns what
// has to be rebuilt of what is derived, nil for nothing.
func (s *Store) examine() (fix *change, err error) {
	err = s.back.view(func(r reader) error {
		if s.ledger, err = ledgerID(r); err != nil {
			return err
		}
		last, seq, err := checkTail(r)
		if err != nil {
			return err
		}
		why, err := misfit(r, last, seq)
		if err != nil || why == nil {
			return err
		}
		s.log.Warn("rebuilding what is derived from the events", "path", s.path, "why", why.Error())
		fix, err = rebuild(r, seq)
		return err
	})
	return fix, err
}

// begin writes what was rebuilt, under the marker like every write, and takes
// the head up.
func (s *Store) begin(fix *change) error {
	if fix != nil {
		if err := s.back.commit(func(reader) (*change, error) { return fix, nil }); err != nil {
			return err
		}
	}
	return s.back.view(func(r reader) (err error) {
		s.head, err = headOf(r)
		s.next = s.head.Seq + 1
		return err
	})
}

// Close stops appends, makes durable what has a number, and closes the file.
// After a latch it closes the file and leaves the marker for the next start.
// Closing again waits for the first Close and returns the same.
func (s *Store) Close() error {
	s.seqMu.Lock()
	first := !s.closing
	s.closing = true
	s.seqMu.Unlock()
	if !first {
		<-s.closed
		return s.closeErr
	}
	defer close(s.closed)
	s.queueMu.Lock()
	s.stop = true
	s.wake.Signal()
	s.queueMu.Unlock()
	<-s.committerDone
	s.publish(func() { s.ended = true })

	s.closeErr = s.back.close()
	if s.closeErr != nil || s.Err() != nil {
		s.closeErr = errors.Join(s.closeErr, s.marker.leave())
	} else {
		s.closeErr = s.marker.clear()
	}
	return s.closeErr
}

// abandon closes what a failed start has opened.
func (s *Store) abandon() error {
	if s.back != nil {
		return s.back.close()
	}
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}
