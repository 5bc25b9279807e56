package verify

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/docket-audit/docket/chain"
)

// maxStretches bounds what a plan keeps. An input with more stretches is
// planned window by window, each of which costs one reading. Tests lower it.
var maxStretches = 1 << 18

// maxTwins bounds the lines of one number that are judged one by one.
const maxTwins = 1000

// stretch is a run of lines in the input whose numbers rise by one.
type stretch struct {
	first, n uint64
	off      int64  // of its first line, or of the first body line before it
	highest  uint64 // number in front of it; an event below that comes late
}

// plan says in which order the lines of an input have to be read so that
// their numbers rise.
type plan struct {
	lo, hi uint64 // numbers in [lo, hi) are planned
	list   []stretch
	twins  uint64 // lines of one number beyond maxTwins, not judged one by one

	prev    uint64 // number of the line before
	highest uint64
	lowest  uint64
	body    int64 // offset of the first body line before the next event, or −1
	open    bool  // the last stretch is that of the line before
	run     string
	mixed   bool // events are not all of one run
	blind   bool // the first line gives no number
	end     ending
}

// makePlan reads forms and numbers of the whole input and plans the numbers
// from lo on. first is the number of a first line that gives none.
func (in *input) makePlan(ctx context.Context, lo, first uint64) (*plan, error) {
	p := &plan{lo: lo, hi: math.MaxUint64, body: -1, prev: first - 1}
	text, done, err := in.lines(0)
	if err != nil {
		return nil, err
	}
	defer done()
	pr := progress{call: in.opts.Progress, total: uint64(in.size)}
	err = pipeline(ctx, in.opts.Workers, &lineFeeder{r: text}, false, func(c *chunk) error {
		pr.at(in.read.Load())
		return p.take(c)
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, fmt.Errorf("plan reading: %w", err)
	}
	slices.SortFunc(p.list, compareStretches)
	return p, nil
}

func compareStretches(a, b stretch) int {
	return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.off, b.off))
}

func (p *plan) take(c *chunk) error {
	for i := range c.items {
		it := &c.items[i]
		mine, stop := p.end.take(it)
		switch {
		case stop:
			return errStop
		case mine:
			p.end.bodies = p.body >= 0
		case it.kind == itemBody:
			if p.body < 0 {
				p.body = it.off
			}
		default:
			p.event(it)
		}
	}
	if errors.Is(c.err, io.EOF) {
		p.end.end(c.tail)
	}
	return nil
}

func (p *plan) event(it *item) {
	n := it.seq
	if n == 0 {
		p.blind = p.blind || p.lowest == 0
		n = p.prev + 1
	}
	run := ""
	if it.header != nil {
		run = it.header.Run
	}
	if p.lowest == 0 {
		p.run = run
	}
	p.mixed = p.mixed || run == "" || run != p.run
	off := it.off
	if p.body >= 0 {
		off = p.body
	}
	p.add(n, off)
	// The end of a line that is too long is not known when it is read again.
	p.open = p.open && len(it.raw) <= chain.MaxLine
	p.prev, p.body = n, -1
	p.highest = max(p.highest, n)
	if p.lowest == 0 || n < p.lowest {
		p.lowest = n
	}
}

// add plans the line of number n.
func (p *plan) add(n uint64, off int64) {
	if n < p.lo || n >= p.hi {
		p.open = false
		return
	}
	if p.open && n == p.prev+1 {
		p.list[len(p.list)-1].n++
		return
	}
	p.list = append(p.list, stretch{n, 1, off, p.highest})
	if p.open = true; len(p.list) > maxStretches {
		p.narrow()
	}
}

// narrow lets go of the upper half of the numbers, to be planned later.
func (p *plan) narrow() {
	slices.SortFunc(p.list, compareStretches)
	p.hi = max(p.list[len(p.list)/2].first, p.lo+1)
	kept := p.list[:0]
	twins := 0
	for i, s := range p.list {
		if s.first >= p.hi {
			break
		}
		if i > 0 && s.first == p.list[i-1].first {
			twins++
		} else {
			twins = 0
		}
		if s.n = min(s.n, p.hi-s.first); twins >= maxTwins && s.n == 1 {
			p.twins++
			continue
		}
		kept = append(kept, s)
	}
	p.list = kept
	p.open = false
}

// planFeeder hands out the lines of an input in the order of their numbers.
type planFeeder struct {
	ra     io.ReaderAt
	size   int64
	active stretchHeap // begun, by the number that is next
	rest   []stretch   // not begun
	next   func(lo uint64) (*plan, error)
	hi     uint64 // where the next window begins
	twins  *uint64
}

type stretchHeap []stretch

