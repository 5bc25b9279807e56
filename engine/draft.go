package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// Draft is an event as a client may ask for it.
type Draft struct {
	Type    string       // outside the reserved prefixes
	Content []byte       // one JSON object in any spelling; nil is {}
	Run     string       // opened implicitly where it is new
	Actor   *chain.Actor // claimed
	Key     string       // idempotency key
	Parts   []Part
	Peer    *chain.Peer // observed
}

// Receipt says where a durable event stands.
type Receipt = store.Receipt

// reservedPrefixes belong to the service, or to what it will bring in later.
var reservedPrefixes = []string{
	"ledger.", "model.", "run.", "lock.", "cap.", "key.", "service.", "breaker.",
	"prices.", "evidence.", "segment.", "import.",
}

// Part is the commitment to a body.
type Part struct {
	Name, Media string
	Bytes       uint64
	Commit      chain.Hash
	Salt        chain.Salt
	// Body is the body itself where the caller has it in memory; it is
	// needed to compare drafts of one idempotency key, and not kept.
	Body []byte
}

// PartWriter commits to a body as it streams by.
type PartWriter struct {
	name, media string
	salt        chain.Salt
	hash        *chain.PartHasher
}

// NewPart begins the commitment to a body, under a fresh salt.
func NewPart(name, media string) *PartWriter {
	w := &PartWriter{name: name, media: media}
	rand.Read(w.salt[:])
	w.hash = chain.NewPartHasher(w.salt)
	return w
}

// Write never fails.
func (w *PartWriter) Write(p []byte) (int, error) { return w.hash.Write(p) }

// Part is the commitment to what was written so far.
func (w *PartWriter) Part() Part {
	commit, n := w.hash.Commit()
	return Part{Name: w.name, Media: w.media, Bytes: n, Commit: commit, Salt: w.salt}
}

// NewPartOf is the commitment to a body in memory.
func NewPartOf(name, media string, body []byte) Part {
	w := NewPart(name, media)
	w.hash.Write(body)
	p := w.Part()
	p.Body = body
	return p
}

// Append records one event and returns when it is on the disk.
func (e *Engine) Append(ctx context.Context, d Draft) (Receipt, error) {
	receipts, err := e.AppendAll(ctx, []Draft{d})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// AppendAll records events in order, in one transaction: all or none. A draft
// that is refused is named by its place, from 1.
func (e *Engine) AppendAll(ctx context.Context, drafts []Draft) ([]Receipt, error) {
	b := batch{e: e, own: make([]uint64, len(drafts)), known: make([]bool, len(drafts))}
	for i, d := range drafts {
		p, err := prepareDraft(d)
		if err != nil {
			return nil, nth(i, len(drafts), err)
		}
		b.prepared = append(b.prepared, p)
	}
	t, err := e.store.Sequence(b.sequence)
	if err != nil {
		return nil, err
	}
	fresh, err := t.Wait(ctx)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(drafts))
	for i, seq := range b.own {
		if !b.known[i] {
			receipts[i] = fresh[seq-fresh[0].Seq]
			continue
		}
		if receipts[i], err = e.store.Replay(ctx, seq, b.prepared[i]); err != nil {
			return nil, nth(i, len(drafts), err)
		}
	}
	return receipts, nil
}

// prepareDraft judges what needs no order: form, reserved types, fences.
func prepareDraft(d Draft) (*store.Prepared, error) {
	if p := chain.Prefix(d.Type); slices.Contains(reservedPrefixes, p) {
		return nil, fmt.Errorf("type %q: prefix %s: %w", d.Type, p, ErrReserved)
	}
	if err := noFence(d.Actor); err != nil {
		return nil, err
	}
	return prepare(chain.Header{Type: d.Type, Run: d.Run, Actor: d.Actor, Key: d.Key, Peer: d.Peer}, d.Content, d.Parts...)
}

// noFence refuses fences: this engine holds no locks, so none is live.
func noFence(a *chain.Actor) error {
	if a != nil && a.Fence != 0 {
		return fmt.Errorf("fence %d: %w", a.Fence, ErrStaleFence)
	}
	return nil
}

// prepare joins header, content and parts to an event without a number.
func prepare(h chain.Header, content []byte, parts ...Part) (*store.Prepared, error) {
	d := store.Draft{Header: h, Content: content}
	for _, p := range parts {
		if d.Header.Parts == nil {
			d.Header.Parts = map[string]chain.Part{}
			d.PartSalts = map[string]chain.Salt{}
			d.Bodies = map[string][]byte{}
		}
		if _, twice := d.Header.Parts[p.Name]; twice {
			return nil, &chain.FormError{Path: "/parts", Reason: fmt.Sprintf("part %q twice", p.Name)}
		}
		d.Header.Parts[p.Name] = chain.Part{Bytes: p.Bytes, Commit: p.Commit, Media: p.Media}
		d.PartSalts[p.Name] = p.Salt
		d.Bodies[p.Name] = p.Body
	}
	return store.Prepare(d)
}

// batch is what one AppendAll brings to the place where numbers are assigned.
type batch struct {
	e        *Engine
	prepared []*store.Prepared
	own      []uint64 // the number of each draft's event
	known    []bool   // whether it was there already, by its key
}

// sequence first judges everything and then adds, so that a refusal leaves no
// trace in the engine's own state.
func (b *batch) sequence(q *store.Sequencer) error {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if b.e.draining {
		return ErrStopping
	}
	for i, p := range b.prepared {
		if err := b.lookUp(q, i, p); err != nil {
			return nth(i, len(b.prepared), err)
		}
		if !b.known[i] && p.Header.Run != "" {
			if err := b.e.admitsRun(p.Header.Run); err != nil {
				return nth(i, len(b.prepared), err)
			}
		}
	}
	for i, p := range b.prepared {
		if b.known[i] {
			continue
		}
		// A key can stand twice in one batch.
		if err := b.lookUp(q, i, p); err != nil {
			return err
		}
		if b.known[i] {
			continue
		}
		if p.Header.Run != "" {
			if err := b.e.openImplicitly(q, p.Header.Run, p.Header.Peer); err != nil {
				return err
			}
		}
		b.own[i] = q.Add(p)
	}
	return nil
}

func (b *batch) lookUp(q *store.Sequencer, i int, p *store.Prepared) (err error) {
	b.own[i], b.known[i], err = q.Find(p)
	return err
}

// nth says which draft of several an error is about.
func nth(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("draft %d: %w", i+1, err)
}
