package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/docket-audit/docket/chain"
)

// Draft is an event before it has its place in the chain.
type Draft struct {
	// Header holds every member but Seq, TS, Prev, Content and RunSeq, which
	// the store assigns and ignores here.
	Header chain.Header
	// Content is one JSON object in any spelling; nil stands for {}.
	Content []byte
	// PartSalts are the salts of Header.Parts, by part name, as far as they
	// are to be kept.
	PartSalts map[string]chain.Salt
	// Bodies are the bodies of parts, by part name, as far as the caller has
	// them: a draft with an idempotency key is compared with the first one
	// by them. They are not kept.
	Bodies map[string][]byte
}

// Prepared is a draft that has been judged and committed to: canonical
// content, fresh salt, commitment. Preparing is the costly part of an append
// and needs no lock. A Prepared is appended once.
type Prepared struct {
	// Header may still be changed between Prepare and the end of the
	// function given to Sequence where a member depends on the event's own
	// number or on the order of events, such as the fence of a
	// lock.acquired: by setting members, not through their pointers, Actor
	// aside. What it becomes has to be well formed and is judged again.
	Header chain.Header

	event  chain.Event
	bodies map[string][]byte
	judged chain.Header // what Header was when it was judged
	actor  chain.Actor  // what judged.Actor pointed to
	used   bool
}

// placeholderTime stands for ts while a draft is judged.
const placeholderTime = "2026-11-30T00:00:00.000000000Z"

// Prepare judges d by docs/format.md, sections 1 and 2. A refusal is a
// *chain.FormError whose path begins with /content or is a header member's.
func Prepare(d Draft) (*Prepared, error) {
	if d.Header.Type == chain.TypeCreated {
		return nil, &chain.FormError{Path: "/type", Reason: chain.TypeCreated + " is event 1 and no other; Init makes it"}
	}
	return prepare(d)
}

func prepare(d Draft) (*Prepared, error) {
	content := d.Content
	if content == nil {
		content = []byte("{}")
	}
	canonical, err := chain.CanonicalContent(content)
	if err != nil {
		return nil, refused("/content", err)
	}
	p := &Prepared{Header: d.Header, event: chain.Event{PartSalts: maps.Clone(d.PartSalts)}, bodies: d.Bodies}
	p.Header.Seq = 0
	// The caller may go on using its buffer.
	p.event.Content = bytes.Clone(canonical)
	rand.Read(p.event.Salt[:])
	p.Header.Content = chain.ContentCommit(p.event.Salt, p.event.Content)
	for name := range p.event.PartSalts {
		if _, ok := p.Header.Parts[name]; !ok {
			return nil, &chain.FormError{Path: "/parts", Reason: fmt.Sprintf("salt of a part %q that the header doesn't have", name)}
		}
	}
	if err := p.judge(); err != nil {
		return nil, err
	}
	return p, nil
}

// judge checks the header with the largest values that the store could still
// assign, so that what passes here also fits when it has its place.
func (p *Prepared) judge() error {
	h := p.Header
	h.TS = placeholderTime
	switch {
	case h.Seq != 0: // it has its number
	case h.Type == chain.TypeCreated:
		h.Seq = 1
	default:
		h.Seq = chain.MaxInt
	}
	h.RunSeq = 0
	if h.Run != "" {
		h.RunSeq = chain.MaxInt
	}
	if err := h.Check(); err != nil {
		return err
	}
	p.judged = p.Header
	if p.Header.Actor != nil {
		p.actor = *p.Header.Actor
	}
	return nil
}

// changed says whether Header is another than the one that was judged.
func (p *Prepared) changed() bool {
	h, j := &p.Header, &p.judged
	return h.Type != j.Type || h.Content != j.Content || h.Run != j.Run || h.Call != j.Call ||
		h.Note != j.Note || h.Key != j.Key ||
		h.Actor != j.Actor || h.Actor != nil && *h.Actor != p.actor ||
		h.Meter != j.Meter || h.Totals != j.Totals || h.Cap != j.Cap || h.Erased != j.Erased || h.Peer != j.Peer ||
		len(h.Keys) != len(j.Keys) || len(h.Parts) != len(j.Parts)
}

// size is about what p takes in the ledger.
func (p *Prepared) size() int {
	return len(p.event.Content) + len(p.Header.Note) + 1024 + 256*len(p.Header.Parts)
}

// refused puts a prefix in front of a FormError's path.
func refused(prefix string, err error) error {
	if f, ok := errors.AsType[*chain.FormError](err); ok {
		return &chain.FormError{Path: prefix + f.Path, Reason: f.Reason}
	}
	return err
}

// sameDraft says in what p differs from an event that has the same idempotency
// key: in nothing that a client says. Content that was erased since can't be
// compared and is taken as the same.
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
		salt, ok := e.PartSalts[name]
		body := p.bodies[name]
		if !ok || part.Media != p.Header.Parts[name].Media || part.Bytes != uint64(len(body)) || chain.PartCommit(salt, body) != part.Commit {
			return fmt.Errorf("another part %s, or one that can't be compared", name)
		}
	}
	return nil
}
