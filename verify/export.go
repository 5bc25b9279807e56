package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/docket-audit/docket/chain"
)

var (
	// errOrder ends a reading in input order: the numbers don't simply rise,
	// or the trailer says another thing than was assumed.
	errOrder = errors.New("input has to be read in order of numbers")
	// errStop ends a reading behind the line that stands behind the trailer.
	errStop = errors.New("nothing more is read")
)

// verifyExport judges an export as it comes. Where its numbers turn out not to
// rise one by one it is read again by a plan, in their order.
func verifyExport(ctx context.Context, in *input) (*Report, error) {
	defer in.close()
	s, err := assumed(in)
	if err != nil {
		return nil, err
	}
	r, err := inOrder(ctx, in, s)
	if errors.Is(err, errOrder) || errors.Is(err, errSeek) {
		r, err = planned(ctx, in)
	}
	return r, err
}

// assumed is what a plain export's last line says of it; a ledger from event 1
// where that is no trailer.
func assumed(in *input) (setup, error) {
	e := ending{}
	if !in.zst {
		b, err := lastLine(in.ra, in.size)
		if err != nil {
			return setup{}, err
		}
		if l, err := chain.ParseLine(b); err == nil && l.Trailer != nil {
			e.take(&item{kind: itemTrailer, trailer: l.Trailer, raw: b})
		}
	}
	return e.setup(0), nil
}

// inOrder judges an export line by line.
func inOrder(ctx context.Context, in *input, s setup) (*Report, error) {
	if !in.zst {
		s.reread = rereader(in.ra)
	}
	r := newReport(KindExport)
	j := newJudge(s, in.opts, r)
	w := walker{s: s, prev: s.first - 1}
	err := in.pass(ctx, &w, func() (feeder, func(), error) {
		text, done, err := in.lines(0)
		return &lineFeeder{r: text}, done, err
	}, j.chunk)
	if err != nil {
		return versionOr(r, err)
	}
	if now := w.end.setup(w.lowest); now.first != s.first || now.run != s.run || !slices.Equal(now.peaks, s.peaks) {
		return nil, errOrder
	}
	return in.conclude(ctx, j, &w, func() (feeder, func(), error) {
		text, done, err := in.lines(0)
		return &lineFeeder{r: text}, done, err
	})
}

// versionOr turns the discovery of an unknown version into its report.
func versionOr(r *Report, err error) (*Report, error) {
	var v *versionError
	if errors.As(err, &v) {
		return unknownVersion(r.Kind, v.format), nil
	}
	return nil, err
}

// versionError ends the judging: nothing else can be judged.
type versionError struct{ format string }

func (e *versionError) Error() string { return "unknown format version " + e.format }

// chunk judges a chunk whose numbers are settled.
func (j *judge) chunk(c *chunk) error {
	if j.tree != nil {
		j.tree.add(c)
	}
	for i := range c.items {
		it := &c.items[i]
		if it.kind == itemEvent && it.seq == 1 {
			if f := it.format(); otherVersion(f, chain.FormatName) {
				return &versionError{f}
			}
		}
		if err := j.item(it); err != nil {
			return err
		}
	}
	return nil
}

// conclude resolves what had to wait and finishes the report.
func (in *input) conclude(ctx context.Context, j *judge, w *walker, open func() (feeder, func(), error)) (*Report, error) {
	if err := in.resolve(ctx, j, w, open); err != nil {
		return nil, err
	}
	e := &w.end
	if in.cutShort && e.behind == nil {
		e.torn = "the compressed stream ends early"
	}
	if in.damaged != nil {
		j.fault(Malformed, j.n+1, stepTrailer, nil, "the compressed stream can't be read on: %v", in.damaged)
		if !e.seen {
			e.torn = ""
		}
	}
	e.bodies = e.bodies || e.seen && j.bodies.lines
	if !e.seen {
		j.bodyForm(j.n + 1) // no event comes any more that would report it
	}
	j.finish(e)
	j.report.conclude(&j.faults)
	return j.report, nil
}

// resolve reads the input once more for the roots of checkpoints that lie too
// far behind their event.
func (in *input) resolve(ctx context.Context, j *judge, w *walker, open func() (feeder, func(), error)) error {
	if len(j.keys.deferred) == 0 {
		return nil
	}
	wanted := map[uint64]bool{}
	for _, d := range j.keys.deferred {
		wanted[d.size] = true
	}
	t := newTree(j.first-1, j.peaks, wanted)
	again := walker{s: w.s, prev: j.first - 1, planned: w.planned}
	err := in.pass(ctx, &again, open, func(c *chunk) error { t.add(c); return nil })
	if err != nil {
		return fmt.Errorf("read again for roots: %w", err)
	}
	for _, d := range j.keys.deferred {
		root, ok := t.root(d.size)
		switch {
		case !ok:
			j.counts.checkpoints.withoutRoot++
		case root != d.root:
			j.fault(Forked, d.seq, stepNote, nil, "the checkpoint's root at size %d is %s, and the events give %s", d.size, hexRoot(d.root), hexRoot(root))
		}
	}
	return nil
}

// pass reads the input once, by open, and hands its chunks out by w.
func (in *input) pass(ctx context.Context, w *walker, open func() (feeder, func(), error), each func(*chunk) error) error {
	f, done, err := open()
	if err != nil {
		return err
	}
	defer done()
	p := progress{call: in.opts.Progress, total: uint64(in.size)}
	err = pipeline(ctx, in.opts.Workers, f, true, func(c *chunk) error {
		p.at(in.read.Load())
		return w.walk(c, each)
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil {
		p.end()
	}
	return err
}

// walker settles the numbers of lines and finds where the events end.
type walker struct {
	s       setup
	prev    uint64 // number of the line before
	lowest  uint64 // first number
	planned bool   // the chunks come by a plan, whose ending is known
	end     ending
}

// walk hands the chunk's events and bodies out by each.
func (w *walker) walk(c *chunk, each func(*chunk) error) error {
	if w.planned {
		return each(c)
	}
	keep, stop := len(c.items), false
	for i := range c.items {
		it := &c.items[i]
		if mine, last := w.end.take(it); mine {
			keep = min(keep, i)
			if stop = last; stop {
				break
			}
		} else if it.kind == itemEvent {
			if err := w.number(it); err != nil {
				return err
			}
		}
	}
	c.items = c.items[:keep]
	c.clean = c.clean && !stop
	if err := each(c); err != nil {
		return err
	}
	if stop {
		return errStop
	}
	if errors.Is(c.err, io.EOF) {
		w.end.end(c.tail)
	}
	return nil
}

// number gives a line that states no number the one that would have come, and
// makes sure that numbers rise as assumed.
func (w *walker) number(it *item) error {
	if it.seq == 0 {
		it.seq = w.prev + 1
	}
	if w.lowest == 0 {
		w.lowest = it.seq
	}
	if w.s.run == "" && it.seq != w.prev+1 || it.seq <= w.prev {
		return errOrder
	}
	w.prev = it.seq
	return nil
}
