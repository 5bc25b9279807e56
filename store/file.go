package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openLocked opens the ledger file for writing and takes its lock, which is
// held until the descriptor is closed. It makes nothing: a missing, empty or
// foreign file is an error of its own, and stays as it is.
func openLocked(path string, anyFS bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no ledger at %s; make one with docketd init: %w", path, err)
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link; name the ledger file itself: %w", path, ErrUnsafeFile)
	case errors.Is(err, syscall.EISDIR):
		return nil, fmt.Errorf("%s is a directory: %w", path, ErrNotLedger)
	case err != nil:
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := fitLedger(f, path, anyFS); err != nil {
		f.Close()
		return nil, err
	}
	if err := lockFile(f, path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fitLedger judges the open file without reading more than its first pages.
func fitLedger(f *os.File, path string, anyFS bool) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat ledger: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: %w", path, ErrNotLedger)
	case info.Size() == 0:
		return fmt.Errorf("%s has 0 bytes: it was cut or never written; keep it, and restore a copy or run docketd init elsewhere: %w", path, ErrNotLedger)
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, this is uid %d: %w", path, st.Uid, os.Geteuid(), ErrUnsafeFile)
	case ok && st.Nlink != 1:
		return fmt.Errorf("%s has %d names (hard links), a ledger has one: %w", path, st.Nlink, ErrUnsafeFile)
	}
	if name := unreliableFS(path); name != "" && !anyFS {
		return fmt.Errorf("%s lies on %s, whose locks and syncs a ledger can't rely on; use a local disk: %w", path, name, ErrUnsafeFile)
	}
	return hasMagic(f, info.Size(), path)
}

// hasMagic looks for the database's two meta pages.
func hasMagic(f *os.File, size int64, path string) error {
	const header, magicAt = 16, 16
	for _, at := range []int64{0, PageSize} {
		var b [header + 4]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			continue
		}
		if binary.NativeEndian.Uint32(b[magicAt:]) == 0xED0CDAED && size >= 2*PageSize {
			return nil
		}
	}
	return fmt.Errorf("%s does not begin like a ledger; docket verify tells more: %w", path, ErrNotLedger)
}

// lockFile takes the file's lock or names its holder. A file system that can't
// lock can't hold a ledger.
func lockFile(f *os.File, path string) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s is held by %s; for a copy use docket snapshot: %w", path, holderOf(path), ErrInUse)
	case err != nil:
		return fmt.Errorf("lock %s: %w", path, err)
	}
	// Whoever waited here while the file was rewritten holds the old one.
	open, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if !os.SameFile(open, named) {
		return fmt.Errorf("%s was replaced while it was being opened; try again: %w", path, ErrInUse)
	}
	return nil
}

// holderOf says who has the ledger open, as far as its marker tells.
func holderOf(path string) string {
	b, err := os.ReadFile(markerPath(path))
	if err != nil {
		return "another process"
	}
	m, err := parseMarker(bytes.TrimSpace(b))
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d on %s since %s", m.PID, m.Host, m.Started)
}

// freeBytes is what is free for us on the file system of path.
func freeBytes(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
