package store

import (
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
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

// group is what one transaction makes durable: whole, or not at all.
type group struct {
	events   []*Prepared
	receipts []Receipt
	bytes    int
	done     chan struct{} // closed when receipts or err stand
	err      error
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// errSequence tells that the file's head is not the one that the numbers in
// hand follow on: somebody else wrote to the file.
var errSequence = errors.New("the file's head moved under its only writer")

// apply links, hashes and puts the events of g after the head that tx finds in
// the file, with everything derived from them. It returns the new head.
// Nothing is carried over from an earlier transaction.
func (g *group) apply(tx *bbolt.Tx) (chain.Head, error) {
	w, err := newTxWriter(tx)
	if err != nil {
		return chain.Head{}, err
	}
	g.receipts = make([]Receipt, 0, len(g.events))
	for _, p := range g.events {
		if err := w.put(p); err != nil {
			return chain.Head{}, fmt.Errorf("event %d: %w", p.Header.Seq, err)
		}
		g.receipts = append(g.receipts, Receipt{Seq: p.Header.Seq, Hash: p.event.Hash, TS: p.Header.TS})
	}
	return w.head, w.finish()
}

// txWriter appends events within one transaction.
type txWriter struct {
	meta, events *bbolt.Bucket
	head         chain.Head
	derived      *derived
}

func newTxWriter(tx *bbolt.Tx) (*txWriter, error) {
	w := &txWriter{
		meta:    tx.Bucket([]byte(chain.BucketMeta)),
		events:  tx.Bucket([]byte(chain.BucketEvents)),
		derived: newDerived(tx),
	}
	// Keys only ever rise, so a page that is left is never written again.
	w.events.FillPercent = 1
	b := w.meta.Get([]byte(chain.KeyHead))
	if b == nil {
		return w, nil // a file that is being made: the head before event 1
	}
	head, err := chain.ParseHead(b)
	w.head = head
	return w, err
}

func (w *txWriter) put(p *Prepared) error {
	h := &p.Header
	if h.Seq != w.head.Seq+1 {
		return errSequence
	}
	if h.Seq > 1 {
		h.Prev = w.head.Hash
	}
	if err := w.derived.place(h); err != nil {
		return err
	}
	p.event.Header = h.Append(make([]byte, 0, 512))
	p.event.Hash = chain.EventHash(p.event.Header)
	key := chain.SeqKey(h.Seq)
	if w.events.Get(key) != nil {
		return fmt.Errorf("number already taken: %w", errSequence)
	}
	value := chain.EncodeEvent(make([]byte, 0, len(p.event.Header)+len(p.event.Content)+128), &p.event)
	if err := w.events.Put(key, value); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	w.head.Seq, w.head.Hash = h.Seq, p.event.Hash
	w.head.Frontier.Add(p.event.Hash)
	return nil
}

// finish puts what is derived, once a transaction.
func (w *txWriter) finish() error {
	if err := w.derived.flush(); err != nil {
		return err
	}
	if err := w.meta.Put([]byte(chain.KeyHead), w.head.Append(nil)); err != nil {
		return fmt.Errorf("put head: %w", err)
	}
	return nil
}
