package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/docket-audit/docket/chain"
)

// verifyDatabase judges the events of a database file.
func verifyDatabase(ctx context.Context, in *input) (*Report, error) {
	src, err := newSource(in.ra, in.file, in.size)
	if err != nil {
		return refused(src, err)
	}
	src.read = func(n int64) { in.read.Add(n) }
	r := newReport(KindDatabase)
	j := newJudge(setup{kind: KindDatabase, first: 1}, in.opts, r)
	open := func() (feeder, func(), error) {
		src.visited = bitset{}
		return &pageFeeder{w: src.walk(src.events, src.harm)}, func() {}, nil
	}
	w := walker{s: j.setup, planned: true}
	if err := in.pass(ctx, &w, open, j.chunk); err != nil {
		return versionOr(r, err)
	}
	harmed := src.damaged > 0
	if err := in.resolve(ctx, j, &w, open); err != nil {
		return nil, err
	}
	if harmed {
		j.letGo(src)
	} else {
		j.unexplained()
	}
	j.finish(&ending{torn: j.tornBy(src)})
	src.describe(r)
	r.conclude(&j.faults)
	return r, nil
}

// refused is the report on a file whose events are out of reach.
func refused(src *Source, err error) (*Report, error) {
	r := newReport(KindDatabase)
	f := Fault{Seq: 1, Detail: clip(err.Error()), step: stepTorn}
	switch {
	case errors.Is(err, ErrTorn):
		f.Verdict = Torn
	case errors.Is(err, ErrNotLedger):
		f.Verdict = Malformed
	case errors.Is(err, ErrSchema):
		f.Verdict = Unverifiable
	default:
		return nil, err
	}
	var l faultList
	l.add(f)
	r.check("pages", Fail, "")
	r.check("form", Skip, "nothing was judged")
	r.conclude(&l)
	return r, nil
}

// tornBy says why the file is torn, "" where it is not.
func (j *judge) tornBy(src *Source) string {
	switch rolled := src.Rolled(); {
	case src.damaged > 0:
		return "pages don't fit together, as in a copy that was taken while the file was written: " + src.damage[0].Error()
	case rolled != "":
		return rolled
	case j.counts.events == 0:
		return "the file holds no events"
	case src.head != nil && src.head.Seq > j.n:
		return "the file's own head names event " + itoa(src.head.Seq) + ", and its events end at " + itoa(j.n)
	}
	return ""
}

// letGo makes notes of the faults found in a file whose pages don't fit
// together: a copy that was taken while the file was written gives any of
// them, so they accuse nobody. What anchors show is judged afterwards.
func (j *judge) letGo(src *Source) {
	if f, ok := j.faults.verdict(); ok {
		j.report.note("the file is torn, so what doesn't hold in it is no finding: %d places, the first at event %d (%s: %s)", j.faults.found, f.Seq, f.Verdict, f.Detail)
	}
	j.faults = faultList{}
	j.tornAt = j.firstGap
}

// describe tells of the file itself.
func (s *Source) describe(r *Report) {
	res, reason := Pass, ""
	if s.damaged > 0 || s.Rolled() != "" {
		res = Fail
	}
	if s.damaged > 1 {
		reason = itoa(s.damaged) + " places"
	}
	r.check("pages", res, reason)
	r.check("derived", Skip, "the other buckets are rebuilt from the events and prove nothing")
	for i, m := range s.metas {
		state := "valid"
		if m.Problem != "" {
			state = m.Problem
		}
		r.note("meta page %d: transaction %d, %s", i, m.TxID, state)
	}
	for i, err := range s.damage {
		if i > 0 {
			r.note("damage: %v", err)
		}
	}
	for _, name := range s.unknown {
		r.note("bucket %s is none of a ledger's; it was not read", clip(fmt.Sprintf("%q", name)))
	}
	for _, n := range s.notes {
		r.note("%s", n)
	}
}

// pageFeeder hands out the events of a database, leaf by leaf.
type pageFeeder struct {
	w    *treeWalk
	page []byte
	prev uint64 // number of the record before
}

func (f *pageFeeder) fill(c *chunk) error {
	c.reset()
	c.stored = true
	for len(c.data) < chunkBytes && len(c.pieces) < chunkItems {
		p, lo, hi, ok, err := f.w.next(f.page)
		if err != nil {
			return err
		}
		if !ok {
			return io.EOF
		}
		f.page = p.data
		err = f.w.entries(p, lo, hi, func(e element) error {
			f.record(c, e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// record puts an entry into the chunk. One that has no number's key is handed
// out empty, which is malformed, as the number that would have come.
func (f *pageFeeder) record(c *chunk, e element) {
	p := piece{start: len(c.data), key: f.prev + 1}
	if len(e.key) == len(chain.SeqKey(0)) && !e.bucket {
		p.key = max(binary.BigEndian.Uint64(e.key), 1)
		c.data = append(c.data, e.value...)
	}
	p.end = len(c.data)
	f.prev = p.key
	c.pieces = append(c.pieces, p)
}
