package store

import (
	"crypto/rand"
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
	// Header may still be changed between Prepare and Sequencer.Add where a
	// member depends on the event's own number, such as the fence of a
	// lock.acquired. What it becomes has to be well formed.
	Header chain.Header

	event  chain.Event
	bodies map[string][]byte
	used   bool
}

// placeholderTime stands for ts while a draft is judged.
const placeholderTime = "2026-11-30T00:00:00.000000000Z"

// Prepare judges d by docs/format.md, sections 1 and 2. A refusal is a
// *chain.FormError whose path begins with /content or is a header member's.
func Prepare(d Draft) (*Prepared, error) {
	content := d.Content
	if content == nil {
		content = []byte("{}")
	}
	canonical, err := chain.CanonicalContent(content)
	if err != nil {
		return nil, refused("/content", err)
	}
	p := &Prepared{Header: d.Header, event: chain.Event{PartSalts: maps.Clone(d.PartSalts)}, bodies: d.Bodies}
	// The caller may go on using its buffer.
	p.event.Content = append([]byte(nil), canonical...)
	rand.Read(p.event.Salt[:])
	p.Header.Content = chain.ContentCommit(p.event.Salt, p.event.Content)
	if err := p.check(); err != nil {
		return nil, refused("", err)
	}
	return p, nil
}

// check judges the header with the largest values that the store could still
// assign, so that what passes here also fits when it has its place.
func (p *Prepared) check() error {
	h := p.Header
	h.TS, h.Seq = placeholderTime, chain.MaxInt
	if h.Type == chain.TypeCreated {
		h.Seq = 1
	}
	if h.Run != "" {
		h.RunSeq = chain.MaxInt
	}
	for name := range p.event.PartSalts {
		if _, ok := h.Parts[name]; !ok {
			return fmt.Errorf("salt of a part %q that the header doesn't have", name)
		}
	}
	return h.Check()
}

// refused puts a prefix in front of a FormError's path.
func refused(prefix string, err error) error {
	if f, ok := err.(*chain.FormError); ok {
		return &chain.FormError{Path: prefix + f.Path, Reason: f.Reason}
	}
	return err
}
