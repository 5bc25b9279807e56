package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// A group is closed for more at these bounds, so that one commit stays short
// and its memory small.
const (
	maxGroupEvents = 1024
	maxGroupBytes  = 4 << 20
)

// Sequencer assigns numbers. It is valid only inside the function that
// Sequence calls with it.
type Sequencer struct {
	s     *Store
	added []*Prepared
}

// Next is the number that the next Add assigns.
func (q *Sequencer) Next() uint64 { return q.s.next + uint64(len(q.added)) }

// Add puts p behind everything that has a number so far, and gives it its
// number and its time. What is added in one Sequence call is consecutive and
// becomes durable together.
func (q *Sequencer) Add(p *Prepared) uint64 {
	if p.used {
		panic("store: a Prepared is appended once")
	}
	p.Header.Seq = q.Next()
	p.Header.TS = chain.FormatTime(q.s.now())
	q.added = append(q.added, p)
	return p.Header.Seq
}

// Key returns the number of the event that has the idempotency key, durable
// or still in hand.
func (q *Sequencer) Key(key string) (uint64, bool, error) {
	for _, p := range q.added {
		if p.Header.Key == key {
			return p.Header.Seq, true, nil
		}
	}
	if seq, ok := q.s.keysInHand[key]; ok {
		return seq, true, nil
	}
	var seq uint64
	err := q.s.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte(chain.BucketKeys)).Get([]byte(key))
		if v == nil {
			return nil
		}
		var err error
		seq, err = chain.ParseSeqKey(v)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("look up key: %w", err)
	}
	return seq, seq != 0, nil
}

// Ticket stands for events that have their numbers and are not yet durable.
type Ticket struct {
	s     *Store
	group *group
	from  int // index of the first event in the group
	n     int
}

// Wait returns when the events are durable, or with the error that says why
// that is not known. Giving up the wait does not take the events back.
func (t *Ticket) Wait(ctx context.Context) ([]Receipt, error) {
	if t.group == nil {
		return nil, nil
	}
	select {
	case <-t.group.done:
	default:
		select {
		case <-t.group.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for event %d: %w: %w", t.group.events[t.from].Header.Seq, ErrOutcomeUnknown, context.Cause(ctx))
		}
	}
	if t.group.err != nil {
		return nil, t.group.err
	}
	return t.group.receipts[t.from : t.from+t.n], nil
}

// Sequence calls fn where numbers are assigned: while it runs, nothing else
// gets a number, so what fn decides from the order of events stands. It is
// the place for every decision that has to agree with the ledger: fences,
// caps, the state of runs. Where fn returns an error, nothing that it added
// is kept.
//
// fn must be short, must not wait for anything, and must not call Sequence,
// Append or AppendAll of the same Store: what it has to record it adds. The
// Store calls back into nothing else while fn runs.
func (s *Store) Sequence(fn func(*Sequencer) error) (*Ticket, error) {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	if err := s.admits(); err != nil {
		return nil, err
	}
	q := &Sequencer{s: s}
	if err := fn(q); err != nil {
		return nil, err
	}
	if len(q.added) == 0 {
		return &Ticket{}, nil
	}
	if q.Next()-1 > chain.MaxInt {
		return nil, ErrFull
	}
	return s.enqueue(q.added), nil
}

// admits says why no number can be assigned any more. The caller holds seqMu.
func (s *Store) admits() error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.closing {
		return ErrClosed
	}
	return nil
}

// enqueue hands events to the committer. The caller holds seqMu.
func (s *Store) enqueue(events []*Prepared) *Ticket {
	size := 0
	for _, p := range events {
		p.used = true
		size += len(p.event.Content) + 1024
		if p.Header.Key != "" {
			s.keysInHand[p.Header.Key] = p.Header.Seq
		}
	}
	s.next += uint64(len(events))

	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	var g *group
	if n := len(s.queue); n > 0 {
		g = s.queue[n-1]
	}
	if g == nil || len(g.events)+len(events) > maxGroupEvents || g.bytes+size > maxGroupBytes {
		g = newGroup()
		s.queue = append(s.queue, g)
	}
	t := &Ticket{s: s, group: g, from: len(g.events), n: len(events)}
	g.events = append(g.events, events...)
	g.bytes += size
	s.queued.Add(int64(len(events)))
	s.wake.Signal()
	return t
}

