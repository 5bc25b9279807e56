package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docket-audit/docket/internal/durable"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// rewrite puts a fresh, verified copy in the ledger's place. After a storage
// failure or a power cut the pages in the file, in the page cache and on the
// disk may be three different things, and going on would overwrite pages that
// the meta page on the disk still uses; a copy that was written and synced
// anew is one thing. The old file stands until the copy has its name.
//
// The copy is locked before it is renamed: who waits for the old file's lock
// then finds another file at the path, and starts anew.
func (s *Store) rewrite(ctx context.Context, why string) (err error) {
	if s.opts.Verify == nil {
		return fmt.Errorf("%s: the file has to be rewritten, and no verifier was given", why)
	}
	if err := s.roomForCopy(); err != nil {
		return err
	}
	f, err := durable.Temp(s.path, 0o600)
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(temp)
		}
	}()
	if err := s.copyTo(f); err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync rewritten ledger: %w", err)
	}
	if err := s.opts.Verify(ctx, temp); err != nil {
		return fmt.Errorf("the rewritten copy does not verify, so the file was left as it is: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock rewritten ledger: %w", err)
	}
	if err := durable.Publish(temp, s.path, durable.Replace); err != nil {
		return err
	}
	if err := guard(s.db.Close); err != nil {
		return fmt.Errorf("close the file before the rewrite: %w", err)
	}
	s.file = f
	s.db, err = openDB(s.path, f)
	return err
}

// roomForCopy refuses before anything is written, with the bytes that lack.
func (s *Store) roomForCopy() error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("stat ledger: %w", err)
	}
	free, err := freeBytes(s.path)
	if err != nil {
		return err
	}
	if need := uint64(info.Size()); free < need {
		return fmt.Errorf("the file has to be rewritten, which takes %d bytes, and %d are free: make room, or copy the file elsewhere; "+
			"docket verify and docket export --db work without: %w", need, free, ErrNoSpace)
	}
	return nil
}

// copyTo writes one consistent state of the database.
func (s *Store) copyTo(w io.Writer) error {
	return s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&progressWriter{w: w, total: tx.Size(), tell: s.opts.Progress})
		return err
	})
}

// progressWriter tells how far a copy is.
type progressWriter struct {
	w           io.Writer
	done, total int64
	tell        func(done, total int64)
}

func (p *progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.done += int64(n)
	if p.tell != nil {
		p.tell(p.done, p.total)
	}
	return n, err
}

// errSnapshot tells why a latched ledger gives no snapshot.
var errSnapshot = errors.New("what the file holds is unknown until it is opened again")
