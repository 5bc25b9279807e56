package verify

import (
	"cmp"
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// bitset is a set of numbers in pages that exist only where they hold one: a
// bit an event, and nothing for stretches without any.
type bitset struct {
	pages map[uint64]*[bitsetWords]uint64
	last  *[bitsetWords]uint64 // page used last, since numbers rise
	at    uint64
}

const (
	bitsetWords = 512
	bitsetPage  = 64 * bitsetWords
)

func (b *bitset) page(n uint64, make bool) *[bitsetWords]uint64 {
	no := n / bitsetPage
	if b.last != nil && b.at == no {
		return b.last
	}
	p := b.pages[no]
	if p == nil {
		if !make {
			return nil
		}
		if b.pages == nil {
			b.pages = map[uint64]*[bitsetWords]uint64{}
		}
		p = new([bitsetWords]uint64)
		b.pages[no] = p
	}
	b.last, b.at = p, no
	return p
}

// add puts n into the set and says whether it was not there.
func (b *bitset) add(n uint64) bool {
	p := b.page(n, true)
	w, bit := n%bitsetPage/64, uint64(1)<<(n%64)
	fresh := p[w]&bit == 0
	p[w] |= bit
	return fresh
}

func (b *bitset) has(n uint64) bool {
	p := b.page(n, false)
	return p != nil && p[n%bitsetPage/64]&(1<<(n%64)) != 0
}

// all walks the set in rising order.
func (b *bitset) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, no := range slices.Sorted(maps.Keys(b.pages)) {
			for w, word := range b.pages[no] {
				for ; word != 0; word &= word - 1 {
					if !yield(no*bitsetPage + uint64(w*64+bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}

// maxRanges bounds the ranges that a report lists; beyond them only their
// number is kept.
const maxRanges = 4096

// ranges is a rising list of closed ranges.
type ranges struct {
	list [][2]uint64
	more uint64 // ranges beyond the bound
	last uint64 // end of the last of them
}

// add puts n behind all numbers before.
func (r *ranges) add(n uint64) {
	switch last := len(r.list) - 1; {
	case r.more > 0 && r.last+1 == n:
		r.last = n
	case r.more == 0 && last >= 0 && r.list[last][1]+1 == n:
		r.list[last][1] = n
	case len(r.list) < maxRanges:
		r.list = append(r.list, [2]uint64{n, n})
	default:
		r.more, r.last = r.more+1, n
	}
}

// remove takes n out of the range that holds it.
func (r *ranges) remove(n uint64) {
	i, ok := r.find(n)
	if !ok {
		return
	}
	lo, hi := r.list[i][0], r.list[i][1]
	var parts [][2]uint64
	if lo < n {
		parts = append(parts, [2]uint64{lo, n - 1})
	}
	if n < hi {
		parts = append(parts, [2]uint64{n + 1, hi})
	}
	r.list = slices.Replace(r.list, i, i+1, parts...)
}

// find is the index of the range that holds n.
func (r *ranges) find(n uint64) (int, bool) {
	i, ok := slices.BinarySearchFunc(r.list, n, func(e [2]uint64, n uint64) int { return cmp.Compare(e[0], n) })
	if !ok {
		i--
	}
	return i, i >= 0 && r.list[i][1] >= n
}

// upTo is the part of the list up to n.
func (r *ranges) upTo(n uint64) [][2]uint64 {
	list := [][2]uint64{}
	for _, e := range r.list {
		if e[0] <= n {
			list = append(list, [2]uint64{e[0], min(e[1], n)})
		}
	}
	return list
}

// union merges b into the list a; both rise.
func union(a, b [][2]uint64) [][2]uint64 {
	all := slices.SortedFunc(slices.Values(slices.Concat(a, b)), func(x, y [2]uint64) int { return cmp.Compare(x[0], y[0]) })
	list := [][2]uint64{}
	for _, e := range all {
		if last := len(list) - 1; last >= 0 && e[0] <= list[last][1] {
			list[last][1] = max(list[last][1], e[1])
		} else {
			list = append(list, e)
		}
	}
	return list
}
