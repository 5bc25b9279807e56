package store

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/docket-audit/docket/chain"
)

// derivedBuckets hold what is computed from the events alone.
var derivedBuckets = []string{chain.BucketRuns, chain.BucketKeys, chain.BucketCalls, chain.BucketTotals}

// derived computes what one change does to everything that follows from the
// events. It reads what was there, keeps what the change's events make of it,
// and spells each value once, at the end. The normal path and the rebuild of a
// damaged file run the same code.
type derived struct {
	r   reader
	sum checksum // over what the buckets hold, kept up with every write

	runs   map[string]*kept[chain.RunState]
	totals map[string]*kept[chain.Totals]
	keys   map[string]uint64
	calls  map[uint64]*call
}

// kept is a value with the octets that stand for it so far; nil for none.
type kept[T any] struct {
	now    T
	before []byte
}

// call is a model.request: with the run's id while it is open.
type call struct {
	run    string
	open   bool
	before []byte
}

func newDerived(r reader) (*derived, error) {
	d := &derived{
		r:      r,
		runs:   map[string]*kept[chain.RunState]{},
		totals: map[string]*kept[chain.Totals]{},
		keys:   map[string]uint64{},
		calls:  map[uint64]*call{},
	}
	err := d.sum.parse(r.get(chain.BucketMeta, []byte(chain.KeyDerived)))
	return d, err
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
	d.placeKey(h)
	switch h.Type {
	case chain.TypeRequest:
		c := d.call(h.Seq)
		c.run, c.open = h.Run, true
	case chain.TypeResponse, chain.TypeFailed:
		d.call(h.Call).open = false
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

// placeKey enters an idempotency key; the first event of a key keeps it.
func (d *derived) placeKey(h *chain.Header) {
	if h.Key == "" {
		return
	}
	if _, ok := d.keys[h.Key]; !ok && d.r.get(chain.BucketKeys, []byte(h.Key)) == nil {
		d.keys[h.Key] = h.Seq
	}
}

func (d *derived) run(id string) (*chain.RunState, error) {
	if r := d.runs[id]; r != nil {
		return &r.now, nil
	}
	r := &kept[chain.RunState]{before: bytes.Clone(d.r.get(chain.BucketRuns, []byte(id)))}
	if r.before != nil {
		var err error
		if r.now, err = chain.ParseRunState(r.before); err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
	}
	d.runs[id] = r
	return &r.now, nil
}

func (d *derived) total(key string) (*chain.Totals, error) {
	if t := d.totals[key]; t != nil {
		return &t.now, nil
	}
	t := &kept[chain.Totals]{before: bytes.Clone(d.r.get(chain.BucketTotals, []byte(key)))}
	if t.before != nil {
		var err error
		if t.now, err = chain.ParseTotals(t.before); err != nil {
			return nil, fmt.Errorf("totals of %q: %w", key, err)
		}
	}
	d.totals[key] = t
	return &t.now, nil
}

func (d *derived) call(seq uint64) *call {
	if c := d.calls[seq]; c != nil {
		return c
	}
	before := bytes.Clone(d.r.get(chain.BucketCalls, chain.SeqKey(seq)))
	c := &call{run: string(before), open: before != nil, before: before}
	d.calls[seq] = c
	return c
}

// writes returns what has to be written, the head and the checksum included,
// in a fixed order. headBefore is the octets of the head so far.
func (d *derived) writes(head *chain.Head, headBefore []byte) []write {
	var list []write
	put := func(bucket string, key, before, after []byte) {
		if before != nil {
			d.sum.remove(bucket, key, before)
		}
		if after != nil {
			d.sum.add(bucket, key, after)
		}
		if before != nil || after != nil {
			list = append(list, write{bucket, key, after})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.runs)) {
		r := d.runs[id]
		put(chain.BucketRuns, []byte(id), r.before, r.now.Append(nil))
	}
	for _, k := range slices.Sorted(maps.Keys(d.keys)) {
		put(chain.BucketKeys, []byte(k), nil, chain.SeqKey(d.keys[k]))
	}
	for _, seq := range slices.Sorted(maps.Keys(d.calls)) {
		c := d.calls[seq]
		var after []byte
		if c.open {
			after = []byte(c.run)
		}
		put(chain.BucketCalls, chain.SeqKey(seq), c.before, after)
	}
	for _, k := range slices.Sorted(maps.Keys(d.totals)) {
		t := d.totals[k]
		put(chain.BucketTotals, []byte(k), t.before, t.now.Append(nil))
	}
	put(chain.BucketMeta, []byte(chain.KeyHead), headBefore, head.Append(nil))
	return append(list, write{chain.BucketMeta, []byte(chain.KeyDerived), d.sum.append(nil)})
}
