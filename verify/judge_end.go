package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// finish judges what follows the last event and fills the report.
func (j *judge) finish(e *ending) {
	j.keys.assume()
	if j.kind == KindExport {
		j.ending(e)
	}
	good := j.anchors()
	j.demandedKeys()
	if e.torn != "" {
		seq := j.n + 1
		if j.tornAt != 0 {
			seq = j.tornAt
		}
		j.fault(Torn, seq, stepTorn, nil, "%s", e.torn)
	}
	j.fill()
	j.ranges(good)
}

// last is the number that what concerns the whole input is reported at.
func (j *judge) last() uint64 { return max(j.n, 1) }

// ending judges the trailer and what stands behind it.
func (j *judge) ending(e *ending) {
	if e.bodies {
		j.fault(Malformed, j.n+1, stepContent, nil, "body lines without an event behind them")
	}
	if e.err != nil {
		j.fault(Malformed, j.last(), stepTrailer, nil, "trailer: %v", e.err)
	}
	if e.behind != nil {
		seq := e.behindSeq
		if seq == 0 {
			seq = j.n + 1
		}
		j.fault(Malformed, seq, stepTrailer, nil, "%v", e.behind)
	}
	if e.trailer != nil {
		j.trailer(e.trailer)
	}
}

// trailer compares the trailer with what was read: the last number always,
// the rest only where nothing else is wrong with the events.
func (j *judge) trailer(t *chain.Trailer) {
	j.counts.made[stepTrailer]++
	j.trailerPartial = true
	none := j.firstSeq == 0
	if t.Last > j.n || none {
		if none && t.First <= t.Last {
			j.missing(t.First, t.Last, nil)
			return
		}
		j.fault(Cut, j.last(), stepTrailer, nil, "the input ends at event %d, and the trailer says %d", j.n, t.Last)
		return
	}
	c := &j.counts
	for s := stepForm; s <= stepRunSeq; s++ {
		if j.faults.steps[s] > 0 {
			return
		}
	}
	j.trailerPartial = false
	wrong := func(name string, got, want any) {
		j.fault(Altered, j.last(), stepTrailer, nil, "the trailer says %s %v, and the events give %v", name, want, got)
	}
	for _, n := range []struct {
		name      string
		got, want uint64
	}{
		{"first", j.firstSeq, t.First},
		{"last", j.n, t.Last},
		{"events", c.events, t.Events},
		{"bodies", c.bodies, t.Bodies},
		{"erased", c.erased, t.Erased},
		{"withheld", c.absent - c.erased, t.Withheld},
	} {
		if n.got != n.want {
			wrong(n.name, n.got, n.want)
		}
	}
	if t.Head != j.hash {
		wrong("head", j.hash, t.Head)
	}
	if t.Root != nil && j.tree != nil {
		if root, ok := j.tree.root(j.n); ok && root != *t.Root {
			wrong("root", hexRoot(root), hexRoot(*t.Root))
		}
	}
}

// unexplained reports content that is gone from a database although no
// erasure names it.
func (j *judge) unexplained() {
	for n := range j.absent.all() {
		if j.erased.has(n) {
			continue
		}
		j.fault(Missing, n, stepContent, nil, "the content is gone, and no ledger.erased names the event")
		j.sound.remove(n)
		j.counts.unsound++
	}
}

// good is what anchors have shown to fit.
type good struct {
	size  uint64   // the largest checkpoint
	heads []uint64 // numbers of bare heads
}

// anchors compares what the caller knows from elsewhere, by rising size.
func (j *judge) anchors() good {
	var g good
	list := slices.Clone(j.opts.Expect)
	slices.SortStableFunc(list, func(a, b Anchor) int { return cmp.Compare(a.Size, b.Size) })
	for i := range list {
		a := &list[i]
		j.counts.made[stepAnchor]++
		var v Verdict
		var detail string
		if a.Head != nil {
			v, detail = j.headAnchor(a)
		} else {
			v, detail = j.checkpointAnchor(a)
		}
		switch {
		case v == Intact && a.Head != nil:
			g.heads = append(g.heads, a.Size)
			j.report.Anchored = true
		case v == Intact:
			g.size = max(g.size, a.Size)
			j.report.Anchored = true
		case v == Cut:
			j.fault(v, j.last(), stepAnchor, nil, "anchor %s: %s", a.Name, detail)
		default:
			j.fault(v, a.Size, stepAnchor, nil, "anchor %s: %s", a.Name, detail)
		}
	}
	return g
}

