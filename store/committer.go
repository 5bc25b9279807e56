package store

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/docket-audit/docket/chain"
)

// gatherRounds bounds how often the committer steps back for others before it
// commits. A timer in its place would be pure loss for a lone appender.
const gatherRounds = 50

// commitLoop makes groups durable, one transaction each, until Close or a
// failure. Every commit error is final: after one, what the file holds is
// unknown to this process (bbolt may show a transaction whose meta page was
// never synced), so nothing that follows could be linked to it safely.
func (s *Store) commitLoop() {
	// One thread for all commits: fault injection counts calls by thread.
	runtime.LockOSThread()
	defer close(s.committerDone)
	for {
		g := s.nextGroup()
		if g == nil {
			return
		}
		head, err := s.commit(g)
		if err != nil {
			s.latch(err)
			g.err = s.Err()
			close(g.done)
			s.failQueue()
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
	err = guard(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if head, err = g.apply(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if err != nil {
		return head, s.describe(err)
	}
	return head, s.checkIdentity()
}

// settle tells everybody that g is durable.
func (s *Store) settle(g *group, head chain.Head) {
	s.seqMu.Lock()
	for _, p := range g.events {
		if p.Header.Key != "" {
			delete(s.keysInHand, p.Header.Key)
		}
	}
	s.seqMu.Unlock()

	s.stateMu.Lock()
	s.head = head
	close(s.moved)
	s.moved = make(chan struct{})
	s.stateMu.Unlock()
	close(g.done)
}

// latch ends all writing for good, tells every waiter, and leaves word for the
// next start.
func (s *Store) latch(cause error) {
	s.stateMu.Lock()
	if s.err != nil {
		s.stateMu.Unlock()
		return
	}
	s.err = &latchError{cause}
	close(s.moved)
	s.moved = make(chan struct{})
	close(s.dead)
	s.stateMu.Unlock()
	s.marker.flagStorageError()
	s.log.Error("ledger latched", "path", s.path, "cause", cause.Error())
}

// failQueue gives every group that waits the latch's error: unlike the group
// that failed, these were surely not written.
func (s *Store) failQueue() {
	s.seqMu.Lock() // nothing is enqueued any more once the latch is seen
	defer s.seqMu.Unlock()
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	for _, g := range s.queue {
		g.err = s.Err()
		close(g.done)
	}
	s.queue = nil
}

// guard turns a panic of the database into an error. It also holds for faults
// on mapped memory, in this goroutine.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the database panicked, the storage may have lost a write: %v", r)
		}
	}()
	return fn()
}

// describe adds what an operator needs to know about a failed commit.
func (s *Store) describe(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		free, _ := freeBytes(s.path)
		return fmt.Errorf("commit to %s (%d bytes free): %w", s.path, free, err)
	}
	return fmt.Errorf("commit to %s: %w", s.path, err)
}

// checkIdentity makes sure that what was written is still the file at path:
// appends to a file that was removed or replaced would be lost without a word.
func (s *Store) checkIdentity() error {
	open, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("stat open ledger: %w", err)
	}
	named, err := os.Lstat(s.path)
	if err != nil {
		return fmt.Errorf("the ledger was removed or renamed while in use: %w", err)
	}
	if !os.SameFile(open, named) {
		return fmt.Errorf("another file stands at %s since the ledger was opened", s.path)
	}
	return nil
}
