package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
	"github.com/docket-audit/docket/receipt"
	"github.com/docket-audit/docket/store"
)

// Options say how a ledger is opened for recording.
type Options struct {
	// Path is the ledger file, which Init has made.
	Path string
	// Signer signs checkpoints; nil: none are written.
	Signer *receipt.Signer
	// PriceFiles name files of price rows that stand before the built-in
	// ones.
	PriceFiles []string
	// Verify checks a ledger file from outside, before a rewrite after a
	// storage failure or a power cut takes the ledger's name. Package verify
	// has it. Without it such a file can't be opened.
	Verify func(ctx context.Context, path string) error
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Version and Commit name the program in service.started.
	Version, Commit string
	// Now reads the wall clock; nil is time.Now.
	Now func() time.Time
	// Progress is told how many bytes of a rewrite are done; may be nil.
	Progress func(done, total int64)
}

// Engine records into one ledger. Its methods are safe for concurrent use.
type Engine struct {
	opts    Options
	store   *store.Store
	prices  *meter.Table
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	opened  chain.Frontier // of what stood in the file at the start

	checkpoints checkpointer

	// mu guards the engine's view of runs and calls. It is taken inside
	// Sequence, so that the view and the order of events agree; never the
	// other way round.
	mu       sync.Mutex
	runs     map[string]*run              // open, and those being closed
	tokens   map[[sha256.Size]byte]string // hashes of the open runs' tokens, to run ids
	inFlight map[*Call]struct{}
	draining bool
	idle     chan struct{} // closed when inFlight is empty while draining

	// unavailableMu guards the count of refusals that were not recorded.
	unavailableMu sync.Mutex
	unavailable   uint64

	closeOnce sync.Once
	closeErr  error
}

// InitOptions say what a new ledger begins with.
type InitOptions struct {
	Signer    *receipt.Signer // nil: a ledger without keys
	CreatedBy string          // program and version
	Now       func() time.Time
	Verify    func(ctx context.Context, path string) error // before the file gets its name; may be nil
}

// Init makes a new ledger and returns its id. The file appears whole or not at
// all, and nothing is ever made over something.
func Init(ctx context.Context, path string, o InitOptions) (string, error) {
	so := store.InitOptions{CreatedBy: o.CreatedBy, Now: o.Now, Verify: o.Verify}
	if o.Signer != nil {
		so.Keys = []chain.Key{o.Signer.Key()}
	}
	return store.Init(ctx, path, so)
}

// Open opens a ledger for recording. Calls that a crash left open are settled,
// and the start is recorded, before it returns.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if err := chain.SelfTest(); err != nil {
		return nil, err
	}
	e := &Engine{
		opts: o, log: o.Log, now: o.Now,
		runs:     map[string]*run{},
		tokens:   map[[sha256.Size]byte]string{},
		inFlight: map[*Call]struct{}{},
		idle:     make(chan struct{}),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.now == nil {
		e.now = time.Now
	}
	e.started = e.now()
	var err error
	if e.prices, err = loadPrices(o.PriceFiles); err != nil {
		return nil, err
	}
	e.store, err = store.Open(ctx, o.Path, store.Options{
		Verify: o.Verify, Now: o.Now, Log: e.log.With("component", "store"), Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	e.opened = e.store.Head().Frontier
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.store.Close())
	}
	return e, nil
}

func loadPrices(paths []string) (*meter.Table, error) {
	files := make([]*meter.File, 0, len(paths))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read price file: %w", err)
		}
		f, err := meter.LoadFile(path, b)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return meter.LoadTable(files...)
}

// Dead is closed when storage has failed and nothing more is written.
func (e *Engine) Dead() <-chan struct{} { return e.store.Dead() }

// Err is nil while the ledger can be written.
func (e *Engine) Err() error { return e.store.Err() }

// CountUnavailable counts a request that was refused because the ledger could
// not take it, and that therefore could not be recorded. The next
// service.started says how many there were.
func (e *Engine) CountUnavailable() {
	e.unavailableMu.Lock()
	defer e.unavailableMu.Unlock()
	e.unavailable++
	e.store.KeepUnavailable(e.unavailable)
}

// Status is the engine's state at one moment.
type Status struct {
	Ledger      string
	Path        string
	Head        Head
	Started     time.Time
	Bytes       int64 // of the ledger file
	OpenRuns    int
	OpenCalls   int
	Unavailable uint64 // refusals not recorded since the start
	Latched     string // why nothing is written any more; "" while all is well
}

// Status tells the engine's state.
func (e *Engine) Status() (Status, error) {
	size, err := e.store.Size()
	if err != nil {
		return Status{}, err
	}
	s := Status{Ledger: e.store.Ledger(), Path: e.store.Path(), Head: e.Head(), Started: e.started, Bytes: size}
	if err := e.Err(); err != nil {
		s.Latched = err.Error()
	}
	e.unavailableMu.Lock()
	s.Unavailable = e.unavailable
	e.unavailableMu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	s.OpenRuns, s.OpenCalls = len(e.runs), len(e.inFlight)
	return s, nil
}

// Drain admits nothing more and waits for the calls in flight, until ctx ends;
// then it cancels those that are left.
func (e *Engine) Drain(ctx context.Context) {
	e.mu.Lock()
	first := !e.draining
	e.draining = true
	if first && len(e.inFlight) == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	wait := time.Duration(0)
	select {
	case <-e.idle:
	case <-ctx.Done():
	case <-e.Dead():
	}
	e.waitForCalls(e.idle, wait, func() []*Call {
		calls := make([]*Call, 0, len(e.inFlight))
		for c := range e.inFlight {
			calls = append(calls, c)
		}
		return calls
	}, errStopped)
}

// Close drains, records that the service stopped, signs a last checkpoint and
// closes the file. Where the ledger is latched it only closes. Further calls
// return what the first did.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		e.Drain(ctx)
		e.checkpoints.stop()
		var err error
		if e.Err() == nil {
			_, err = e.record(context.WithoutCancel(ctx), chain.Header{Type: chain.TypeServiceStop}, []byte(`{"reason":"shutdown"}`))
			if err == nil && e.opts.Signer != nil {
				_, err = e.checkpoint(context.WithoutCancel(ctx), "close")
			}
		}
		e.closeErr = errors.Join(err, e.store.Close())
	})
	return e.closeErr
}

// record appends an event of the service's own. It may take the room that is
// kept for closing events: a stop and its checkpoint have to fit.
func (e *Engine) record(ctx context.Context, h chain.Header, content []byte) (Receipt, error) {
	var receipts []Receipt
	p, err := prepare(h, content)
	if err == nil {
		var t *store.Ticket
		t, err = e.store.SequenceClosing(func(q *store.Sequencer) error {
			q.Add(p)
			return nil
		})
		if err == nil {
			receipts, err = t.Wait(ctx)
		}
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("record %s: %w", h.Type, err)
	}
	return receipts[0], nil
}
