package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docket-audit/docket/internal/durable"
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
	f, err := durable.Temp(s.path, 0o600)
	if err != nil {
		return err
	}
	taken := false // f is the ledger's file now, whatever comes
	defer func() {
		if err != nil && !taken {
			err = errors.Join(err, discard(f))
		}
	}()
	if err := s.copyTo(f); err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync rewritten ledger: %w", err)
	}
	if err := s.opts.Verify(ctx, f.Name()); err != nil {
		return fmt.Errorf("the rewritten copy does not verify, so the file was left as it is: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock rewritten ledger: %w", err)
	}
	if err := durable.Publish(f.Name(), s.path, durable.Replace); err != nil {
		return err
	}
	taken = true
	old := s.back
	s.file, s.back = f, nil
	if err := old.close(); err != nil {
		return fmt.Errorf("close the file before the rewrite: %w", err)
	}
	return s.use(f)
}

// discard closes a copy that failed and takes it away, where it has not got
// the ledger's name.
func discard(f *os.File) error {
	name := f.Name()
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("discard copy: %w", err)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("discard copy: %w", err)
	}
	return nil
}

// copyTo writes one consistent state of the ledger, if there is room for it.
func (s *Store) copyTo(f *os.File) error {
	var total int64
	err := s.back.view(func(r reader) error {
		total = r.used()
		return nil
	})
	if err != nil {
		return err
	}
	free, err := freeBytes(f)
	if err != nil {
		return err
	}
	if free < uint64(total) {
		return fmt.Errorf("the file has to be rewritten, which takes %d bytes, and %d are free: make room, or copy the file elsewhere; "+
			"docket verify and docket export --db work without: %w", total, free, ErrNoSpace)
	}
	_, err = s.back.snapshot(&progressWriter{w: f, total: total, tell: s.opts.Progress})
	if err != nil && isFull(err) {
		return fmt.Errorf("copy of %d bytes: %w: %w", total, err, ErrNoSpace)
	}
	return err
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
