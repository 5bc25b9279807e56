package store

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-audit/docket/chain"
)

// Options say how a ledger is opened. The zero value works but for rewriting,
// which needs Verify.
type Options struct {
	// Verify checks a ledger file from outside; a copy takes the ledger's
	// name only after it returned nil. Where it is nil, a file that has to
	// be rewritten can't be opened for writing.
	Verify func(ctx context.Context, path string) error
	// Now reads the wall clock for ts; nil is time.Now.
	Now func() time.Time
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Progress is told how many bytes of a rewrite are done; may be nil.
	Progress func(done, total int64)
	// AnyFileSystem allows network and FUSE file systems, whose locks and
	// syncs can't be relied on. A ledger there can be lost or forked.
	AnyFileSystem bool
}

// Store is the only writer of one ledger file. Its methods are safe for
// concurrent use.
type Store struct {
	path   string
	opts   Options
	log    *slog.Logger
	now    func() time.Time
	ledger string

	// file is the descriptor that back works on and that holds the lock.
	file    *os.File
	back    backend
	marker  *marker
	reserve *reserve

	// What the last writer left, read at the start.
	unclean         bool
	leftUnavailable uint64

	// seqMu is held while numbers are assigned: who holds it knows the
	// order of all events. It guards next, inHand and closing. It is taken
	// before queueMu and stateMu, never after.
	seqMu   sync.Mutex
	next    uint64               // the number of the next event
	inHand  map[string]*Prepared // by idempotency key: events not yet durable
	closing bool

	// queueMu guards the groups that wait for the committer.
	queueMu sync.Mutex
	wake    *sync.Cond // signals that queue or stop changed
	queue   []*group
	stop    bool
	queued  atomic.Int64 // events in queue, for gathering

	committerDone chan struct{}
	closed        chan struct{} // closed when Close has ended
	closeErr      error         // stands when closed is closed

	// stateMu guards what readers see: the durable head, the latch, and who
	// waits for the next head.
	stateMu sync.Mutex
	head    chain.Head
	err     error
	inDoubt uint64 // the last number whose outcome the latch left unknown
	ended   bool   // no number beyond head will ever be durable
	moved   chan struct{}
	dead    chan struct{} // closed at the latch
}

// Err is nil while the ledger can be written, and else says why it can't be.
func (s *Store) Err() error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	return s.err
}

// Dead is closed when storage has failed and the ledger is latched.
func (s *Store) Dead() <-chan struct{} { return s.dead }

// Path is the ledger file's path, as given to Open.
func (s *Store) Path() string { return s.path }

// Ledger is the ledger's id.
func (s *Store) Ledger() string { return s.ledger }

// Unclean says whether the last writer did not close the ledger.
func (s *Store) Unclean() bool { return s.unclean }

// LeftUnavailable is how many refusals earlier services could not record, as
// the marker carried it here.
func (s *Store) LeftUnavailable() uint64 { return s.leftUnavailable }

// KeepUnavailable carries the count of refusals that could not be recorded to
// the next start.
func (s *Store) KeepUnavailable(n uint64) { s.marker.setUnavailable(n) }

// Head is the last durable event and the frontier of the tree up to it.
func (s *Store) Head() chain.Head {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	h := s.head
	h.Frontier = h.Frontier.Clone()
	return h
}

// publish changes what readers see and wakes who waits for that.
func (s *Store) publish(change func()) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	change()
	close(s.moved)
	s.moved = make(chan struct{})
}
