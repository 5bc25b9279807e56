package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/docket-audit/docket/chain"
)

// maxKeptBody is how much of an event's bodies is kept until the event comes,
// whose salts the hash begins with. Larger ones are read again. Tests lower it.
var maxKeptBody = 8 << 20

// maxBodies bounds the bodies of one event: a header of 64 KiB can't commit to
// as many.
const maxBodies = 1024

// bodies gathers the body lines in front of an event.
type bodies struct {
	list    []*carried            // by first appearance
	kept    int                   // bytes
	from    int64                 // offset of the first line
	spilled bool                  // the bytes were let go and have to be read again
	lines   bool                  // there was a line
	err     error                 // first fault of form
	again   map[chain.Hash]string // what reading again found, by commitment
}

// carried is one body of an export.
type carried struct {
	commit chain.Hash
	length uint64
	at     uint64 // of its last piece
	pieces [][]byte
}

func (b *bodies) drop() { *b = bodies{} }

// add takes a body line.
func (b *bodies) add(it *item) error {
	if !b.lines {
		b.lines, b.from = true, it.off
	}
	if it.err != nil {
		b.wrong(it.err)
		return nil
	}
	p := it.body
	i := slices.IndexFunc(b.list, func(c *carried) bool { return c.commit == p.Commit })
	switch {
	case i < 0 && p.At != 0:
		b.wrong(fmt.Errorf("body %s begins at %d", p.Commit, p.At))
		return nil
	case i < 0 && len(b.list) == maxBodies:
		b.wrong(fmt.Errorf("more than %d bodies in front of one event", maxBodies))
		return nil
	case i < 0:
		b.list = append(b.list, &carried{commit: p.Commit})
		i = len(b.list) - 1
	case p.At != b.list[i].length || p.At == b.list[i].at:
		b.wrong(fmt.Errorf("body %s goes on at %d behind %d bytes", p.Commit, p.At, b.list[i].length))
		return nil
	}
	c := b.list[i]
	c.at, c.length = p.At, c.length+uint64(len(p.Data))
	if b.kept += len(p.Data); b.kept > maxKeptBody {
		b.spill()
	}
	if !b.spilled {
		c.pieces = append(c.pieces, p.Data)
	}
	return nil
}

func (b *bodies) wrong(err error) {
	if b.err == nil {
		b.err = err
	}
}

// spill lets the bytes go.
func (b *bodies) spill() {
	b.spilled = true
	for _, c := range b.list {
		c.pieces = nil
	}
}

// bodyForm reports a fault of form of the body lines in front of event n.
func (j *judge) bodyForm(n uint64) (fault bool) {
	if j.bodies.err == nil {
		return false
	}
	j.fault(Malformed, n, stepContent, nil, "body line: %v", j.bodies.err)
	return true
}

// contents judges an event's content and the bodies carried in front of it.
func (j *judge) contents(it *item) (ok bool, err error) {
	defer j.bodies.drop()
	ok = true
	switch it.content {
	case contentAbsent:
		j.counts.absent++
		j.absent.add(it.seq)
	case contentGood, contentBad:
		j.counts.contentsMade++
		j.given.add(it.seq)
	}
	if it.content == contentBad {
		ok = false
		j.fault(Altered, it.seq, stepContent, it.header, "content and salt give %s, and the header commits to %s", it.got, it.header.Content)
	}
	if j.bodies.err != nil {
		return false, nil
	}
	if j.bodies.spilled {
		if err := j.readBodiesAgain(it); err != nil {
			return false, err
		}
	}
	carried := len(j.bodies.list)
	j.counts.bodies += uint64(carried)
	j.counts.parts += uint64(len(it.header.Parts))
	j.counts.bodiesNotCarried += uint64(max(0, len(it.header.Parts)-carried))
	for _, c := range j.bodies.list {
		if v, detail := j.bodyFault(it, c); detail != "" {
			ok = false
			j.fault(v, it.seq, stepContent, it.header, "%s", detail)
		}
	}
	return ok, nil
}

// partOf finds the part that a body belongs to, and its salt.
func partOf(it *item, commit chain.Hash) (name string, salt chain.Salt, named, salted bool) {
	for _, n := range slices.Sorted(maps.Keys(it.header.Parts)) {
		if it.header.Parts[n].Commit != commit {
			continue
		}
		name, named = n, true
		if salt, salted = it.salts[n]; salted {
			return name, salt, true, true
		}
	}
	return name, salt, named, false
}

// bodyFault says what is wrong with a body that was carried, "" where nothing
// is.
func (j *judge) bodyFault(it *item, c *carried) (Verdict, string) {
	name, salt, named, salted := partOf(it, c.commit)
	switch {
	case !named:
		return Malformed, fmt.Sprintf("a body %s that the event does not commit to", c.commit)
	case !salted:
		return Malformed, fmt.Sprintf("body of part %s without its salt", name)
	case c.length != it.header.Parts[name].Bytes:
		return Altered, fmt.Sprintf("body of part %s has %d bytes, and the header says %d", name, c.length, it.header.Parts[name].Bytes)
	case j.bodies.spilled:
		// Its hash was taken, and compared, as it was read again.
		return Altered, j.bodies.again[c.commit]
	}
	p := chain.NewPartHasher(salt)
	for _, b := range c.pieces {
		p.Write(b)
	}
	return Altered, commitFault(name, p, c.commit)
}

func commitFault(name string, p *chain.PartHasher, want chain.Hash) string {
	if sum, _ := p.Commit(); sum != want {
		return fmt.Sprintf("body and salt of part %s give %s, and the header commits to %s", name, sum, want)
	}
	return ""
}

// readBodiesAgain hashes bodies that were too large to keep, now that their
// salts are known.
func (j *judge) readBodiesAgain(it *item) error {
	if j.reread == nil {
		return errSeek
	}
	sums := map[chain.Hash]*chain.PartHasher{}
	names := map[chain.Hash]string{}
	for _, c := range j.bodies.list {
		if name, salt, _, salted := partOf(it, c.commit); salted {
			sums[c.commit], names[c.commit] = chain.NewPartHasher(salt), name
		}
	}
	err := j.reread(j.bodies.from, it.off, func(line []byte) {
		if l, err := chain.ParseLine(line); err == nil && l.Body != nil {
			if p := sums[l.Body.Commit]; p != nil {
				p.Write(l.Body.Data)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read bodies of event %d again: %w", it.seq, err)
	}
	j.bodies.again = map[chain.Hash]string{}
	for commit, p := range sums {
		j.bodies.again[commit] = commitFault(names[commit], p, commit)
	}
	return nil
}
