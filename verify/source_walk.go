package verify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// maxDepth bounds a tree: with two entries a branch, 2^64 keys have no
	// more levels.
	maxDepth = 64
	// maxPageBytes bounds a page with its overflow. A database keeps two
	// entries a page at least and an event is below 1.2 MiB, so a page of
	// ours stays far below.
	maxPageBytes = 16 << 20
	// maxDamage bounds the places that are named.
	maxDamage = 100
)

// treeWalk goes through the leaves of one bucket's tree in the order of keys.
// Every page is read once at most, and a key outside what its parent promises
// is damage: so a crafted tree can neither loop nor show fewer keys unseen.
type treeWalk struct {
	s     *Source
	stack []frame
	least []byte      // keys below are left out
	err   func(error) // takes damage; the walk goes on behind it
}

// frame is a page that waits: a branch's entries, or a page not read yet.
type frame struct {
	id     uint64
	inline []byte // the page itself, where it stands in its bucket's value
	lo, hi []byte // its keys are in [lo, hi); nil is no bound
	depth  int
}

// bucketPage is where a bucket's tree begins.
type bucketPage struct {
	root   uint64
	inline []byte
}

func (s *Source) walk(b bucketPage, damage func(error)) *treeWalk {
	return &treeWalk{s: s, stack: []frame{{id: b.root, inline: b.inline}}, err: damage}
}

// from leaves out what lies below key.
func (w *treeWalk) from(key []byte) *treeWalk {
	w.least = bytes.Clone(key)
	return w
}

// next reads the next leaf page into buf, which grows as needed. ok is false
// behind the last.
func (w *treeWalk) next(buf []byte) (p page, lo, hi []byte, ok bool, err error) {
	for len(w.stack) > 0 {
		f := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if f.hi != nil && bytes.Compare(f.hi, w.least) <= 0 {
			continue // below where the walk begins
		}
		p, err := w.s.page(f, buf)
		if errors.Is(err, errPages) {
			w.err(err)
			continue
		}
		if err != nil {
			return page{}, nil, nil, false, err
		}
		if p.leaf {
			return p, f.lo, f.hi, true, nil
		}
		if err := w.descend(p, f); err != nil {
			w.err(err)
		}
	}
	return page{}, nil, nil, false, nil
}

// descend puts a branch's children on the stack, the first on top.
func (w *treeWalk) descend(p page, f frame) error {
	if f.depth == maxDepth {
		return fmt.Errorf("page %d: more than %d levels: %w", p.id, maxDepth, errPages)
	}
	children := make([]frame, p.count)
	for i := range p.count {
		e, err := p.element(i)
		if err != nil {
			return err
		}
		key := bytes.Clone(e.key)
		if i > 0 {
			children[i-1].hi = key
		}
		children[i] = frame{id: e.child, lo: key, hi: f.hi, depth: f.depth + 1}
		if err := inRange(p.id, key, f.lo, f.hi, i > 0, lowOf(children, i)); err != nil {
			return err
		}
	}
	for i := range children {
		w.stack = append(w.stack, children[len(children)-1-i])
	}
	return nil
}

func lowOf(children []frame, i int) []byte {
	if i == 0 {
		return nil
	}
	return children[i-1].lo
}

// inRange says whether a key is within its parent's bounds and rises.
func inRange(id uint64, key, lo, hi []byte, follows bool, before []byte) error {
	switch {
	case lo != nil && bytes.Compare(key, lo) < 0, hi != nil && bytes.Compare(key, hi) >= 0:
		return fmt.Errorf("page %d holds a key outside what its parent says: %w", id, errPages)
	case follows && bytes.Compare(key, before) <= 0:
		return fmt.Errorf("page %d holds keys that don't rise: %w", id, errPages)
	}
	return nil
}

// entries reads a leaf's entries and judges their keys. What stands in front
// of a wrong one is handed out.
func (w *treeWalk) entries(p page, lo, hi []byte, each func(element) error) error {
	var before []byte
	for i := range p.count {
		e, err := p.element(i)
		if err == nil {
			err = inRange(p.id, e.key, lo, hi, i > 0, before)
		}
		if err != nil {
			w.err(err)
			return nil
		}
		before = e.key
		if bytes.Compare(e.key, w.least) < 0 {
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// page reads a page with its overflow, once.
func (s *Source) page(f frame, buf []byte) (page, error) {
	if f.inline != nil {
		p, overflow, err := parsePage(f.inline, 0)
		if err == nil && (overflow != 0 || !p.leaf) {
			err = fmt.Errorf("a bucket kept in its parent is no plain leaf: %w", errPages)
		}
		if err == nil {
			err = p.whole()
		}
		return p, err
	}
	if f.id < 2 || f.id >= s.pages {
		return page{}, fmt.Errorf("page %d is not one of the %d pages: %w", f.id, s.pages, errPages)
	}
	buf = grow(buf, s.pageSize)
	if err := s.readAt(buf, f.id); err != nil {
		return page{}, err
	}
	p, overflow, err := parsePage(buf, f.id)
	if err != nil {
		return page{}, err
	}
	if overflow >= s.pages-f.id || (overflow+1)*uint64(s.pageSize) > maxPageBytes {
		return page{}, fmt.Errorf("page %d overflows %d pages: %w", f.id, overflow, errPages)
	}
	for id := f.id; id <= f.id+overflow; id++ {
		if !s.visited.add(id) {
			return page{}, fmt.Errorf("page %d is used twice: %w", id, errPages)
		}
	}
	if overflow > 0 {
		buf = grow(buf, int64(overflow+1)*s.pageSize)
		if err := s.readAt(buf, f.id); err != nil {
			return page{}, err
		}
	}
	p.data = buf
	return p, p.whole()
}

func (s *Source) readAt(buf []byte, id uint64) error {
	n, err := s.f.ReadAt(buf, int64(id)*s.pageSize)
	switch {
	case n == len(buf):
		s.read(int64(n))
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("page %d ends behind the file: %w", id, errPages)
	}
	return fmt.Errorf("read page %d: %w", id, err)
}

func grow(buf []byte, n int64) []byte {
	if int64(cap(buf)) < n {
		return make([]byte, n)
	}
	return buf[:n]
}

// bucketIn reads where a bucket's tree begins from its value.
func bucketIn(value []byte) (bucketPage, error) {
	if len(value) < bucketHeader {
		return bucketPage{}, fmt.Errorf("a bucket of %d bytes: %w", len(value), errPages)
	}
	b := bucketPage{root: binary.LittleEndian.Uint64(value)}
	if b.root == 0 {
		b.inline = bytes.Clone(value[bucketHeader:])
	}
	return b, nil
}
