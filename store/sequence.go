package store

import (
	"context"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// A group is closed for more at these bounds, so that one commit stays short
// and its memory small.
const (
	maxGroupEvents = 1024
	maxGroupBytes  = 4 << 20
)

// maxSequence is more than any one function given to Sequence adds: so much
// before the last number of all, no more is assigned.
const maxSequence = 1 << 20

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
	p.used = true
	p.Header.Seq = q.Next()
	p.Header.TS = chain.FormatTime(q.s.now())
	q.added = append(q.added, p)
	return p.Header.Seq
}

// Find looks for the event that has the idempotency key of p, durable or still
// in hand. Where that event came from another draft than p, the error is
// ErrKeyConflict, and found and seq stand all the same. A draft without a key
// is never found.
func (q *Sequencer) Find(p *Prepared) (seq uint64, found bool, err error) {
	key := p.Header.Key
	if key == "" {
		return 0, false, nil
	}
	if first := q.inHand(key); first != nil {
		return first.Header.Seq, true, conflict(first.Header.Seq, key, sameDraft(&first.Header, &first.event, p))
	}
	err = q.s.back.view(func(r reader) error {
		v := r.get(chain.BucketKeys, []byte(key))
		if v == nil {
			return nil
		}
		if seq, err = chain.ParseSeqKey(v); err != nil {
			return err
		}
		found = true
		e, err := chain.DecodeEvent(r.get(chain.BucketEvents, v))
		if err != nil {
			return fmt.Errorf("read event %d: %w", seq, err)
		}
		_, err = replay(seq, e, p)
		return err
	})
	if err != nil {
		err = fmt.Errorf("look up key: %w", err)
	}
	return seq, found, err
}

// Key returns the number of the event that has the idempotency key, durable
// or still in hand. It compares nothing: see Find.
func (q *Sequencer) Key(key string) (uint64, bool, error) {
	if first := q.inHand(key); first != nil {
		return first.Header.Seq, true, nil
	}
	var seq uint64
	err := q.s.back.view(func(r reader) (err error) {
		if v := r.get(chain.BucketKeys, []byte(key)); v != nil {
			seq, err = chain.ParseSeqKey(v)
		}
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("look up key: %w", err)
	}
	return seq, seq != 0, nil
}

func (q *Sequencer) inHand(key string) *Prepared {
	for _, p := range q.added {
		if p.Header.Key == key {
			return p
		}
	}
	return q.s.inHand[key]
}

// Ticket stands for events that have their numbers and are not yet durable.
type Ticket struct {
	group *group
	first uint64 // number of the first event
	from  int    // index of the first event in the group
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
			return nil, unknown(t.first, ctx)
		}
	}
	if t.group.err != nil {
		return nil, t.group.err
	}
	end := t.from + t.n
	return t.group.receipts[t.from:end:end], nil
}

func unknown(seq uint64, ctx context.Context) error {
	return fmt.Errorf("wait for event %d: %w: %w", seq, ErrOutcomeUnknown, context.Cause(ctx))
}

// Sequence calls fn where numbers are assigned: while it runs, nothing else
// gets a number, so what fn decides from the order of events stands. It is
// the place for every decision that has to agree with the ledger: fences,
// caps, the state of runs. Where fn returns an error, nothing that it added
// is kept and every Prepared can be used again. Where the ledger takes no
// events, fn is not called. After fn returned nil, Sequence fails only where
// the clock or a Header that was changed makes an event ill-formed.
//
// fn must be short, must not wait for anything, and must not call Sequence,
// Append, AppendAll, Wait or Close of the same Store: what it has to record it
// adds. Reading is fine. The Store calls back into nothing else while fn runs.
func (s *Store) Sequence(fn func(*Sequencer) error) (*Ticket, error) {
	return s.sequence(fn, false)
}

// SequenceClosing is Sequence for events that end what the ledger has begun:
// outcomes of calls, the close of a run, the last checkpoint. They have space
// of their own, so that they are admitted where Sequence refuses with
// ErrNoSpace.
func (s *Store) SequenceClosing(fn func(*Sequencer) error) (*Ticket, error) {
	return s.sequence(fn, true)
}

