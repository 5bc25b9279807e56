package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errReplaced tells that the file that was opened and locked is no longer the
// one at the path.
var errReplaced = errors.New("the file was replaced while it was being opened")

// openRounds bounds how often a file that was replaced under the opener is
// tried again: each time, another process has rewritten the whole ledger.
const openRounds = 5

// openLocked opens the ledger file for writing and takes its lock, which is
// held until the descriptor is closed. It makes nothing: a missing, empty or
// foreign file is an error of its own, and stays as it is.
func openLocked(path string, anyFS bool) (f *os.File, err error) {
	for range openRounds {
		if f, err = openOnce(path, anyFS); !errors.Is(err, errReplaced) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: %w: %w", path, err, ErrInUse)
}

func openOnce(path string, anyFS bool) (*os.File, error) {
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
	if err := fitForLedger(f, path, anyFS); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := lockFile(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fitForLedger judges the open file by what the system says of it.
func fitForLedger(f *os.File, path string, anyFS bool) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat ledger: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("stat ledger: %s gives no owner", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: %w", path, ErrNotLedger)
	case info.Size() == 0:
		return fmt.Errorf("%s has 0 bytes: it was cut or never written; keep it, and restore a copy or run docketd init elsewhere: %w", path, ErrNotLedger)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, this is uid %d: %w", path, st.Uid, os.Geteuid(), ErrUnsafeFile)
	case st.Nlink == 0:
		return errReplaced
	case st.Nlink != 1:
		return fmt.Errorf("%s has %d names (hard links), a ledger has one: %w", path, st.Nlink, ErrUnsafeFile)
	}
	name, err := unreliableFS(f)
	if err != nil {
		return err
	}
	if name != "" && !anyFS {
		return fmt.Errorf("%s lies on %s, whose locks and syncs a ledger can't rely on; use a local disk: %w", path, name, ErrUnsafeFile)
	}
	return nil
}

// lockFile takes the file's lock or names its holder. A file system that can't
// lock can't hold a ledger.
func lockFile(f *os.File, path string) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s is held by %s; for a copy use docket snapshot: %w", path, holderOf(f, path), ErrInUse)
	case err != nil:
		return fmt.Errorf("lock %s: %w", path, err)
	}
	// Whoever came here while the file was rewritten has locked the old one.
	open, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	named, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(open, named) {
		return errReplaced
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

// holderOf says who has the ledger open, as far as that can be known: by the
// system's own list of locks, and by the marker of the holder.
func holderOf(f *os.File, path string) string {
	m, err := loadMarker(path)
	pid := lockHolder(f)
	switch {
	case err == nil && !m.Closed && (pid == 0 || pid == m.PID):
		return fmt.Sprintf("process %d on %s since %s", m.PID, m.Host, m.Started)
	case pid != 0:
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// freeBytes is what is free for us on the file system of f.
func freeBytes(f *os.File) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", f.Name(), err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// The two meta pages of a bbolt file, as far as they matter before bbolt maps
// it: it believes sizes and page numbers that it finds, and falls back to the
// older page without a word, which loses the last commit.
const (
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	metaAt       = 16 // behind the page's own header
	metaSumAt    = 56 // the checksum covers what is before it
	metaSize     = metaSumAt + 8
	noFreelist   = ^uint64(0)
	firstDataPgs = 2
)

type metaPage struct {
	version, pageSize uint32
	freelist, pages   uint64
	txid              uint64
}

// readMeta reads meta page i; ok tells that it is one, and whole.
func readMeta(f io.ReaderAt, i int64) (m metaPage, ok bool, err error) {
	var b [metaSize]byte
	if _, err := f.ReadAt(b[:], i*PageSize+metaAt); err != nil {
		if errors.Is(err, io.EOF) {
			return m, false, nil
		}
		return m, false, fmt.Errorf("read meta page %d: %w", i, err)
	}
	ne := binary.NativeEndian
	h := fnv.New64a()
	h.Write(b[:metaSumAt])
	m = metaPage{
		version: ne.Uint32(b[4:]), pageSize: ne.Uint32(b[8:]),
		freelist: ne.Uint64(b[32:]), pages: ne.Uint64(b[40:]), txid: ne.Uint64(b[48:]),
	}
	return m, ne.Uint32(b[:]) == metaMagic && ne.Uint64(b[metaSumAt:]) == h.Sum64(), nil
}

// checkMetas judges the file by its meta pages. halved tells that one of them
// is damaged, so that the file may show the state of one commit ago.
func checkMetas(f *os.File, path string) (halved bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("stat ledger: %w", err)
	}
	a, aOK, errA := readMeta(f, 0)
	b, bOK, errB := readMeta(f, 1)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	m := a
	switch {
	case !aOK && !bOK:
		return false, notLedger(f, path)
	case !aOK || bOK && b.txid > a.txid:
		m = b
	}
	switch {
	case m.version != metaVersion || m.pageSize != PageSize:
		return false, fmt.Errorf("%s is a database of another kind (version %d, pages of %d bytes): %w", path, m.version, m.pageSize, ErrNotLedger)
	case m.pages > uint64(info.Size())/PageSize:
		return false, fmt.Errorf("%s was cut: it has %d bytes and needs %d pages of %d; docket verify tells more: %w", path, info.Size(), m.pages, PageSize, ErrNotLedger)
	case m.freelist == noFreelist || m.freelist < firstDataPgs || m.freelist >= m.pages:
		return false, fmt.Errorf("%s is a database that docket did not write: %w", path, ErrNotLedger)
	}
	return !aOK || !bOK, nil
}

// notLedger tells what stands in a file where a ledger begins.
func notLedger(f *os.File, path string) error {
	b := make([]byte, 2*PageSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read ledger: %w", err)
	}
	for _, c := range b[:n] {
		if c != 0 {
			return fmt.Errorf("%s does not begin like a ledger; docket verify tells more: %w", path, ErrNotLedger)
		}
	}
	return fmt.Errorf("%s holds zeros where a ledger begins: its bytes were lost; keep it, and restore a copy: %w", path, ErrNotLedger)
}
