package verify

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/docket-audit/docket/chain"
)

// Errors of opening a database file. What they wrap says the verdict.
var (
	// ErrTorn tells that a file was cut short, copied while it was written,
	// or is in use.
	ErrTorn = errors.New("torn")
	// ErrInUse tells that somebody has the database open for writing.
	ErrInUse = fmt.Errorf("database in use: %w", ErrTorn)
	// ErrNotLedger tells that a file is no ledger of docket.
	ErrNotLedger = errors.New("not a docket ledger")
	// ErrSchema tells that a database has a layout of a later version.
	ErrSchema = errors.New("unknown schema version")
)

// Source reads the events of a database file without trusting a byte of it:
// by ReadAt, within bounds, each page once. It takes copies, and the file of a
// service that is not running; while it is open a service can't start on the
// file. Not safe for concurrent use.
type Source struct {
	f        io.ReaderAt
	close    func() error
	pageSize int64
	pages    uint64 // in use by the state that counts
	metas    [2]MetaPage
	visited  bitset
	read     func(n int64)

	events  bucketPage
	meta    *bucketPage
	unknown []string // names of buckets that the schema doesn't have
	head    *chain.Head
	schema  uint32
	damage  []error // first ones
	damaged uint64  // how many
	notes   []string
}

// OpenSource opens the database file at path. An error that wraps ErrTorn,
// ErrNotLedger or ErrSchema is about the file, any other about reading it.
func OpenSource(path string) (*Source, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	s, err := newSource(f, f, info.Size())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	s.close = f.Close
	return s, nil
}

// newSource reads what stands around the events. lock is the file to lock, nil
// where f is a copy that nobody else has.
func newSource(f io.ReaderAt, lock *os.File, size int64) (*Source, error) {
	switch {
	case size == 0:
		return nil, fmt.Errorf("the file has 0 bytes: %w", ErrTorn)
	case !isDatabase(f):
		return nil, fmt.Errorf("no database: %w", ErrNotLedger)
	}
	if lock != nil {
		if err := lockShared(lock); err != nil {
			return nil, err
		}
	}
	s := &Source{f: f, close: func() error { return nil }, read: func(int64) {}}
	s.metas, s.pageSize = readMetas(f)
	m, ok := s.newest()
	if !ok {
		return nil, fmt.Errorf("neither meta page is valid (0: %s; 1: %s): %w", s.metas[0].Problem, s.metas[1].Problem, ErrTorn)
	}
	if s.pages = m.Pages; s.pages > uint64(size/s.pageSize) {
		return nil, fmt.Errorf("the file has %d bytes, and its %d pages of %d need more: %w", size, s.pages, s.pageSize, ErrTorn)
	}
	if err := s.readRoot(m.root); err != nil {
		return nil, err
	}
	return s, s.readMeta()
}

// newest is the valid meta page of the later transaction.
func (s *Source) newest() (MetaPage, bool) {
	best, ok := MetaPage{}, false
	for _, m := range s.metas {
		if m.Problem == "" && int64(m.PageSize) == s.pageSize && (!ok || m.TxID > best.TxID) {
			best, ok = m, true
		}
	}
	return best, ok
}

