package verify

import (
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// ending is how an input ends: its trailer, and what stands behind that.
type ending struct {
	seen    bool // a line that is the trailer, well-formed or not
	trailer *chain.Trailer
	err     error // of a malformed trailer
	first   uint64
	run     string // what a malformed trailer still says

	behind    error  // of a line behind the trailer
	behindSeq uint64 // the number it gives, or 0
	torn      string // why the input is torn, "" where it is not
	bodies    bool   // body lines stand right before the trailer
}

// take takes an item that may belong to the ending. mine is false for those
// that stand before the trailer; stop is true where nothing more is read.
func (e *ending) take(it *item) (mine, stop bool) {
	switch {
	case e.seen:
		e.behind = fmt.Errorf("a line behind the trailer")
		if it.kind == itemEvent {
			e.behindSeq = it.seq
		}
		return true, true
	case it.kind != itemTrailer:
		return false, false
	}
	e.seen = true
	if e.trailer, e.err = it.trailer, it.err; e.err != nil {
		e.first, e.run = looseTrailer(it.raw)
	} else {
		e.first, e.run = it.trailer.First, it.trailer.Run
	}
	return true, false
}

// end is called where the input ends; tail says whether the last line has no
// newline.
func (e *ending) end(tail bool) {
	switch {
	case e.behind != nil:
	case tail && e.seen:
		e.torn = "a piece of a line without newline stands behind the trailer"
	case tail:
		e.torn = "the last line has no newline"
	case !e.seen:
		e.torn = "the input ends without a trailer"
	}
}

// setup is how the events of an export are to be taken. lowest is the lowest
// number in it, 0 where that is not known.
func (e *ending) setup(lowest uint64) setup {
	s := setup{kind: KindExport, first: max(lowest, 1), run: e.run}
	if e.first != 0 && (lowest == 0 || e.first < lowest) {
		s.first = e.first
	}
	if e.trailer != nil && e.trailer.First == s.first {
		s.peaks = e.trailer.Peaks
	}
	return s
}
