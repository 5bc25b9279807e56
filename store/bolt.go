package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/migrations"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// PageSize is the page size of a ledger file: larger than the operating
// system's, so that an event of 2 KiB needs no pages of its own.
const PageSize = 16 << 10

// mmapSize is reserved in the address space at once, so that the file can grow
// to it without waiting for readers to leave the old map.
const mmapSize = 1 << 30

// boltFile is the backend of a ledger in one bbolt file.
type boltFile struct {
	db   *bbolt.DB
	file *os.File
	// panicked tells that a commit did not come back as it should, so that
	// bbolt's own locks can't be relied on any more.
	panicked bool
}

var _ backend = (*boltFile)(nil)

// openBolt gives bbolt our descriptor, so that the file that was judged and
// locked is the one that is written. bbolt locks it again, which changes
// nothing on the same descriptor. It takes over f, also where it fails.
func openBolt(path string, f *os.File) (*boltFile, error) {
	var db *bbolt.DB
	err := guard(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         time.Second,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mmapSize,
			PageSize:        PageSize,
			OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return f, nil },
		})
		return err
	})
	if err != nil {
		unlockAndClose(f)
		return nil, fmt.Errorf("%w; docket verify tells more, and the file was left as it is: %w", err, ErrNotLedger)
	}
	return &boltFile{db: db, file: f}, nil
}

// unlockAndClose ends the use of f. A map of the file that bbolt left behind
// in a panic would hold the lock on after the close.
func unlockAndClose(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		return errors.Join(fmt.Errorf("unlock ledger: %w", err), f.Close())
	}
	return f.Close()
}

func (b *boltFile) view(fn func(reader) error) error {
	err := guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error { return fn(boltReader{tx}) })
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// commit is one transaction: two syncs of the file, of its data and then of
// the meta page that makes them count.
func (b *boltFile) commit(build func(reader) (*change, error)) error {
	b.panicked = true
	return guard(func() error {
		err := b.db.Update(func(tx *bbolt.Tx) error {
			c, err := build(boltReader{tx})
			if err != nil {
				return err
			}
			return applyTo(tx, c)
		})
		b.panicked = false
		return err
	})
}

// applyTo puts c into tx.
func applyTo(tx *bbolt.Tx, c *change) error {
	meta, events := tx.Bucket([]byte(chain.BucketMeta)), tx.Bucket([]byte(chain.BucketEvents))
	if !bytes.Equal(meta.Get([]byte(chain.KeyHead)), c.after) {
		return errSequence
	}
	if c.reset {
		if err := emptyDerived(tx); err != nil {
			return err
		}
	}
	// Keys only ever rise, so a page that is left is never written again.
	// bbolt's default would leave half of each empty.
	events.FillPercent = 1
	last, _ := events.Cursor().Last()
	for _, w := range c.events {
		if bytes.Compare(w.key, last) <= 0 {
			return fmt.Errorf("event %x is there already: %w", w.key, errSequence)
		}
		if err := events.Put(w.key, w.value); err != nil {
			return fmt.Errorf("put event %x: %w", w.key, err)
		}
		last = w.key
	}
	for _, w := range c.derived {
		bucket := tx.Bucket([]byte(w.bucket))
		var err error
		if w.value == nil {
			err = bucket.Delete(w.key)
		} else {
			err = bucket.Put(w.key, w.value)
		}
		if err != nil {
			return fmt.Errorf("put into %s: %w", w.bucket, err)
		}
	}
	return nil
}

func emptyDerived(tx *bbolt.Tx) error {
	for _, name := range derivedBuckets {
		if tx.Bucket([]byte(name)) != nil {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return fmt.Errorf("empty %s: %w", name, err)
			}
		}
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("empty %s: %w", name, err)
		}
	}
	return nil
}

// layOut gives an empty database the current schema.
func (b *boltFile) layOut() error {
	return guard(func() error { return b.db.Update(migrations.Create) })
}

// checkSchema says whether this program may write to the file.
func (b *boltFile) checkSchema() error {
	return guard(func() error { return b.db.View(migrations.Check) })
}

// snapshot writes the file as it is for one transaction.
func (b *boltFile) snapshot(w io.Writer) (head chain.Head, err error) {
	err = guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			if head, err = headOf(boltReader{tx}); err != nil {
				return err
			}
			_, err = tx.WriteTo(w)
			return err
		})
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		err = ErrClosed
	}
	return head, err
}

// close closes the file, and with it ends its lock. After a panic bbolt may
// hold its own locks for ever; then the map is left to the process's end.
func (b *boltFile) close() error {
	if b.panicked {
		return unlockAndClose(b.file)
	}
	return guard(b.db.Close)
}

// boltReader reads one transaction of bbolt.
type boltReader struct{ tx *bbolt.Tx }

func (r boltReader) get(bucket string, key []byte) []byte {
	b := r.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get(key)
}

func (r boltReader) scan(bucket string, from []byte, fn func(key, value []byte) (bool, error)) error {
	b := r.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, v := c.Seek(from); k != nil; k, v = c.Next() {
		if more, err := fn(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

func (r boltReader) last(bucket string) (key, value []byte) {
	if b := r.tx.Bucket([]byte(bucket)); b != nil {
		return b.Cursor().Last()
	}
	return nil, nil
}

func (r boltReader) used() int64 { return r.tx.Size() }

// guard turns a panic of the database into an error, and with it a fault on
// mapped memory, both in this goroutine alone. A lost write shows in no other
// way.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the database panicked, the storage may have lost a write: %v", r)
		}
	}()
	return fn()
}
