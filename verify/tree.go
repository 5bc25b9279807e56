package verify

import (
	"math/bits"

	"github.com/docket-audit/docket/chain"
)

// subtree is the root of 2^level leaves.
type subtree struct {
	level int
	root  chain.TreeHash
}

// subtrees covers the leaves lo to lo+len(leaves)-1 by the largest aligned
// subtrees, left to right: what a frontier at lo can be advanced by. scratch
// has room for len(leaves) hashes.
func subtrees(dst []subtree, lo uint64, leaves, scratch []chain.TreeHash) []subtree {
	for len(leaves) > 0 {
		level := bits.Len(uint(len(leaves))) - 1
		if lo > 0 {
			level = min(level, bits.TrailingZeros64(lo))
		}
		n := 1 << level
		dst = append(dst, subtree{level, perfectRoot(leaves[:n], scratch)})
		leaves, lo = leaves[n:], lo+uint64(n)
	}
	return dst
}

// perfectRoot is the root over a power of two of leaves.
func perfectRoot(leaves, scratch []chain.TreeHash) chain.TreeHash {
	n := copy(scratch, leaves)
	for ; n > 1; n /= 2 {
		for i := range n / 2 {
			scratch[i] = chain.NodeHash(scratch[2*i], scratch[2*i+1])
		}
	}
	return scratch[0]
}

// tree follows the RFC 6962 tree over the stated hashes of what is read, in
// rising order, through single gaps: the hash of one missing event is the
// prev of the next.
type tree struct {
	frontier chain.Frontier
	// gap says that the event behind the frontier gives no hash itself.
	gap bool
	// lost says that no root is known beyond the frontier's size: two events
	// in a row give none, or what came before is not known.
	lost bool

	wanted map[uint64]bool           // sizes whose roots are asked for at the end
	roots  map[uint64]chain.TreeHash // those that were reached
	// recent is where the last two chunks began, with their leaves, so that
	// a checkpoint a little behind finds its root.
	recent [2]treePiece
}

// treePiece is a stretch of leaves behind a frontier.
type treePiece struct {
	cursor chain.Frontier // moves over leaves as roots are asked for
	base   uint64         // size at the first leaf
	leaves []chain.TreeHash
}

// newTree begins behind the events 1 to size, whose peaks are given. Without
// them no root will be known.
func newTree(size uint64, peaks []chain.TreeHash, wanted map[uint64]bool) *tree {
	t := &tree{wanted: wanted, roots: map[uint64]chain.TreeHash{}}
	f, err := chain.NewFrontier(size, peaks)
	if err != nil {
		t.lost = true
		return t
	}
	t.frontier = f
	t.reached()
	return t
}

// reached keeps the root where somebody asked for this size.
func (t *tree) reached() {
	if s := t.frontier.Size(); t.wanted[s] {
		t.roots[s] = t.frontier.Root()
	}
}

// next is the number of the event that the frontier waits for.
func (t *tree) next() uint64 { return t.frontier.Size() + 1 }

// add takes the chunk's events into account. It comes before they are judged.
func (t *tree) add(c *chunk) {
	last := t.recent[0]
	t.recent[0] = t.recent[1]
	t.recent[1] = treePiece{t.frontier.Clone(), t.frontier.Size(), last.leaves[:0]}
	if c.clean && !t.gap && !t.lost && c.first == t.next() && !t.wantedWithin(c.first, len(c.leaves)) {
		t.recent[1].leaves = append(t.recent[1].leaves, c.leaves...)
		for _, s := range c.subtrees {
			t.frontier.AddSubtree(s.level, s.root)
		}
		t.reached()
		return
	}
	for i := range c.items {
		if it := &c.items[i]; it.kind == itemEvent && !t.lost {
			t.addItem(it)
		}
	}
}

// wantedWithin says whether a root inside the next n leaves is asked for.
func (t *tree) wantedWithin(first uint64, n int) bool {
	for size := range t.wanted {
		if size >= first && size < first+uint64(n)-1 {
			return true
		}
	}
	return false
}

// addItem takes one event into account, with or without a hash of its own.
func (t *tree) addItem(it *item) {
	n, next := it.seq, t.frontier.Size()+1
	if n < next || n == next && t.gap && it.err != nil {
		return // a number again
	}
	if n == next {
		t.gap = false // the first of this number, or one that can be read
	}
	if n == next+1 && it.err == nil {
		t.addLeaf(it.header.Prev)
		t.gap, next = false, n
	}
	switch {
	case n != next:
		t.lost = true
	case it.err != nil:
		t.gap = true
	default:
		t.addLeaf(it.hash)
	}
}

func (t *tree) addLeaf(h chain.Hash) {
	leaf := chain.LeafHash(h)
	t.frontier.AddSubtree(0, leaf)
	t.recent[1].leaves = append(t.recent[1].leaves, leaf)
	t.reached()
}

// root is the root at a size that was reached; ok is false where it is not
// known any more, or never was.
func (t *tree) root(size uint64) (root chain.TreeHash, ok bool) {
	if root, ok := t.roots[size]; ok {
		return root, true
	}
	if size == 0 {
		return root, false
	}
	if size == t.frontier.Size() {
		return t.frontier.Root(), true
	}
	for i := range t.recent {
		p := &t.recent[i]
		if size < p.base || size > p.base+uint64(len(p.leaves)) || size < p.cursor.Size() {
			continue
		}
		for p.cursor.Size() < size {
			p.cursor.AddSubtree(0, p.leaves[p.cursor.Size()-p.base])
		}
		return p.cursor.Root(), true
	}
	return root, false
}

// passed says whether the root at size was passed but is not kept any more,
// so that reading again would give it.
func (t *tree) passed(size uint64) bool {
	return size > 0 && size < t.frontier.Size()
}