func (s *Store) sequence(fn func(*Sequencer) error, closing bool) (*Ticket, error) {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	if err := s.admits(closing); err != nil {
		return nil, err
	}
	q := &Sequencer{s: s}
	kept := false
	defer func() {
		for _, p := range q.added {
			p.used = kept
		}
	}()
	if err := fn(q); err != nil {
		return nil, err
	}
	if len(q.added) == 0 {
		return &Ticket{}, nil
	}
	for _, p := range q.added {
		if err := fitsNow(p); err != nil {
			return nil, err
		}
	}
	kept = true
	return s.enqueue(q.added), nil
}

// fitsNow judges what may have changed since p was prepared.
func fitsNow(p *Prepared) error {
	if len(p.Header.TS) != len(placeholderTime) || p.Header.TS < "1970" {
		return &chain.FormError{Path: "/ts", Reason: fmt.Sprintf("the clock reads %s, outside 1970 to 9999", p.Header.TS)}
	}
	if p.changed() {
		return p.judge()
	}
	return nil
}

// admits says why no number can be assigned any more. The caller holds seqMu.
func (s *Store) admits(closing bool) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.closing {
		return ErrClosed
	}
	if s.next > chain.MaxInt-maxSequence {
		return ErrFull
	}
	if !closing {
		return s.reserve.admits()
	}
	return nil
}

// enqueue hands events to the committer. The caller holds seqMu.
func (s *Store) enqueue(events []*Prepared) *Ticket {
	size := 0
	for _, p := range events {
		size += p.size()
		if key := p.Header.Key; key != "" && s.inHand[key] == nil {
			s.inHand[key] = p
		}
	}
	s.next += uint64(len(events))
	s.reserve.take(size)

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
	t := &Ticket{group: g, first: events[0].Header.Seq, from: len(g.events), n: len(events)}
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

// AppendAll appends several events in order, consecutively and in one commit:
// all or none. Where a draft is refused the error names its place, from 1.
func (s *Store) AppendAll(ctx context.Context, drafts []Draft) ([]Receipt, error) {
	prepared := make([]*Prepared, len(drafts))
	for i, d := range drafts {
		p, err := Prepare(d)
		if err != nil {
			return nil, at(i, len(drafts), err)
		}
		prepared[i] = p
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("append: %w", context.Cause(ctx))
	}
	known := make([]uint64, len(drafts)) // number of the event of the same key
	t, err := s.Sequence(func(q *Sequencer) error {
		for i, p := range prepared {
			seq, found, err := q.Find(p)
			if err != nil {
				return at(i, len(drafts), err)
			}
			if found {
				known[i] = seq
				continue
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

// Replay returns the receipt of the event seq, which has the idempotency key
// of p, when that is durable and p is the same draft; else ErrKeyConflict.
func (s *Store) Replay(ctx context.Context, seq uint64, p *Prepared) (Receipt, error) {
	if err := s.Wait(ctx, seq); err != nil {
		if ctx.Err() != nil {
			return Receipt{}, unknown(seq, ctx)
		}
		return Receipt{}, err
	}
	events, err := s.Read(seq, 1)
	if err != nil {
		return Receipt{}, err
	}
	return replay(seq, &events[0], p)
}

// replay compares p with the stored event that has its key.
func replay(seq uint64, e *chain.Event, p *Prepared) (Receipt, error) {
	h, err := chain.ParseHeader(e.Header)
	if err != nil {
		return Receipt{}, fmt.Errorf("read event %d: %w", seq, err)
	}
	if h.Key != p.Header.Key {
		return Receipt{}, fmt.Errorf("index of keys leads to event %d with another key: %w", seq, ErrNotLedger)
	}
	if err := conflict(seq, h.Key, sameDraft(h, e, p)); err != nil {
		return Receipt{}, err
	}
	return Receipt{Seq: seq, Hash: e.Hash, TS: h.TS, Replayed: true}, nil
}

func conflict(seq uint64, key string, differs error) error {
	if differs == nil {
		return nil
	}
	return fmt.Errorf("key %s stands at event %d: %w: %w", key, seq, ErrKeyConflict, differs)
}
