package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docket-audit/docket/internal/durable"
	"golang.org/x/sys/unix"
)

// markerRecord is what the dirty marker says: that a writer has the ledger
// open, in which boot, and whether storage failed under it. It stands outside
// the database, since it has to be believed when the database is not. PID,
// host and start are for messages alone.
type markerRecord struct {
	Boot         string `json:"boot"`
	Closed       bool   `json:"closed"` // nobody has the ledger open; only Unavailable counts
	StorageError bool   `json:"storage_error"`
	Durable      uint64 `json:"durable"`     // with StorageError: the last number that was acknowledged
	Unavailable  uint64 `json:"unavailable"` // refusals that could not be recorded
	PID          int    `json:"pid"`
	Host         string `json:"host"`
	Started      string `json:"started"`
}

// markerSize is the marker's fixed length: it is overwritten in place.
const markerSize = 512

// marker is the dirty marker of this process.
type marker struct {
	path string

	mu   sync.Mutex
	file *os.File // nil once the ledger is closed
	rec  markerRecord
}

// markerPath is "dirty" beside a ledger.db, so that it is found by its name,
// and has the ledger's name in front beside any other: two ledgers in one
// directory have two markers.
func markerPath(ledger string) string {
	dir, base := filepath.Split(ledger)
	if base == "ledger.db" {
		return filepath.Join(dir, "dirty")
	}
	return filepath.Join(dir, base+".dirty")
}

// loadMarker reads the marker of a ledger. It is strict: a marker that can't
// be read says nothing, which is not the same as no marker.
func loadMarker(ledger string) (markerRecord, error) {
	var m markerRecord
	f, err := os.OpenFile(markerPath(ledger), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return m, fmt.Errorf("open marker: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, markerSize+1))
	if err != nil {
		return m, fmt.Errorf("read marker: %w", err)
	}
	if len(b) != markerSize {
		return m, fmt.Errorf("marker has not %d bytes", markerSize)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return markerRecord{}, fmt.Errorf("read marker: %w", err)
	}
	if m.Boot == "" {
		return markerRecord{}, errors.New("marker names no boot")
	}
	return m, nil
}

// leftBehind says what the last writer left.
type leftBehind struct {
	unclean     bool   // it did not close
	rewrite     bool   // the file must be rewritten before the first append
	why         string // for people
	durable     uint64 // the ledger has this number at least
	unavailable uint64
}

// readMarker applies the rule for unclean ends: rewrite where storage failed,
// where the marker is of another boot (the page cache is gone), and where it
// can't be read. Same boot and no error means that the process was killed:
// what it wrote is in the page cache, and the tail's check is enough.
func readMarker(ledger, boot string) leftBehind {
	m, err := loadMarker(ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return leftBehind{}
	}
	l := leftBehind{unclean: !m.Closed, durable: m.Durable, unavailable: m.Unavailable}
	switch {
	case err != nil:
		l.rewrite, l.why = true, "the marker of the last writer can't be read: "+err.Error()
	case m.Closed:
	case m.StorageError:
		l.rewrite, l.why = true, "storage failed under the last writer"
	case m.Boot != boot:
		l.rewrite, l.why = true, "the machine went down under the last writer"
	}
	return l
}

// setMarker makes the marker of this process durable, before its first append.
func setMarker(ledger, boot string, now time.Time, unavailable uint64) (*marker, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("set marker: %w", err)
	}
	m := &marker{path: markerPath(ledger), rec: markerRecord{
		Boot: boot, Unavailable: unavailable, PID: os.Getpid(), Host: host, Started: now.UTC().Format(time.RFC3339),
	}}
	if err := m.write(); err != nil {
		return nil, fmt.Errorf("set marker: %w", err)
	}
	if m.file, err = os.OpenFile(m.path, os.O_WRONLY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, fmt.Errorf("set marker: %w", err)
	}
	return m, nil
}

// write makes the marker anew, durable.
func (m *marker) write() error {
	b, err := m.bytes()
	if err != nil {
		return err
	}
	return durable.WriteFile(m.path, 0o600, durable.Replace, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}

// bytes is the marker padded with spaces to its fixed length.
func (m *marker) bytes() ([]byte, error) {
	b, err := json.Marshal(m.rec)
	if err != nil {
		return nil, fmt.Errorf("spell marker: %w", err)
	}
	if len(b) >= markerSize {
		return nil, fmt.Errorf("marker of %d bytes", len(b))
	}
	b = append(b, bytes.Repeat([]byte{' '}, markerSize-1-len(b))...)
	return append(b, '\n'), nil
}

// flagStorageError marks, in place and without a sync, that storage failed: the
// flag matters to a start in this boot alone, and the next boot rewrites
// anyway. The disk that failed is not asked for more than this. Where even
// that fails, a marker cut to nothing, which can't be read, says the same. The
// last number that was acknowledged goes with it: a storage that loses writes
// can show an older state that looks whole.
func (m *marker) flagStorageError(durable uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rec.StorageError, m.rec.Durable = true, durable
	err := m.overwrite()
	if err != nil && m.file.Truncate(0) == nil {
		return nil
	}
	return err
}

// setUnavailable keeps the count of refusals that could not be recorded. It is
// not synced: after a power cut the count of the last moments may be lost.
func (m *marker) setUnavailable(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rec.Unavailable == n || m.file == nil {
		return
	}
	m.rec.Unavailable = n
	// An error here has nobody to go to: the disk that fails or is full is
	// why refusals are counted.
	_ = m.overwrite()
}

func (m *marker) overwrite() error {
	b, err := m.bytes()
	if err != nil {
		return err
	}
	if _, err := m.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("overwrite marker: %w", err)
	}
	return nil
}

// clear takes the marker away after a clean close; where a count of refusals
// has to reach the next start, it stays and says that the ledger is closed.
func (m *marker) clear() error {
	if err := m.leave(); err != nil {
		return err
	}
	if m.rec.Unavailable == 0 {
		return durable.Remove(m.path)
	}
	m.rec.Closed = true
	return m.write()
}

// leave lets go of the marker and leaves it where it is.
func (m *marker) leave() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.file
	m.file = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close marker: %w", err)
	}
	return nil
}
