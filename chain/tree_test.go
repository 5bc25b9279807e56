package chain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/docket-audit/docket/chain"
)

const treeSize = 300

func leafEvents() []chain.Hash {
	list := make([]chain.Hash, treeSize)
	for i := range list {
		list[i] = chain.EventHash(fmt.Appendf(nil, "event %d", i+1))
	}
	return list
}

// subtree is the definition of RFC 6962, section 2.1, taken literally.
func subtree(leaves []chain.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return tlog.RecordHash(leaves[0][:])
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(subtree(leaves[:k]), subtree(leaves[k:]))
}

// TestTreeAgainstTlog compares the root of every size with the stored-hash
// tree of the Go checksum database's package, and with the definition.
func TestTreeAgainstTlog(t *testing.T) {
	events := leafEvents()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(index []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(index))
		for i, x := range index {
			list[i] = stored[x]
		}
		return list, nil
	})
	var f chain.Frontier
	for i, e := range events {
		hashes, err := tlog.StoredHashes(int64(i), e[:], reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		f.Add(e)
		size := i + 1
		want, err := tlog.TreeHash(int64(size), reader)
		if err != nil {
			t.Fatal(err)
		}
		if f.Size() != uint64(size) || f.Root() != want || want != subtree(events[:size]) {
			t.Fatalf("size %d: %d, root %v, not %v", size, f.Size(), f.Root(), want)
		}
		again, err := chain.NewFrontier(f.Size(), f.Peaks())
		if err != nil || again.Root() != want {
			t.Fatalf("size %d from its peaks: %v", size, err)
		}
		if got := f.Append([]byte("x")); len(got) != 1+32*len(f.Peaks()) {
			t.Fatalf("size %d: %d bytes", size, len(got))
		}
	}
}

// TestAddSubtree grows the tree by every aligned perfect subtree, at every
// place, in one step.
func TestAddSubtree(t *testing.T) {
	events := leafEvents()
	frontiers := make([]chain.Frontier, treeSize+1)
	for i, e := range events {
		frontiers[i+1] = frontiers[i].Clone()
		frontiers[i+1].Add(e)
	}
	tried := 0
	for start := range treeSize {
		for level := 0; start+1<<level <= treeSize; level++ {
			if start%(1<<level) != 0 {
				mustPanic(t, "chain: a subtree that is not aligned", func() {
					f := frontiers[start].Clone()
					f.AddSubtree(level, chain.TreeHash{})
				})
				continue
			}
			tried++
			end := start + 1<<level
			f := frontiers[start].Clone()
			f.AddSubtree(level, subtree(events[start:end]))
			if f.Size() != uint64(end) || !slices.Equal(f.Peaks(), frontiers[end].Peaks()) {
				t.Fatalf("%d and 2^%d: size %d", start, level, f.Size())
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d subtrees tried", tried)
	}
}

func TestFrontierEdges(t *testing.T) {
	var f chain.Frontier
	mustPanic(t, "chain: root of an empty tree", func() { f.Root() })
	for _, c := range []struct {
		size  uint64
		peaks int
	}{{0, 1}, {1, 0}, {3, 1}, {4, 2}, {7, 2}, {1<<63 + 1, 1}} {
		if _, err := chain.NewFrontier(c.size, make([]chain.TreeHash, c.peaks)); !errors.Is(err, chain.ErrFrontier) {
			t.Errorf("size %d with %d peaks: %v", c.size, c.peaks, err)
		}
	}
	// What comes out, or went in, is not shared.
	peaks := []chain.TreeHash{{1}, {2}}
	g, err := chain.NewFrontier(3, peaks)
	if err != nil {
		t.Fatal(err)
	}
	before := g.Root()
	peaks[0] = chain.TreeHash{9}
	g.Peaks()[1] = chain.TreeHash{9}
	c := g.Clone()
	c.Add(chain.Hash{})
	if g.Root() != before || g.Size() != 3 || c.Size() != 4 {
		t.Error("a frontier shares memory with what it was made of or gave out")
	}
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic %v, not %q", got, want)
		}
	}()
	f()
}
