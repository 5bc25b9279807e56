package store

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/docket-audit/docket/chain"
)

// A read transaction ends at these bounds: a long one pins pages, makes the
// file grow and holds up the writer when the map must grow.
const (
	maxReadEvents = 8192
	maxReadBytes  = 8 << 20
)

// view runs fn on a state that is durable. The backend may already show what
// is only being committed; what a reader were told of it could be lost in a
// power cut, so the view waits for the commit's end, which is a sync away.
func (s *Store) view(fn func(reader) error) error {
	return s.back.view(func(r reader) error {
		head, err := headOf(r)
		if err != nil {
			return err
		}
		if err := s.Wait(context.Background(), head.Seq); err != nil {
			return err
		}
		return fn(r)
	})
}

// Read returns durable events from the number from on, at most most and no
// more than a short transaction gives; the caller goes on behind the last. It
// returns none behind the head. The events are the caller's memory.
func (s *Store) Read(from uint64, most int) ([]chain.Event, error) {
	from = max(from, 1)
	s.stateMu.Lock()
	last := s.head.Seq
	s.stateMu.Unlock()
	most = min(most, maxReadEvents)
	var events []chain.Event
	size := 0
	err := s.back.view(func(r reader) error {
		if from > last || most <= 0 {
			return nil
		}
		err := r.scan(chain.BucketEvents, chain.SeqKey(from), func(k, v []byte) (bool, error) {
			seq := from + uint64(len(events))
			if !bytes.Equal(k, chain.SeqKey(seq)) {
				return false, fmt.Errorf("event %d is not there: %w", seq, ErrNotLedger)
			}
			// Memory of a transaction dies with it.
			e, err := chain.DecodeEvent(bytes.Clone(v))
			if err != nil {
				return false, fmt.Errorf("event %d: %w", seq, err)
			}
			events = append(events, *e)
			size += len(v)
			return seq < last && len(events) < most && size < maxReadBytes, nil
		})
		if err == nil && len(events) == 0 {
			err = fmt.Errorf("event %d is not there: %w", from, ErrNotLedger)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// Wait returns when event seq is durable, or with the error that says why it
// will not be: the latch's, ErrClosed, or the cause of ctx.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	for {
		s.stateMu.Lock()
		head, moved := s.head.Seq, s.moved
		err := s.never(seq)
		s.stateMu.Unlock()
		switch {
		case head >= seq:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for event %d: %w", seq, context.Cause(ctx))
		}
	}
}

// never says why seq, which lies beyond the head, will not become durable in
// this process; nil while it may. The caller holds stateMu.
func (s *Store) never(seq uint64) error {
	switch l, ok := s.err.(*latchError); {
	case ok && seq <= s.inDoubt:
		return &latchError{cause: l.cause, unknown: true}
	case ok:
		return l
	case s.ended:
		return ErrClosed
	}
	return nil
}

// Tail calls fn with durable events from the number from on, in order, as they
// come, until fn returns an error, ctx ends, or the ledger is closed or
// latched.
func (s *Store) Tail(ctx context.Context, from uint64, fn func(chain.Event) error) error {
	for next := max(from, 1); ; {
		if err := s.Wait(ctx, next); err != nil {
			return err
		}
		events, err := s.Read(next, maxReadEvents)
		if err != nil {
			return err
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return fmt.Errorf("tail: %w", context.Cause(ctx))
			}
			if err := fn(e); err != nil {
				return err
			}
			next++
		}
	}
}

// Run returns where the run stands; ok is false for one that never began.
func (s *Store) Run(id string) (state chain.RunState, ok bool, err error) {
	err = s.view(func(r reader) error {
		v := r.get(chain.BucketRuns, []byte(id))
		if v == nil {
			return nil
		}
		ok = true
		var err error
		state, err = chain.ParseRunState(v)
		return err
	})
	if err != nil {
		return state, false, fmt.Errorf("read run %s: %w", id, err)
	}
	return state, ok, nil
}

// Runs calls fn for every run, in the order of their ids. fn must be short:
// one state is held as long as it takes.
func (s *Store) Runs(fn func(id string, state chain.RunState) error) error {
	return s.view(func(r reader) error {
		return r.scan(chain.BucketRuns, nil, func(k, v []byte) (bool, error) {
			state, err := chain.ParseRunState(v)
			if err != nil {
				return false, fmt.Errorf("run %s: %w", k, err)
			}
			return true, fn(string(k), state)
		})
	})
}

// OpenCall is a model.request that has no outcome yet.
type OpenCall struct {
	Seq uint64
	Run string
}

// OpenCalls lists the requests without outcome, by rising number.
func (s *Store) OpenCalls() (calls []OpenCall, err error) {
	err = s.view(func(r reader) error {
		return r.scan(chain.BucketCalls, nil, func(k, v []byte) (bool, error) {
			seq, err := chain.ParseSeqKey(k)
			calls = append(calls, OpenCall{seq, string(v)})
			return true, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read open calls: %w", err)
	}
	return calls, nil
}

// Totals calls fn for every scope of the given kind (chain.ScopeRun and so on)
// in the order of their keys, with what distinguishes it. fn must be short:
// one state is held as long as it takes.
func (s *Store) Totals(scope string, fn func(parts []string, t chain.Totals) error) error {
	return s.view(func(r reader) error {
		return r.scan(chain.BucketTotals, []byte(scope), func(k, v []byte) (bool, error) {
			kind, parts := chain.ParseTotalKey(string(k))
			if kind != scope {
				return false, nil
			}
			t, err := chain.ParseTotals(v)
			if err != nil {
				return false, fmt.Errorf("totals of %q: %w", k, err)
			}
			return true, fn(parts, t)
		})
	})
}

// Total returns the totals of one scope; zero where nothing was counted.
func (s *Store) Total(scope string, parts ...string) (t chain.Totals, err error) {
	err = s.view(func(r reader) (err error) {
		if v := r.get(chain.BucketTotals, []byte(chain.TotalKey(scope, parts...))); v != nil {
			t, err = chain.ParseTotals(v)
		}
		return err
	})
	if err != nil {
		return t, fmt.Errorf("read totals: %w", err)
	}
	return t, nil
}

// Size is the file's size in bytes.
func (s *Store) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat ledger: %w", err)
	}
	return info.Size(), nil
}

// Snapshot writes one consistent state of the file to w, while appends go on,
// and returns the head that it holds, which is durable in the ledger by then.
// w must be fast, a local file: the state is held as long as it takes. After
// an error what w got is no snapshot.
func (s *Store) Snapshot(w io.Writer) (chain.Head, error) {
	if err := s.Err(); err != nil {
		return chain.Head{}, fmt.Errorf("snapshot: what the file holds is unknown until it is opened again: %w", err)
	}
	head, err := s.back.snapshot(w)
	if err == nil {
		// A copy that knows an event which the ledger loses in a power cut
		// would accuse the ledger for ever.
		err = s.Wait(context.Background(), head.Seq)
	}
	if err != nil {
		return chain.Head{}, fmt.Errorf("snapshot: %w", err)
	}
	return head, nil
}
