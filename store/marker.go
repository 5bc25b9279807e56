package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-audit/docket/internal/durable"
)

// markerRecord is what the dirty marker says: that a writer has the ledger
// open, in which boot, and whether storage failed under it. It stands outside
// the database, since it has to be believed when the database is not. PID,
// host and start are for messages alone.
type markerRecord struct {
	Boot         string `json:"boot"`
	StorageError bool   `json:"storage_error"`
	Unavailable  uint64 `json:"unavailable"` // refusals that could not be recorded
	PID          int    `json:"pid"`
	Host         string `json:"host"`
	Started      string `json:"started"`
}

// markerSize is the marker's fixed length: it is overwritten in place.
const markerSize = 512

// marker is the open dirty marker of this process.
type marker struct {
	path string
	file *os.File
	rec  markerRecord
}

func markerPath(ledger string) string { return filepath.Join(filepath.Dir(ledger), "dirty") }

// parseMarker is strict: a marker that can't be read says nothing, which is
// not the same as no marker.
func parseMarker(b []byte) (markerRecord, error) {
	var m markerRecord
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("marker: %w", err)
	}
	if m.Boot == "" {
		return m, errors.New("marker: no boot id")
	}
	return m, nil
}

// leftBehind says what the last writer left.
type leftBehind struct {
	marker      bool   // it did not close
	rewrite     bool   // the file must be rewritten before the first append
	why         string // for people
	unavailable uint64
}

// readMarker applies the rule for unclean ends: rewrite where storage failed,
// where the marker is of another boot (the page cache is gone), and where it
// can't be read. Same boot and no error means that the process was killed:
// what it wrote is in the page cache, and the tail's check is enough.
func readMarker(ledger, boot string) (leftBehind, error) {
	b, err := os.ReadFile(markerPath(ledger))
	if errors.Is(err, fs.ErrNotExist) {
		return leftBehind{}, nil
	}
	if err != nil {
		return leftBehind{}, fmt.Errorf("read marker: %w", err)
	}
	m, err := parseMarker(b)
	l := leftBehind{marker: true, unavailable: m.Unavailable}
	switch {
	case err != nil:
		l.rewrite, l.why = true, "the marker of the last writer can't be read"
	case m.StorageError:
		l.rewrite, l.why = true, "storage failed under the last writer"
	case m.Boot != boot:
		l.rewrite, l.why = true, "the machine went down under the last writer"
	}
	return l, nil
}

// setMarker makes the marker of this process durable, before its first append.
func setMarker(ledger, boot string, now time.Time) (*marker, error) {
	host, _ := os.Hostname()
	m := &marker{path: markerPath(ledger), rec: markerRecord{
		Boot: boot, PID: os.Getpid(), Host: host, Started: now.UTC().Format(time.RFC3339),
	}}
	b, err := m.bytes()
	if err != nil {
		return nil, err
	}
	err = durable.WriteFile(m.path, 0o600, durable.Replace, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("set marker: %w", err)
	}
	if m.file, err = os.OpenFile(m.path, os.O_WRONLY, 0); err != nil {
		return nil, fmt.Errorf("open marker: %w", err)
	}
	return m, nil
}

// bytes is the marker padded with spaces to its fixed length.
func (m *marker) bytes() ([]byte, error) {
	b, err := json.Marshal(m.rec)
	if err != nil || len(b) >= markerSize {
		return nil, fmt.Errorf("spell marker: %d bytes: %w", len(b), err)
	}
	for len(b) < markerSize-1 {
		b = append(b, ' ')
	}
	return append(b, '\n'), nil
}

// flagStorageError marks, in place and without a sync, that storage failed: the
// flag matters to a start in this boot alone, and the next boot rewrites
// anyway. The disk that failed is not asked for more than this.
func (m *marker) flagStorageError() {
	m.rec.StorageError = true
	m.overwrite()
}

// setUnavailable keeps the count of refusals that could not be recorded.
func (m *marker) setUnavailable(n uint64) {
	m.rec.Unavailable = n
	m.overwrite()
}

func (m *marker) overwrite() {
	if b, err := m.bytes(); err == nil {
		// An error here has nobody to go to: the ledger is latched already,
		// or the next overwrite tries again.
		_, _ = m.file.WriteAt(b, 0)
	}
}

// clear removes the marker after a clean close.
func (m *marker) clear() error {
	err := m.file.Close()
	return errors.Join(err, durable.Remove(m.path))
}
