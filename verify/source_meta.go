package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The database is bbolt's file format, version 2, as a little-endian machine
// writes it. What is read here was worked out from the format alone; nothing of
// the database's own code runs on a file that somebody else may have made.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	minPageSize = 4 << 10
	maxPageSize = 64 << 10

	pageHeaderSize = 16 // id 8, flags 2, count 2, overflow 4
	metaSize       = 64 // of which the last 8 are the checksum
	bucketHeader   = 16 // root 8, sequence 8

	pageBranch = 0x01
	pageLeaf   = 0x02
	pageMeta   = 0x04
)

// MetaPage is one of the two pages that name the state of a database. The
// newer of those that are valid counts.
type MetaPage struct {
	// Problem says why the page is not valid, and is "" where it is.
	Problem  string
	PageSize uint32
	TxID     uint64 // number of the transaction that wrote it
	Pages    uint64 // pages in use: no page of this number or above is
	root     uint64
}

// isDatabase says whether the file has the mark of a database where either
// meta page may stand.
func isDatabase(f io.ReaderAt) bool {
	for _, at := range metaPlaces() {
		var b [4]byte
		if _, err := f.ReadAt(b[:], at+pageHeaderSize); err == nil && binary.LittleEndian.Uint32(b[:]) == metaMagic {
			return true
		}
	}
	return false
}

// metaPlaces lists the offsets at which a meta page can stand.
func metaPlaces() []int64 {
	places := []int64{0}
	for p := int64(minPageSize); p <= maxPageSize; p *= 2 {
		places = append(places, p)
	}
	return places
}

// readMetas reads both meta pages. The page size is that of the first valid
// one; where neither is valid it is not known and 0.
func readMetas(f io.ReaderAt) (metas [2]MetaPage, pageSize int64) {
	if metas[0] = readMeta(f, 0, 0); metas[0].Problem == "" {
		pageSize = int64(metas[0].PageSize)
		metas[1] = readMeta(f, pageSize, 1)
		return metas, pageSize
	}
	for _, at := range metaPlaces()[1:] {
		m := readMeta(f, at, 1)
		if m.Problem == "" && int64(m.PageSize) == at {
			metas[1] = m
			return metas, at
		}
	}
	metas[1] = MetaPage{Problem: "not found at any page size"}
	return metas, 0
}

// readMeta reads the meta page of the given number at an offset.
func readMeta(f io.ReaderAt, at int64, id uint64) MetaPage {
	var b [pageHeaderSize + metaSize]byte
	if n, err := f.ReadAt(b[:], at); n < len(b) {
		return MetaPage{Problem: fmt.Sprintf("can't be read: %v", err)}
	}
	le := binary.LittleEndian
	body := b[pageHeaderSize:]
	m := MetaPage{PageSize: le.Uint32(body[8:]), root: le.Uint64(body[16:]), Pages: le.Uint64(body[40:]), TxID: le.Uint64(body[48:])}
	sum := fnv.New64a()
	sum.Write(body[:metaSize-8])
	switch p := m.PageSize; {
	case le.Uint32(body) != metaMagic:
		m.Problem = "the mark of a database is not there"
	case le.Uint32(body[4:]) != metaVersion:
		m.Problem = fmt.Sprintf("version %d of the database's format, not %d", le.Uint32(body[4:]), metaVersion)
	case le.Uint64(body[56:]) != sum.Sum64():
		m.Problem = "the checksum does not fit"
	case le.Uint64(b[:]) != id || le.Uint16(b[8:]) != pageMeta || le.Uint16(b[10:]) != 0 || le.Uint32(b[12:]) != 0:
		m.Problem = "the page's header is not that of a meta page"
	case p < minPageSize || p > maxPageSize || p&(p-1) != 0:
		m.Problem = fmt.Sprintf("pages of %d bytes", p)
	}
	return m
}

// errPages is wrapped by what is wrong with a database's pages.
var errPages = errors.New("pages don't fit together")

// page is one page with what overflows it.
type page struct {
	id    uint64
	leaf  bool
	count int
	data  []byte // header and all
}

// element is one entry of a page. Its slices share the page's memory.
type element struct {
	key, value []byte
	bucket     bool   // a leaf's entry that is a bucket
	child      uint64 // a branch's
}

// element reads entry i, or says that it leaves the page.
func (p *page) element(i int) (element, error) {
	const size = 16 // of an entry, in leaf and branch
	le := binary.LittleEndian
	at := pageHeaderSize + i*size
	b := p.data[at : at+size]
	var e element
	var pos, klen, vlen uint64
	if p.leaf {
		e.bucket = le.Uint32(b)&1 != 0
		pos, klen, vlen = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[12:]))
	} else {
		pos, klen, e.child = uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
	}
	start := uint64(at) + pos
	entries := uint64(pageHeaderSize + p.count*size)
	if start < entries || start+klen+vlen > uint64(len(p.data)) {
		return e, fmt.Errorf("page %d: entry %d leaves the page: %w", p.id, i, errPages)
	}
	e.key, e.value = p.data[start:start+klen], p.data[start+klen:start+klen+vlen]
	return e, nil
}

// parsePage judges a page's header; b begins with it.
func parsePage(b []byte, id uint64) (p page, overflow uint64, err error) {
	if len(b) < pageHeaderSize {
		return p, 0, fmt.Errorf("page %d: %d bytes: %w", id, len(b), errPages)
	}
	le := binary.LittleEndian
	flags, count := le.Uint16(b[8:]), le.Uint16(b[10:])
	overflow = uint64(le.Uint32(b[12:]))
	switch {
	case le.Uint64(b) != id:
		return p, 0, fmt.Errorf("page %d says that it is page %d: %w", id, le.Uint64(b), errPages)
	case flags != pageLeaf && flags != pageBranch:
		return p, 0, fmt.Errorf("page %d is neither branch nor leaf (flags %#x): %w", id, flags, errPages)
	case flags == pageBranch && count == 0:
		return p, 0, fmt.Errorf("page %d is a branch without entries: %w", id, errPages)
	}
	return page{id: id, leaf: flags == pageLeaf, count: int(count), data: b}, overflow, nil
}

// whole says whether the page's entries are within it.
func (p *page) whole() error {
	if need := pageHeaderSize + 16*p.count; need > len(p.data) {
		return fmt.Errorf("page %d: %d entries in %d bytes: %w", p.id, p.count, len(p.data), errPages)
	}
	return nil
}