// Append appends one event and returns when it is on the disk. A draft whose
// idempotency key is there already gives the first receipt again, or
// ErrKeyConflict where the draft differs.
func (s *Store) Append(ctx context.Context, d Draft) (Receipt, error) {
	receipts, err := s.AppendAll(ctx, []Draft{d})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// AppendAll appends several events in order, consecutively and in one
// transaction: all or none. Where a draft is refused the error names its index.
func (s *Store) AppendAll(ctx context.Context, drafts []Draft) ([]Receipt, error) {
	prepared := make([]*Prepared, len(drafts))
	for i, d := range drafts {
		p, err := Prepare(d)
		if err != nil {
			return nil, at(i, len(drafts), err)
		}
		prepared[i] = p
	}
	known := make([]uint64, len(drafts)) // number of the event of the same key
	t, err := s.Sequence(func(q *Sequencer) error {
		for i, p := range prepared {
			if p.Header.Key != "" {
				seq, ok, err := q.Key(p.Header.Key)
				if err != nil {
					return err
				}
				if ok {
					known[i] = seq
					continue
				}
			}
			q.Add(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	fresh, err := t.Wait(ctx)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, 0, len(drafts))
	for i, p := range prepared {
		if known[i] == 0 {
			receipts = append(receipts, fresh[0])
			fresh = fresh[1:]
			continue
		}
		r, err := s.Replay(ctx, known[i], p)
		if err != nil {
			return nil, at(i, len(drafts), err)
		}
		receipts = append(receipts, r)
	}
	return receipts, nil
}

func at(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("draft %d: %w", i+1, err)
}

// Replay returns the receipt of the durable event seq, which has the
// idempotency key of p, if p is the same draft; else ErrKeyConflict. Content
// that was erased since can't be compared and is taken as the same.
func (s *Store) Replay(ctx context.Context, seq uint64, p *Prepared) (Receipt, error) {
	if err := s.Wait(ctx, seq); err != nil {
		return Receipt{}, err
	}
	events, err := s.Read(seq, 1)
	if err != nil {
		return Receipt{}, err
	}
	e := events[0]
	h, err := chain.ParseHeader(e.Header)
	if err != nil {
		return Receipt{}, fmt.Errorf("read event %d: %w", seq, err)
	}
	if h.Key != p.Header.Key {
		return Receipt{}, fmt.Errorf("index of keys leads to event %d with another key: %w", seq, ErrNotLedger)
	}
	if err := sameDraft(h, &e, p); err != nil {
		return Receipt{}, fmt.Errorf("key %s stands at event %d: %w: %w", p.Header.Key, seq, ErrKeyConflict, err)
	}
	return Receipt{Seq: seq, Hash: e.Hash, TS: h.TS, Replayed: true}, nil
}

// sameDraft says in what the draft p differs from the stored event.
func sameDraft(h *chain.Header, e *chain.Event, p *Prepared) error {
	switch d := &p.Header; {
	case h.Type != d.Type:
		return errors.New("another type")
	case h.Run != d.Run:
		return errors.New("another run")
	case (h.Actor == nil) != (d.Actor == nil) || h.Actor != nil && *h.Actor != *d.Actor:
		return errors.New("another actor")
	case e.Content != nil && chain.ContentCommit(e.Salt, p.event.Content) != h.Content:
		return errors.New("another content")
	case len(h.Parts) != len(d.Parts):
		return errors.New("other parts")
	}
	for name, part := range h.Parts {
		if !samePart(part, e.PartSalts[name], p.Header.Parts[name].Media, p.bodies[name]) {
			return fmt.Errorf("another part %s, or one that can't be compared", name)
		}
	}
	return nil
}

// samePart holds a body against the commitment that is stored.
func samePart(stored chain.Part, salt chain.Salt, media string, body []byte) bool {
	return stored.Media == media && stored.Bytes == uint64(len(body)) && chain.PartCommit(salt, body) == stored.Commit
}
