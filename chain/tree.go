package chain

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// TreeHash is a node or a root of the RFC 6962 SHA-256 tree.
type TreeHash = tlog.Hash

// LeafHash is the tree's leaf of an event: its data are the 32 bytes of the
// event's hash.
func LeafHash(event Hash) TreeHash { return tlog.RecordHash(event[:]) }

// NodeHash is the inner node above left and right.
func NodeHash(left, right TreeHash) TreeHash { return tlog.NodeHash(left, right) }

// Frontier is the right edge of the tree over the events 1…n: the roots of
// its perfect subtrees, left to right, one for each bit set in n (RFC 9162,
// section 2.1.1). It is all that a writer needs to add the next event. The
// zero value is the frontier of the empty tree. Not safe for concurrent use.
type Frontier struct {
	size  uint64
	peaks []TreeHash
}

// ErrFrontier tells that a size and a number of peaks don't belong together.
var ErrFrontier = errors.New("peaks do not fit the tree's size")

// NewFrontier makes the frontier of a tree of the given size from its peaks,
// left to right.
func NewFrontier(size uint64, peaks []TreeHash) (Frontier, error) {
	if bits.OnesCount64(size) != len(peaks) {
		return Frontier{}, fmt.Errorf("size %d has %d peaks, not %d: %w", size, bits.OnesCount64(size), len(peaks), ErrFrontier)
	}
	return Frontier{size, append([]TreeHash(nil), peaks...)}, nil
}

// Size is the number of events below the frontier.
func (f *Frontier) Size() uint64 { return f.size }

// Peaks returns a copy of the peaks, left to right.
func (f *Frontier) Peaks() []TreeHash { return append([]TreeHash(nil), f.peaks...) }

// Clone returns a frontier that grows apart from f.
func (f *Frontier) Clone() Frontier { return Frontier{f.size, f.Peaks()} }

// Add adds the next event.
func (f *Frontier) Add(event Hash) { f.AddSubtree(0, LeafHash(event)) }

// AddSubtree adds the root of the next 2^level events at once. It panics
// where the size so far is no multiple of 2^level.
func (f *Frontier) AddSubtree(level int, root TreeHash) {
	if f.size&(1<<level-1) != 0 {
		panic("chain: a subtree that is not aligned")
	}
	f.size += 1 << level
	for n := f.size >> level; n&1 == 0; n >>= 1 {
		last := len(f.peaks) - 1
		root = NodeHash(f.peaks[last], root)
		f.peaks = f.peaks[:last]
	}
	f.peaks = append(f.peaks, root)
}

// Root is the tree's root, RFC 6962, section 2.1. It panics on an empty
// frontier: no ledger has 0 events.
func (f *Frontier) Root() TreeHash {
	if f.size == 0 {
		panic("chain: root of an empty tree")
	}
	root := f.peaks[len(f.peaks)-1]
	for i := len(f.peaks) - 2; i >= 0; i-- {
		root = NodeHash(f.peaks[i], root)
	}
	return root
}

// Append appends the bytes of f: the peaks, 32 bytes each. The size is kept
// beside them, since it is the head's number.
func (f *Frontier) Append(dst []byte) []byte {
	for _, p := range f.peaks {
		dst = append(dst, p[:]...)
	}
	return dst
}
