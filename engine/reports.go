package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/durable"
)

// Head is the last durable event, and the root of the tree up to it.
type Head struct {
	Ledger string
	Seq    uint64
	Hash   chain.Hash
	Root   chain.TreeHash
}

// Head tells the last durable event.
func (e *Engine) Head() Head { return e.describeHead(e.store.Head()) }

func (e *Engine) describeHead(h chain.Head) Head {
	return Head{Ledger: e.store.Ledger(), Seq: h.Seq, Hash: h.Hash, Root: h.Frontier.Root()}
}

// Read returns durable events from the number from on, at most most and no
// more than one short transaction gives: go on behind the last. None are
// returned behind the head.
func (e *Engine) Read(from uint64, most int) ([]chain.Event, error) { return e.store.Read(from, most) }

// Wait returns when event seq is durable.
func (e *Engine) Wait(ctx context.Context, seq uint64) error { return e.store.Wait(ctx, seq) }

// Cost is what was spent in one scope.
type Cost struct {
	Scope string   // ledger, run, model, role or day
	Key   []string // run id; provider and model; role; UTC day; none for the ledger
	chain.Totals
}

// Costs sums the outcomes of calls by scope, in the order of their keys. The
// figures are the ledger's own, kept with each event in one transaction.
func (e *Engine) Costs(by string) ([]Cost, error) {
	switch by {
	case chain.ScopeLedger, chain.ScopeRun, chain.ScopeModel, chain.ScopeRole, chain.ScopeDay:
	default:
		return nil, fmt.Errorf("by %q: %w", by, ErrScope)
	}
	var costs []Cost
	err := e.store.Totals(by, func(key []string, t chain.Totals) error {
		costs = append(costs, Cost{by, key, t})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read costs: %w", err)
	}
	return costs, nil
}

// ExportSpec says what an export holds.
type ExportSpec struct {
	From, To uint64 // numbers of the first and last event; 0: all
	Peer     *chain.Peer
}

// Export writes the events as JSON Lines with their trailer, and then records
// that it handed them out. Where it returns an error, what was written has no
// trailer and is no export.
func (e *Engine) Export(ctx context.Context, w io.Writer, s ExportSpec) error {
	head := e.store.Head()
	if s.From == 0 {
		s.From = 1
	}
	if s.To == 0 {
		s.To = head.Seq
	}
	if s.From > s.To || s.To > head.Seq {
		return fmt.Errorf("events %d to %d of %d: %w", s.From, s.To, head.Seq, ErrRange)
	}
	x := export{e: e, w: w, trailer: chain.Trailer{First: s.From, Last: s.To}}
	if err := x.write(ctx); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if s.To == head.Seq && *x.trailer.Root != head.Frontier.Root() {
		return errors.New("export: the events read back with another root than was recorded")
	}
	if _, err := w.Write(append(x.trailer.AppendLine(x.buf[:0]), '\n')); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return e.handedOut(ctx, chain.TypeEvExported, s.Peer, s.From, s.To, x.trailer.Head)
}

// export is one export on its way.
type export struct {
	e       *Engine
	w       io.Writer
	tree    chain.Frontier
	trailer chain.Trailer
	buf     []byte
}

func (x *export) write(ctx context.Context) error {
	t := &x.trailer
	for seq := uint64(1); seq <= t.Last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		events, err := x.e.store.Read(seq, int(min(t.Last-seq+1, 1<<20)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("event %d can't be read", seq)
		}
		x.buf = x.buf[:0]
		for i := range events {
			x.add(seq, &events[i])
			seq++
		}
		if _, err := x.w.Write(x.buf); err != nil {
			return err
		}
	}
	root := x.tree.Root()
	t.Root = &root
	return nil
}

// add takes the event with the number seq into the tree and, from the first
// one asked for on, into the export.
func (x *export) add(seq uint64, ev *chain.Event) {
	t := &x.trailer
	if seq == t.First && seq > 1 {
		t.Peaks = x.tree.Peaks()
	}
	x.tree.Add(ev.Hash)
	if seq < t.First {
		return
	}
	t.Events++
	t.Head = ev.Hash
	if ev.Content == nil {
		t.Erased++
	}
	x.buf = append(ev.AppendLine(x.buf), '\n')
}

// handedOut records that evidence left the service.
func (e *Engine) handedOut(ctx context.Context, typ string, peer *chain.Peer, from, to uint64, head chain.Hash) error {
	content, err := json.Marshal(struct {
		From uint64 `json:"from"`
		Head string `json:"head"`
		To   uint64 `json:"to"`
	}{from, head.String(), to})
	if err != nil {
		return err
	}
	_, err = e.record(ctx, chain.Header{Type: typ, Peer: peer}, content)
	return err
}

// Snapshot is a consistent copy of the ledger file. Close removes it.
type Snapshot struct {
	*os.File
	Size int64
	Head Head
}

// Close removes the copy.
func (s *Snapshot) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

// Snapshot copies the ledger beside it while appends go on, and records that
// the copy was handed out. The caller closes it.
func (e *Engine) Snapshot(ctx context.Context, peer *chain.Peer) (_ *Snapshot, err error) {
	f, err := durable.Temp(e.opts.Path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := &Snapshot{File: f}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("snapshot: %w", err), s.Close())
		}
	}()
	head, err := e.store.Snapshot(f)
	if err != nil {
		return nil, err
	}
	if s.Size, err = f.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	s.Head = e.describeHead(head)
	return s, e.handedOut(ctx, chain.TypeEvSnapshot, peer, 1, head.Seq, head.Hash)
}