func (h stretchHeap) Len() int           { return len(h) }
func (h stretchHeap) Less(i, j int) bool { return compareStretches(h[i], h[j]) < 0 }
func (h stretchHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *stretchHeap) Push(x any)        { *h = append(*h, x.(stretch)) }
func (h *stretchHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}

func (f *planFeeder) fill(c *chunk) error {
	c.reset()
	for len(c.data) < chunkBytes && len(c.pieces) < chunkItems {
		if len(f.active)+len(f.rest) == 0 {
			if f.hi == math.MaxUint64 {
				return io.EOF
			}
			p, err := f.next(f.hi)
			if err != nil {
				return err
			}
			f.rest, f.hi = p.list, p.hi
			*f.twins += p.twins
			continue
		}
		for len(f.rest) > 0 && (len(f.active) == 0 || compareStretches(f.rest[0], f.active[0]) < 0) {
			heap.Push(&f.active, f.rest[0])
			f.rest = f.rest[1:]
		}
		s := heap.Pop(&f.active).(stretch)
		if err := f.read(c, &s); err != nil {
			return err
		}
		if s.n > 0 {
			heap.Push(&f.active, s)
		}
	}
	return nil
}

// before says whether s comes before every other stretch.
func (f *planFeeder) before(s *stretch) bool {
	return (len(f.active) == 0 || compareStretches(*s, f.active[0]) < 0) &&
		(len(f.rest) == 0 || compareStretches(*s, f.rest[0]) < 0)
}

// read appends lines of s to the chunk while they are the next ones.
func (f *planFeeder) read(c *chunk, s *stretch) error {
	block := int64(8 << 10)
	for s.n > 0 && f.before(s) && len(c.data) < chunkBytes && len(c.pieces) < chunkItems {
		start := len(c.data)
		n := int(min(block, f.size-s.off))
		c.data = append(c.data, make([]byte, n)...)
		if got, err := f.ra.ReadAt(c.data[start:], s.off); got < n {
			return fmt.Errorf("read line at %d again: %w", s.off, err)
		}
		used := f.lines(c, s, start)
		c.data = c.data[:start+used]
		if used == 0 && n >= chain.MaxLine+2 {
			return fmt.Errorf("read line at %d again: its end is not there: %w", s.off, io.ErrUnexpectedEOF)
		}
		block = min(2*block, chain.MaxLine+2)
		if used > 0 {
			block = min(block, 256<<10)
		}
	}
	return nil
}

// lines cuts what was read at start into the lines of s, and returns how much
// of it was used.
func (f *planFeeder) lines(c *chunk, s *stretch, start int) (used int) {
	for s.n > 0 && f.before(s) {
		at := start + used
		i := bytes.IndexByte(c.data[at:], '\n')
		next := i + 1
		if i < 0 {
			if len(c.data)-at <= chain.MaxLine {
				break
			}
			i, next = chain.MaxLine+1, chain.MaxLine+1
		}
		p := piece{start: at, end: at + i, off: s.off}
		if lineKind(c.data[at:at+i]) == itemEvent {
			p.num, p.late = s.first, s.first < s.highest
			s.first, s.n = s.first+1, s.n-1
		}
		c.pieces = append(c.pieces, p)
		used += next
		s.off += int64(next)
	}
	return used
}

// planned judges an export in the order of its numbers.
func planned(ctx context.Context, in *input) (*Report, error) {
	ra, err := in.seekable(ctx)
	if err != nil {
		return nil, err
	}
	size, err := in.textSize()
	if err != nil {
		return nil, err
	}
	first := uint64(1)
	p, err := in.makePlan(ctx, 0, first)
	if err == nil && p.blind && p.end.first > 1 {
		first = p.end.first
		p, err = in.makePlan(ctx, 0, first)
	}
	if err != nil {
		return nil, err
	}
	s := p.end.setup(p.lowest)
	if !p.end.seen && p.lowest > 1 && !p.mixed {
		s.run = p.run // an export of one run whose end is gone
	}
	s.reread = rereader(ra)
	var twins uint64
	open := func() (feeder, func(), error) {
		twins = p.twins
		next := func(lo uint64) (*plan, error) { return in.makePlan(ctx, lo, first) }
		return &planFeeder{ra: ra, size: size, rest: p.list, hi: p.hi, next: next, twins: &twins}, func() {}, nil
	}
	r := newReport(KindExport)
	j := newJudge(s, in.opts, r)
	w := walker{s: s, planned: true, end: p.end}
	if err := in.pass(ctx, &w, open, j.chunk); err != nil {
		return versionOr(r, err)
	}
	if twins > 0 {
		r.note("%d lines repeat a number that stands more than %d times; they were not judged one by one", twins, maxTwins)
	}
	return in.conclude(ctx, j, &w, open)
}