// readRoot finds the buckets.
func (s *Source) readRoot(root uint64) error {
	var keys, found uint64
	var plain bool
	w := s.walk(bucketPage{root: root}, s.harm)
	var foreign []string
	err := w.each(func(e element) error {
		keys++
		name := string(e.key)
		if !e.bucket {
			plain = true
			return nil
		}
		b, err := bucketIn(e.value)
		switch {
		case err != nil:
			s.harm(err)
		case name == chain.BucketEvents:
			found++
			s.events = b
		case name == chain.BucketMeta:
			s.meta = &b
		case !slices.Contains(chain.Buckets(), name):
			foreign = append(foreign, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.unknown = foreign[:min(len(foreign), maxDamage)]
	if found == 1 {
		return nil
	}
	// A copy that was taken while the file was written finds another page
	// where the list of buckets was. Only a list that is whole and another
	// program's says that this is no ledger.
	m, _ := s.newest()
	if s.damaged == 0 && !plain && s.meta == nil && (len(foreign) > 0 || keys == 0 && m.TxID <= 1) {
		return fmt.Errorf("a database with buckets [%s], none of them of a ledger: %w", strings.Join(s.unknown, " "), ErrNotLedger)
	}
	if s.damaged > 0 {
		return fmt.Errorf("the events can't be found: %w: %w", s.damage[0], ErrTorn)
	}
	return fmt.Errorf("the events can't be found: %w", ErrTorn)
}

// readMeta reads schema and head. Both are derived: where they can't be read
// that is noted, and the events are judged all the same.
func (s *Source) readMeta() error {
	if s.meta == nil {
		s.notes = append(s.notes, "the bucket with schema and head is not there")
		return nil
	}
	values := map[string][]byte{}
	w := s.walk(*s.meta, func(err error) { s.notes = append(s.notes, "bucket meta: "+err.Error()) })
	err := w.each(func(e element) error {
		if k := string(e.key); k == chain.KeySchema || k == chain.KeyHead {
			values[k] = slices.Clone(e.value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.schema, err = chain.ParseSchema(values[chain.KeySchema]); err != nil {
		s.notes = append(s.notes, "schema version can't be read; taken as this program's")
	} else if s.schema > chain.SchemaVersion {
		return fmt.Errorf("schema version %d, and this program reads up to %d: %w", s.schema, chain.SchemaVersion, ErrSchema)
	}
	h, err := chain.ParseHead(values[chain.KeyHead])
	if err != nil {
		s.notes = append(s.notes, "the stored head can't be read; it is derived from the events")
		return nil
	}
	s.head = &h
	return nil
}

// harm takes note of damage.
func (s *Source) harm(err error) {
	if s.damaged++; len(s.damage) < maxDamage {
		s.damage = append(s.damage, err)
	}
}

// pages calls fn with each leaf of the tree and its bounds.
func (w *treeWalk) pages(fn func(p page, lo, hi []byte) error) error {
	for {
		p, lo, hi, ok, err := w.next(nil)
		if err != nil || !ok {
			return err
		}
		if err := fn(p, lo, hi); err != nil {
			return err
		}
	}
}

// each calls fn with each entry of the tree.
func (w *treeWalk) each(fn func(element) error) error {
	return w.pages(func(p page, lo, hi []byte) error { return w.entries(p, lo, hi, fn) })
}

// Close lets go of the file.
func (s *Source) Close() error { return s.close() }

// Metas are both meta pages.
func (s *Source) Metas() [2]MetaPage { return s.metas }

// Head is the head that the file itself names; ok is false where it can't be
// read. It is derived: the events are what counts.
func (s *Source) Head() (seq uint64, hash chain.Hash, ok bool) {
	if s.head == nil {
		return 0, chain.Hash{}, false
	}
	return s.head.Seq, s.head.Hash, true
}

// Unknown names the buckets that the schema doesn't have.
func (s *Source) Unknown() []string { return slices.Clone(s.unknown) }

// Rolled says why the file may show the state of one commit ago, "" where both
// meta pages are valid and follow each other.
func (s *Source) Rolled() string {
	for i, m := range s.metas {
		if m.Problem != "" {
			n, _ := s.newest()
			return fmt.Sprintf("meta page %d is not valid (%s): the file may be rolled back by one commit, to transaction %d", i, m.Problem, n.TxID)
		}
	}
	// Each commit writes one of the two. A copy made by the database itself
	// holds its state twice, one number apart, and the first commit after it
	// may overwrite either: so they are one or two apart.
	a, b := s.metas[0].TxID, s.metas[1].TxID
	if d := max(a, b) - min(a, b); d != 1 && d != 2 {
		return fmt.Sprintf("the meta pages are of transactions %d and %d, which don't follow each other: the file may be rolled back by one commit", a, b)
	}
	return ""
}

// Damage are the first places where the pages read so far don't fit together.
func (s *Source) Damage() []error { return slices.Clone(s.damage) }

// Events walks the stored events from number from on, in order of numbers.
// Each event owns its memory and is not judged. Where something can't be
// handed out an error takes its place and the walk goes on if the caller
// does: chain.ErrLayout for what is not stored as an event, ErrTorn for pages
// that don't fit together, whose events are lost. After an error of reading
// the walk ends.
func (s *Source) Events(from uint64) iter.Seq2[chain.Event, error] {
	return func(yield func(chain.Event, error) bool) {
		s.visited = bitset{}
		var damage []error
		w := s.walk(s.events, func(err error) {
			s.harm(err)
			damage = append(damage, err)
		}).from(chain.SeqKey(from))
		err := w.pages(func(p page, lo, hi []byte) error {
			err := w.entries(p, lo, hi, func(e element) error {
				event, err := decodeEntry(e)
				return stopUnless(yield(event, err))
			})
			for i := 0; i < len(damage) && err == nil; i++ {
				err = stopUnless(yield(chain.Event{}, fmt.Errorf("%w: %w", damage[i], ErrTorn)))
			}
			damage = damage[:0]
			return err
		})
		if err == nil && len(damage) > 0 {
			err = fmt.Errorf("%w: %w", damage[0], ErrTorn)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(chain.Event{}, err)
		}
	}
}

// decodeEntry reads an entry of the events into memory of its own.
func decodeEntry(e element) (chain.Event, error) {
	seq, err := chain.ParseSeqKey(e.key)
	if err == nil && e.bucket {
		err = fmt.Errorf("a bucket: %w", chain.ErrLayout)
	}
	if err != nil {
		return chain.Event{}, fmt.Errorf("key %x: %w", e.key, err)
	}
	event, err := chain.DecodeEvent(slices.Clone(e.value))
	if err != nil {
		return chain.Event{}, fmt.Errorf("event %d: %w", seq, err)
	}
	return *event, nil
}

func stopUnless(more bool) error {
	if more {
		return nil
	}
	return errStop
}
