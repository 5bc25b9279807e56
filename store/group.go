package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// Receipt says where an event stands. It exists only for durable events.
type Receipt struct {
	Seq  uint64
	Hash chain.Hash
	TS   string
	// Replayed tells that the event was there already under the same
	// idempotency key.
	Replayed bool
}

// group is what one commit makes durable: whole, or not at all.
type group struct {
	events   []*Prepared
	receipts []Receipt
	bytes    int           // about what the events take
	done     chan struct{} // closed when receipts or err stand
	err      error
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// last is the number of the last event of g.
func (g *group) last() uint64 { return g.events[len(g.events)-1].Header.Seq }

// errSequence tells that the head is not the one that the numbers in hand
// follow on: somebody else wrote to the ledger.
var errSequence = errors.New("the ledger's head moved under its only writer")

// link puts the events of g behind the head that r holds, numbers having been
// assigned before, and returns the change that commits them and the head after
// it. Nothing is carried over from an earlier commit: after a failed one,
// memory and storage may disagree.
func (g *group) link(r reader) (*change, chain.Head, error) {
	c := &change{after: bytes.Clone(r.get(chain.BucketMeta, []byte(chain.KeyHead)))}
	var head chain.Head
	if c.after != nil {
		var err error
		if head, err = chain.ParseHead(c.after); err != nil {
			return nil, head, err
		}
	}
	d, err := newDerived(r)
	if err != nil {
		return nil, head, err
	}
	g.receipts = make([]Receipt, 0, len(g.events))
	c.events = make([]write, 0, len(g.events))
	for _, p := range g.events {
		if err := p.link(&head, d); err != nil {
			return nil, head, fmt.Errorf("event %d: %w", p.Header.Seq, err)
		}
		c.events = append(c.events, write{key: chain.SeqKey(p.Header.Seq), value: p.encode()})
		g.receipts = append(g.receipts, Receipt{Seq: p.Header.Seq, Hash: p.event.Hash, TS: p.Header.TS})
	}
	c.derived = d.writes(&head, c.after)
	return c, head, nil
}

// link makes p the event behind head, and head p.
func (p *Prepared) link(head *chain.Head, d *derived) error {
	h := &p.Header
	if h.Seq != head.Seq+1 {
		return errSequence
	}
	if h.Seq > 1 {
		h.Prev = head.Hash
	}
	if err := d.place(h); err != nil {
		return err
	}
	p.event.Header = h.Append(make([]byte, 0, 512))
	p.event.Hash = chain.EventHash(p.event.Header)
	head.Seq, head.Hash = h.Seq, p.event.Hash
	head.Frontier.Add(p.event.Hash)
	return nil
}

// encode is the stored form of a linked event.
func (p *Prepared) encode() []byte {
	return chain.EncodeEvent(make([]byte, 0, len(p.event.Header)+len(p.event.Content)+128), &p.event)
}
