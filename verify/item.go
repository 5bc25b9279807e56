package verify

import (
	"bytes"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// itemKind tells the lines of an export apart. A database holds events alone.
type itemKind uint8

const (
	itemEvent itemKind = iota
	itemBody
	itemTrailer
)

// contentState is what became of an event's content.
type contentState uint8

const (
	contentAbsent contentState = iota
	contentGood
	contentBad // not what the header commits to
)

// item is one line or record with everything that can be found out about it
// alone: the part of the work that is done in parallel. Its slices share the
// chunk's memory.
type item struct {
	kind itemKind
	err  error // a fault of form; then only raw, off and seq mean anything

	// seq is the number in the header; where err is set, the number that can
	// still be read there, or 0 where the line gives none.
	seq uint64
	// stated is the number in the header of an event that a database stores;
	// seq is then the number that it is stored under. 0 in exports.
	stated uint64
	off    int64 // of the line in an export
	// late says that an event of a higher number stands in front of it.
	late bool
	// elsewhere says that the path of a receipt's row leads elsewhere.
	elsewhere bool
	raw       []byte // the line, or the stored value

	header   *chain.Header
	hash     chain.Hash // stated
	gotHash  chain.Hash // of the header, where it differs from hash
	altered  bool       // header against its hash
	content  contentState
	got      chain.Hash // commitment to the content, where it differs
	bytes    []byte     // content of event 1, or of what is stored as it
	salts    map[string]chain.Salt
	cost     chain.Decimal // of a model.response, by usage and prices
	unpriced string        // class that makes the call unpriced, or why else; "" where it is priced

	body    *chain.Body
	trailer *chain.Trailer // nil where err is set
}

// Prefixes that tell lines apart, also where they are malformed.
var (
	bodyPrefix    = []byte(`{"body":`)
	trailerPrefix = []byte(`{"trailer":`)
)

func lineKind(b []byte) itemKind {
	switch {
	case bytes.HasPrefix(b, bodyPrefix):
		return itemBody
	case bytes.HasPrefix(b, trailerPrefix):
		return itemTrailer
	}
	return itemEvent
}

// readLine fills it from a line of an export, without its newline.
func (it *item) readLine(b []byte, off int64, hashes bool) {
	*it = item{kind: lineKind(b), raw: b, off: off}
	l, err := chain.ParseLine(b)
	switch {
	case err != nil:
		it.fail(err)
	case l.Event != nil:
		it.readEvent(l.Event, hashes)
	case l.Body != nil:
		it.body = l.Body
	default:
		it.trailer = l.Trailer
	}
}

// readRecord fills it from what a database stores under key.
func (it *item) readRecord(key uint64, value []byte, hashes bool) {
	*it = item{raw: value}
	e, err := chain.DecodeEvent(value)
	if err == nil && e.Content != nil {
		if err = chain.CheckContent(e.Content); err != nil {
			err = fmt.Errorf("content: %w", err)
		}
	}
	if err != nil {
		it.err, it.seq = err, key
		if e != nil {
			it.bytes = e.Content
		}
		return
	}
	it.readEvent(e, hashes)
	if it.err != nil {
		it.bytes = e.Content
	}
	it.stated, it.seq = it.seq, key
}

func (it *item) fail(err error) {
	it.err = err
	if it.kind == itemEvent {
		it.seq = looseNumber(it.raw)
	}
}

func (it *item) readEvent(e *chain.Event, hashes bool) {
	h, err := chain.ParseHeader(e.Header)
	if err == nil {
		err = saltsFit(h, e.PartSalts)
	}
	if err != nil {
		it.fail(fmt.Errorf("header: %w", err))
		return
	}
	it.seq, it.header, it.hash, it.salts = h.Seq, h, e.Hash, e.PartSalts
	if h.Seq == 1 {
		it.bytes = e.Content
	}
	if !hashes {
		return
	}
	if sum := chain.EventHash(e.Header); sum != e.Hash {
		it.altered, it.gotHash = true, sum
	}
	if e.Content != nil {
		it.content = contentGood
		if sum := chain.ContentCommit(e.Salt, e.Content); sum != h.Content {
			it.content, it.got = contentBad, sum
		}
	}
	if h.Meter != nil {
		it.cost, it.unpriced = costOf(h.Meter)
	}
}

// saltsFit says whether each part salt of a line belongs to a part that the
// header names.
func saltsFit(h *chain.Header, salts map[string]chain.Salt) error {
	for name := range salts {
		if _, ok := h.Parts[name]; !ok {
			return fmt.Errorf("a salt for part %q, which the header does not name", name)
		}
	}
	return nil
}

// costOf computes a call's cost from its row alone: docs/format.md, section
// 4. Where the call is unpriced it says why.
func costOf(m *chain.Meter) (cost chain.Decimal, unpriced string) {
	if m.Source == chain.SourceNone {
		return cost, "nothing is known of its usage"
	}
	for class, units := range m.Usage {
		if units == 0 {
			continue
		}
		price, ok := m.Prices[class]
		if !ok {
			// The first in the order of names, since a map has none.
			if unpriced == "" || class < unpriced {
				unpriced = class
			}
			continue
		}
		cost = cost.Add(price.TimesUnits(units))
	}
	if unpriced != "" {
		return chain.Decimal{}, fmt.Sprintf("class %s has units and no price", unpriced)
	}
	return cost, ""
}
