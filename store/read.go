package store

import (
	"context"
	"fmt"
	"io"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// A read transaction ends at these bounds: a long one pins pages, makes the
// file grow and holds up the writer when the map must grow.
const (
	maxReadEvents = 8192
	maxReadBytes  = 8 << 20
)

// Read returns durable events from the number from on, at most most and no
// more than a short transaction gives; the caller goes on behind the last. It
// returns none behind the head. The events are the caller's memory.
func (s *Store) Read(from uint64, most int) ([]chain.Event, error) {
	if from == 0 {
		from = 1
	}
	last := s.Head().Seq
	var events []chain.Event
	err := s.view(func(tx *bbolt.Tx) error {
		size := 0
		c := tx.Bucket([]byte(chain.BucketEvents)).Cursor()
		for k, v := c.Seek(chain.SeqKey(from)); k != nil; k, v = c.Next() {
			seq, err := chain.ParseSeqKey(k)
			if err != nil {
				return err
			}
			if seq > last || len(events) >= min(most, maxReadEvents) || size > maxReadBytes {
				return nil
			}
			// Memory of a transaction dies with it.
			e, err := chain.DecodeEvent(append([]byte(nil), v...))
			if err != nil {
				return fmt.Errorf("event %d: %w", seq, err)
			}
			events = append(events, *e)
			size += len(v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// Wait returns when event seq is durable, or with the latch's error, or that
// of ctx.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	for {
		s.stateMu.Lock()
		head, err, moved := s.head.Seq, s.err, s.moved
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

// Tail calls fn with durable events from the number from on, in order, as they
// come, until fn returns an error or ctx ends.
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
			if err := fn(e); err != nil {
				return err
			}
			next++
		}
	}
}

// Run returns where the run stands; ok is false for one that never began.
func (s *Store) Run(id string) (state chain.RunState, ok bool, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte(chain.BucketRuns)).Get([]byte(id))
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

// Runs calls fn for every run, in the order of their ids.
func (s *Store) Runs(fn func(id string, state chain.RunState) error) error {
	return s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(chain.BucketRuns)).ForEach(func(k, v []byte) error {
			state, err := chain.ParseRunState(v)
			if err != nil {
				return fmt.Errorf("run %s: %w", k, err)
			}
			return fn(string(k), state)
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
	err = s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(chain.BucketCalls)).ForEach(func(k, v []byte) error {
			seq, err := chain.ParseSeqKey(k)
			calls = append(calls, OpenCall{seq, string(v)})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read open calls: %w", err)
	}
	return calls, nil
}

// Totals calls fn for every scope of the given kind (chain.ScopeRun and so on)
// in the order of their keys, with what distinguishes it.
func (s *Store) Totals(scope string, fn func(parts []string, t chain.Totals) error) error {
	return s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(chain.BucketTotals)).Cursor()
		for k, v := c.Seek([]byte(scope)); k != nil; k, v = c.Next() {
			kind, parts := chain.ParseTotalKey(string(k))
			if kind != scope {
				return nil
			}
			t, err := chain.ParseTotals(v)
			if err != nil {
				return fmt.Errorf("totals of %q: %w", k, err)
			}
			if err := fn(parts, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// Total returns the totals of one scope; zero where nothing was counted.
func (s *Store) Total(scope string, parts ...string) (t chain.Totals, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte(chain.BucketTotals)).Get([]byte(chain.TotalKey(scope, parts...)))
		if v == nil {
			return nil
		}
		var err error
		t, err = chain.ParseTotals(v)
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
// and returns the head that it holds. w must be fast, a local file: the state
// is held as long as it takes.
func (s *Store) Snapshot(w io.Writer) (chain.Head, error) {
	if err := s.Err(); err != nil {
		return chain.Head{}, fmt.Errorf("snapshot: %w: %w", errSnapshot, err)
	}
	var head chain.Head
	err := s.view(func(tx *bbolt.Tx) error {
		var err error
		head, err = chain.ParseHead(tx.Bucket([]byte(chain.BucketMeta)).Get([]byte(chain.KeyHead)))
		if err != nil {
			return err
		}
		_, err = tx.WriteTo(w)
		return err
	})
	if err != nil {
		return chain.Head{}, fmt.Errorf("snapshot: %w", err)
	}
	return head, nil
}

// LeftUnavailable is how many refusals earlier services could not record, as
// the marker carried it here.
func (s *Store) LeftUnavailable() uint64 { return s.leftUnavailable }

// KeepUnavailable carries the count of refusals that could not be recorded to
// the next start.
func (s *Store) KeepUnavailable(n uint64) { s.marker.setUnavailable(n) }

// Unclean says whether the last writer did not close the ledger.
func (s *Store) Unclean() bool { return s.unclean }