// headAnchor compares a bare head with the event of its number.
func (j *judge) headAnchor(a *Anchor) (Verdict, string) {
	h := j.headsAt[a.Size]
	if h == nil && a.Size+1 == j.first && a.Size+1 == j.firstSeq && j.run == "" {
		h = &j.firstPrev
	}
	switch {
	case h != nil && *h == *a.Head:
		return Intact, ""
	case h != nil:
		return Forked, fmt.Sprintf("event %d has hash %s, and the anchor says %s", a.Size, h, a.Head)
	case a.Size > j.n && j.run == "":
		return Cut, fmt.Sprintf("the input ends at event %d, and the anchor shows event %d", j.n, a.Size)
	}
	return Unverifiable, fmt.Sprintf("event %d is not in the input, so there is nothing to compare", a.Size)
}

// checkpointAnchor judges origin and signature first: where these don't fit,
// nothing is shown and nobody is accused.
func (j *judge) checkpointAnchor(a *Anchor) (Verdict, string) {
	k, c := &j.keys, a.Checkpoint
	if k.id == "" {
		k.id = c.Ledger
	}
	if c.Ledger != k.id {
		return Unverifiable, fmt.Sprintf("it is of ledger %s, and this is ledger %s", c.Ledger, k.id)
	}
	notInForce := ""
	if a.note != nil {
		var shown string
		if shown, notInForce = j.anchorSignature(a); shown != "" {
			return Unverifiable, shown
		}
	}
	if j.kind == KindReceipt {
		return j.receiptAnchor(c, notInForce)
	}
	if j.run != "" {
		return Unverifiable, "an export of one run holds no tree to compare a checkpoint with"
	}
	if c.Size > j.n {
		return Cut, fmt.Sprintf("the input ends at event %d, and the checkpoint covers %d", j.n, c.Size)
	}
	root, ok := j.tree.root(c.Size)
	switch {
	case !ok:
		return Unverifiable, fmt.Sprintf("the root at size %d does not follow from what was given", c.Size)
	case root != c.Root:
		return Forked, fmt.Sprintf("its root at size %d is %s, and the events give %s", c.Size, hexRoot(c.Root), hexRoot(root))
	case notInForce != "":
		return Forked, notInForce
	}
	return Intact, ""
}

// receiptAnchor compares an anchor with the one checkpoint of a receipt.
func (j *judge) receiptAnchor(c *receipt.Checkpoint, notInForce string) (Verdict, string) {
	own := j.own
	switch {
	case own == nil || own.Size != c.Size:
		return Unverifiable, fmt.Sprintf("a receipt is compared with a checkpoint of its own size alone, and this one has size %d", c.Size)
	case own.Root != c.Root:
		return Forked, fmt.Sprintf("its root at size %d is %s, and the receipt's is %s", c.Size, hexRoot(c.Root), hexRoot(own.Root))
	case notInForce != "":
		return Forked, notInForce
	}
	return Intact, ""
}

// anchorSignature says why a signature shows nothing, or that it is by a key
// that was not in force.
func (j *judge) anchorSignature(a *Anchor) (nothing, notInForce string) {
	k := &j.keys
	keys, known := k.inForce(a.Size)
	key, found, ok := k.signedBy(a.note, chain.MaxInt+1)
	switch {
	case found && !ok:
		return fmt.Sprintf("its signature by key %s does not hold", key), ""
	case !known:
		j.counts.checkpoints.withoutKey++
		k.witness(a.note)
		return "", ""
	case !found:
		return fmt.Sprintf("it is signed by key id %08x, which this ledger has not had", a.note.Signatures[0].KeyID), ""
	case !holds(keys, key):
		return "", fmt.Sprintf("it is signed by key %s, which was not in force at size %d", key, a.Size)
	}
	k.witness(a.note)
	return "", ""
}

// demandedKeys judges whether each key that the caller demands was met.
func (j *judge) demandedKeys() {
	k := &j.keys
	for i, v := range k.demanded {
		for _, l := range k.lists {
			if v.Name() == receipt.Origin(k.id) && holds(l.keys, v.Key()) {
				k.met[i] = true
			}
		}
		if !k.met[i] {
			j.fault(Unverifiable, 1, stepKey, nil, "key %s+%08x was demanded and is not there", v.Name(), v.KeyHash())
		}
	}
}

// ranges sets what is consistent and what anchors prove of it.
func (j *judge) ranges(g good) {
	r := j.report
	r.Consistent = append(r.Consistent, j.sound.list...)
	r.Proven = j.sound.upTo(g.size)
	for _, n := range g.heads {
		if i, ok := j.sound.find(n); ok {
			r.Proven = union(r.Proven, [][2]uint64{{j.sound.list[i][0], n}})
		}
	}
	if j.sound.more > 0 {
		r.note("%d more ranges of sound events stand behind the %d that are listed", j.sound.more, len(j.sound.list))
	}
}
