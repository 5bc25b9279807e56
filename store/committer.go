package store

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/docket-audit/docket/chain"
)

// gatherRounds bounds how often the committer steps back for others before it
// commits. A timer in its place would be pure loss for a lone appender.
const gatherRounds = 50

// commitLoop makes groups durable, one commit each, until Close or a failure.
// Every commit error is final: after one, what the file holds is unknown to
// this process (bbolt may show a transaction whose meta page was never
// synced), so nothing that follows could be linked to it safely.
func (s *Store) commitLoop() {
	// One thread for all commits: tools that inject faults count calls by
	// thread, and beside two syncs it costs nothing that can be measured
	// (docs/design/commit-path.md).
	runtime.LockOSThread()
	defer close(s.committerDone)
	for {
		g := s.nextGroup()
		if g == nil {
			return
		}
		head, err := s.commit(g)
		if err != nil {
			s.latch(err, g)
			return
		}
		s.settle(g, head)
	}
}

// nextGroup waits for a group and lets it fill while others are about to add
// to it. It returns nil when the store closes.
func (s *Store) nextGroup() *group {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	for len(s.queue) == 0 {
		if s.stop {
			return nil
		}
		s.wake.Wait()
	}
	s.gather()
	g := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.queued.Add(-int64(len(g.events)))
	return g
}

// gather yields as long as the queue grows. The caller holds queueMu, which is
// released meanwhile.
func (s *Store) gather() {
	s.queueMu.Unlock()
	defer s.queueMu.Lock()
	before := s.queued.Load()
	for range gatherRounds {
		runtime.Gosched()
		n := s.queued.Load()
		if n == before || n >= maxGroupEvents {
			return
		}
		before = n
	}
}

// commit is the one place where events become durable.
func (s *Store) commit(g *group) (head chain.Head, err error) {
	err = s.back.commit(func(r reader) (c *change, err error) {
		c, head, err = g.link(r)
		return c, err
	})
	if err == nil {
		err = s.readBack(head)
	}
	if err != nil {
		return head, s.describe(err)
	}
	return head, errors.Join(checkIdentity(s.file, s.path), s.reserve.ask())
}

// readBack makes sure that the storage shows what was just written to it: one
// that claims a write which it did not make would be noticed too late, by
// whoever asks for an event that was acknowledged.
func (s *Store) readBack(want chain.Head) error {
	return s.back.view(func(r reader) error {
		got, err := headOf(r)
		if err == nil && (got.Seq != want.Seq || got.Hash != want.Hash) {
			err = fmt.Errorf("the storage lost a write: it shows event %d after event %d was written", got.Seq, want.Seq)
		}
		return err
	})
}

// settle tells everybody that g is durable. The head comes first: a view that
// already shows g waits for it, perhaps where numbers are assigned.
func (s *Store) settle(g *group, head chain.Head) {
	s.publish(func() { s.head = head })
	close(g.done)

	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	for _, p := range g.events {
		if s.inHand[p.Header.Key] == p {
			delete(s.inHand, p.Header.Key)
		}
	}
}

// latch ends all writing for good: it leaves word for the next start and tells
// every waiter. Whether g was kept is unknown; what waits behind it was surely
// not written, since nothing is written after the first error.
func (s *Store) latch(cause error, g *group) {
	flagErr := s.marker.flagStorageError(s.Head().Seq)
	err := &latchError{cause: cause}
	s.publish(func() {
		s.err, s.ended, s.inDoubt = err, true, g.last()
		close(s.dead)
	})
	s.log.Error("ledger latched", "path", s.path, "cause", cause.Error())
	if flagErr != nil {
		s.log.Error("the marker could not be flagged: rewrite the ledger before it is used again", "path", s.path, "cause", flagErr.Error())
	}
	g.err = &latchError{cause: cause, unknown: true}
	close(g.done)

	s.seqMu.Lock() // who assigns numbers from here on sees the latch
	defer s.seqMu.Unlock()
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	for _, g := range s.queue {
		g.err = err
		close(g.done)
	}
	s.queue = nil
}

// describe adds what an operator needs to know about a failed commit.
func (s *Store) describe(err error) error {
	if !isFull(err) {
		return fmt.Errorf("commit to %s: %w", s.path, err)
	}
	free, freeErr := freeBytes(s.file)
	if freeErr != nil {
		return fmt.Errorf("commit to %s: %w", s.path, errors.Join(err, freeErr))
	}
	return fmt.Errorf("commit to %s, %d bytes free there: %w", s.path, free, err)
}

// isFull says whether err tells that there is no room: on the disk, in a
// quota, or below a limit on the size of files. bbolt gives some of these on
// as text alone.
func isFull(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// checkIdentity makes sure that what was written is still the file at path,
// and that it has this name alone: appends to a file that was removed or
// replaced would be lost without a word, and a second name is refused at the
// next start.
func checkIdentity(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat open ledger: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("the ledger was removed or renamed while in use: %w", err)
	}
	if !os.SameFile(open, named) {
		return fmt.Errorf("another file stands at %s since the ledger was opened: %w", path, ErrUnsafeFile)
	}
	if st, ok := open.Sys().(*syscall.Stat_t); ok && st.Nlink != 1 {
		return fmt.Errorf("%s has %d names (hard links) since the ledger was opened, a ledger has one: %w", path, st.Nlink, ErrUnsafeFile)
	}
	return nil
}
