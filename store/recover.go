package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// tailEvents is how far back the tail is checked: more than one group.
const tailEvents = 2 * maxGroupEvents

// headOf reads the head record.
func headOf(r reader) (chain.Head, error) {
	b := r.get(chain.BucketMeta, []byte(chain.KeyHead))
	if b == nil {
		return chain.Head{}, fmt.Errorf("no head: %w", ErrNotLedger)
	}
	return chain.ParseHead(b)
}

// ledgerID reads the id from event 1.
func ledgerID(r reader) (string, error) {
	c, err := created(r)
	if err != nil {
		return "", fmt.Errorf("event 1: %w: %w", err, ErrNotLedger)
	}
	return c.Ledger, nil
}

func created(r reader) (*chain.Created, error) {
	e, err := chain.DecodeEvent(r.get(chain.BucketEvents, chain.SeqKey(1)))
	if err != nil {
		return nil, err
	}
	return chain.ParseCreated(e.Content)
}

// checkTail recomputes hashes, commitments and links of the last events: what
// the database returns without an error can still be another write's page. It
// returns the last event.
func checkTail(r reader) (last *chain.Event, seq uint64, err error) {
	key, value := r.last(chain.BucketEvents)
	end, err := chain.ParseSeqKey(key)
	if err != nil {
		return nil, 0, fmt.Errorf("last event: %w: %w", err, ErrNotLedger)
	}
	if last, err = chain.DecodeEvent(value); err != nil {
		return nil, 0, fmt.Errorf("event %d: %w: %w", end, err, ErrNotLedger)
	}
	return last, end, checkEvents(r, max(end, tailEvents)-tailEvents+1, end, nil)
}

// checkEvents checks the events first to end against themselves and each
// other, and gives each to fn.
func checkEvents(r reader, first, end uint64, fn func(*chain.Header, *chain.Event) error) error {
	seq := first
	var before chain.Hash
	err := r.scan(chain.BucketEvents, chain.SeqKey(first), func(k, v []byte) (bool, error) {
		e, err := chain.DecodeEvent(v)
		if err != nil {
			return false, err
		}
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			return false, err
		}
		if err := checkEvent(h, e, seq, k); err != nil {
			return false, err
		}
		if seq > first && h.Prev != before {
			return false, errors.New("it is not linked to the event before")
		}
		if fn != nil {
			if err := fn(h, e); err != nil {
				return false, err
			}
		}
		before = e.Hash
		seq++
		return seq <= end, nil
	})
	if err == nil && seq <= end {
		err = errors.New("it is not there")
	}
	if err != nil {
		return fmt.Errorf("event %d of %d is damaged: %w; docket verify tells more, and the file was left as it is: %w", seq, end, err, ErrNotLedger)
	}
	return nil
}

// checkEvent checks one event by itself.
func checkEvent(h *chain.Header, e *chain.Event, seq uint64, key []byte) error {
	switch {
	case !bytes.Equal(key, chain.SeqKey(seq)):
		return fmt.Errorf("the next key is %x", key)
	case h.Seq != seq:
		return fmt.Errorf("it says that it is event %d", h.Seq)
	case chain.EventHash(e.Header) != e.Hash:
		return errors.New("its header has another hash")
	case e.Content != nil && chain.ContentCommit(e.Salt, e.Content) != h.Content:
		return errors.New("its content is not the one committed to")
	}
	return nil
}

// misfit says why what is derived can't be used as it is, or nil. It reads all
// that is derived and no event but the last, so a start stays short. A head
// above the last event is no misfit but damage: both were written together,
// so events are gone.
func misfit(r reader, last *chain.Event, seq uint64) (why, err error) {
	head, err := headOf(r)
	if err != nil {
		return fmt.Errorf("the head can't be read: %w", err), nil
	}
	switch {
	case head.Seq > seq:
		return nil, fmt.Errorf("the head is event %d, the last one that is there is %d: %w", head.Seq, seq, ErrNotLedger)
	case head.Seq < seq || head.Hash != last.Hash:
		return fmt.Errorf("the head is not event %d", seq), nil
	}
	var want checksum
	if err := want.parse(r.get(chain.BucketMeta, []byte(chain.KeyDerived))); err != nil {
		return err, nil
	}
	if got, err := sumOf(r); err != nil || got != want {
		return errors.Join(errors.New("the checksum over what is derived is another"), err), nil
	}
	return nil, nil
}

// rebuild computes all that is derived from the events anew, checking every
// one of them on the way. It holds what is derived, not the events.
func rebuild(r reader, end uint64) (*change, error) {
	d, err := newDerived(emptyReader{})
	if err != nil {
		return nil, err
	}
	var head chain.Head
	err = checkEvents(r, 1, end, func(h *chain.Header, e *chain.Event) error {
		runSeq := h.RunSeq
		if err := d.place(h); err != nil {
			return err
		}
		if h.RunSeq != runSeq {
			return fmt.Errorf("its run_seq is %d, and %d comes next", runSeq, h.RunSeq)
		}
		head.Seq, head.Hash = h.Seq, e.Hash
		head.Frontier.Add(e.Hash)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	return &change{
		after:   bytes.Clone(r.get(chain.BucketMeta, []byte(chain.KeyHead))),
		reset:   true,
		derived: d.writes(&head, nil),
	}, nil
}

// emptyReader reads a state without anything in it.
type emptyReader struct{}

func (emptyReader) get(string, []byte) []byte                                  { return nil }
func (emptyReader) scan(string, []byte, func(_, _ []byte) (bool, error)) error { return nil }
func (emptyReader) last(string) (key, value []byte)                            { return nil, nil }
func (emptyReader) used() int64                                                { return 0 }
