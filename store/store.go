package store

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// PageSize is the page size of a ledger file: larger than the operating
// system's, so that an event of 2 KiB needs no pages of its own.
const PageSize = 16 << 10

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
	path string
	opts Options
	log  *slog.Logger
	now  func() time.Time

	// file is the descriptor that bbolt works on and that holds the lock.
	file   *os.File
	db     *bbolt.DB
	marker *marker

	// What the last writer left, read at the start.
	unclean         bool
	leftUnavailable uint64

	// seqMu is held while numbers are assigned: who holds it knows the
	// order of all events. It guards next, keysInHand and closing.
	seqMu      sync.Mutex
	next       uint64            // the number of the next event
	keysInHand map[string]uint64 // idempotency keys of events not yet durable
	closing    bool

	// queueMu guards the groups that wait for the committer. It is taken
	// after seqMu, never before.
	queueMu sync.Mutex
	wake    *sync.Cond // signals that queue or stopping changed
	queue   []*group
	stop    bool
	queued  atomic.Int64 // events in queue, for gathering

	committerDone chan struct{}

	// stateMu guards what readers see: the durable head, the latch, and who
	// waits for the next head.
	stateMu sync.Mutex
	head    chain.Head
	ledger  string
	err     error
	moved   chan struct{} // closed and replaced when head or err changes
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

// Head is the last durable event and the frontier of the tree up to it.
func (s *Store) Head() chain.Head {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	h := s.head
	h.Frontier = h.Frontier.Clone()
	return h
}

// view runs fn in a short read transaction. A panic of the database, which a
// damaged page can cause, is an error.
func (s *Store) view(fn func(*bbolt.Tx) error) error {
	return guard(func() error { return s.db.View(fn) })
}
