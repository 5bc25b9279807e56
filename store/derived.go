package store

import (
	"bytes"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// derived keeps the buckets that are computed from the events: within one
// transaction it holds what changed and writes each value once, at the end.
// The normal path and the rebuild of a damaged file run the same code.
type derived struct {
	runBucket, keyBucket, callBucket, totalBucket *bbolt.Bucket

	runs   map[string]*chain.RunState
	totals map[string]*chain.Totals
}

func newDerived(tx *bbolt.Tx) *derived {
	return &derived{
		runBucket:   tx.Bucket([]byte(chain.BucketRuns)),
		keyBucket:   tx.Bucket([]byte(chain.BucketKeys)),
		callBucket:  tx.Bucket([]byte(chain.BucketCalls)),
		totalBucket: tx.Bucket([]byte(chain.BucketTotals)),
		runs:        map[string]*chain.RunState{},
		totals:      map[string]*chain.Totals{},
	}
}

// place gives h its place in its run, and enters it everywhere.
func (d *derived) place(h *chain.Header) error {
	if h.Run != "" {
		r, err := d.run(h.Run)
		if err != nil {
			return err
		}
		if r.First == 0 {
			r.First = h.Seq
		}
		r.RunSeq++
		r.Last = h.Seq
		if h.Type == chain.TypeRunClosed {
			r.Closed = h.Seq
		}
		h.RunSeq = r.RunSeq
	}
	if h.Key != "" && d.keyBucket.Get([]byte(h.Key)) == nil {
		if err := d.keyBucket.Put([]byte(h.Key), chain.SeqKey(h.Seq)); err != nil {
			return fmt.Errorf("put key: %w", err)
		}
	}
	if err := d.placeCall(h); err != nil {
		return err
	}
	for _, k := range chain.TotalKeys(h) {
		t, err := d.total(k)
		if err != nil {
			return err
		}
		t.Add(h)
	}
	return nil
}

// placeCall opens the call of a request and ends that of an outcome.
func (d *derived) placeCall(h *chain.Header) (err error) {
	switch h.Type {
	case chain.TypeRequest:
		err = d.callBucket.Put(chain.SeqKey(h.Seq), []byte(h.Run))
	case chain.TypeResponse, chain.TypeFailed:
		err = d.callBucket.Delete(chain.SeqKey(h.Call))
	}
	if err != nil {
		return fmt.Errorf("put call: %w", err)
	}
	return nil
}

func (d *derived) run(id string) (*chain.RunState, error) {
	if r := d.runs[id]; r != nil {
		return r, nil
	}
	r := &chain.RunState{}
	if b := d.runBucket.Get([]byte(id)); b != nil {
		s, err := chain.ParseRunState(b)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		*r = s
	}
	d.runs[id] = r
	return r, nil
}

func (d *derived) total(key string) (*chain.Totals, error) {
	if t := d.totals[key]; t != nil {
		return t, nil
	}
	t := &chain.Totals{}
	if b := d.totalBucket.Get([]byte(key)); b != nil {
		s, err := chain.ParseTotals(b)
		if err != nil {
			return nil, fmt.Errorf("totals of %q: %w", key, err)
		}
		*t = s
	}
	d.totals[key] = t
	return t, nil
}

// flush writes what changed.
func (d *derived) flush() error {
	for id, r := range d.runs {
		if err := d.runBucket.Put([]byte(id), r.Append(nil)); err != nil {
			return fmt.Errorf("put run: %w", err)
		}
	}
	for k, t := range d.totals {
		if err := d.totalBucket.Put([]byte(k), t.Append(nil)); err != nil {
			return fmt.Errorf("put totals: %w", err)
		}
	}
	return nil
}

// derivedFit says why the derived buckets don't fit the events, or nil. It
// reads all of them and the last event, not every event: cheap enough for each
// start. verify never looks at them.
func derivedFit(tx *bbolt.Tx) error {
	for _, name := range chain.Buckets() {
		if tx.Bucket([]byte(name)) == nil {
			return fmt.Errorf("bucket %s is missing", name)
		}
	}
	head, err := chain.ParseHead(tx.Bucket([]byte(chain.BucketMeta)).Get([]byte(chain.KeyHead)))
	if err != nil {
		return err
	}
	key, value := tx.Bucket([]byte(chain.BucketEvents)).Cursor().Last()
	last, err := chain.DecodeEvent(value)
	if err != nil {
		return err
	}
	if !bytes.Equal(key, chain.SeqKey(head.Seq)) || last.Hash != head.Hash {
		return fmt.Errorf("the head is event %d, the last event is %x", head.Seq, key)
	}
	return sumsFit(tx)
}

// sumsFit compares the ledger's totals with the sums over runs and days.
func sumsFit(tx *bbolt.Tx) error {
	sums := map[string]*chain.Totals{}
	err := tx.Bucket([]byte(chain.BucketTotals)).ForEach(func(k, v []byte) error {
		t, err := chain.ParseTotals(v)
		if err != nil {
			return fmt.Errorf("totals of %q: %w", k, err)
		}
		scope, _ := chain.ParseTotalKey(string(k))
		s := sums[scope]
		if s == nil {
			s = &chain.Totals{}
			sums[scope] = s
		}
		s.Calls += t.Calls
		s.Failed += t.Failed
		s.Unpriced += t.Unpriced
		s.Estimated += t.Estimated
		s.Cost = s.Cost.Add(t.Cost)
		return nil
	})
	if err != nil {
		return err
	}
	var want []byte
	for i, scope := range []string{chain.ScopeLedger, chain.ScopeRun, chain.ScopeDay} {
		s := sums[scope]
		if s == nil {
			s = &chain.Totals{}
		}
		if got := s.Append(nil); i == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			return fmt.Errorf("totals by %s do not sum to those of the ledger", scope)
		}
	}
	return tx.Bucket([]byte(chain.BucketRuns)).ForEach(func(k, v []byte) error {
		_, err := chain.ParseRunState(v)
		return err
	})
}

// rebuild makes every derived bucket anew from the events.
func rebuild(tx *bbolt.Tx) error {
	for _, name := range []string{chain.BucketRuns, chain.BucketKeys, chain.BucketCalls, chain.BucketTotals} {
		if tx.Bucket([]byte(name)) != nil {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return fmt.Errorf("rebuild %s: %w", name, err)
			}
		}
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("rebuild %s: %w", name, err)
		}
	}
	d := newDerived(tx)
	var head chain.Head
	c := tx.Bucket([]byte(chain.BucketEvents)).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		e, err := chain.DecodeEvent(v)
		if err != nil {
			return fmt.Errorf("rebuild: %x: %w", k, err)
		}
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			return fmt.Errorf("rebuild: event %x: %w", k, err)
		}
		if h.Seq != head.Seq+1 || !bytes.Equal(k, chain.SeqKey(h.Seq)) {
			return fmt.Errorf("rebuild: event %d stands behind %d", h.Seq, head.Seq)
		}
		if err := d.place(h); err != nil {
			return fmt.Errorf("rebuild: event %d: %w", h.Seq, err)
		}
		head.Seq, head.Hash = h.Seq, e.Hash
		head.Frontier.Add(e.Hash)
	}
	if err := d.flush(); err != nil {
		return err
	}
	return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeyHead), head.Append(nil))
}
