package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// change is one byte of a file that is to become another.
type change struct {
	offset   int
	from, to byte
}

// costMember is what stands before the cost in a header.
const costMember = `"cost_usd":"`

// costDigit finds the last digit of the cost in an event's header, which is
// canonical JSON and stands in a file as it was hashed. Another digit takes its
// place, and the event keeps its form: only the hashes can tell.
func costDigit(header []byte) (offset int, to byte, err error) {
	start := bytes.Index(header, []byte(costMember))
	if start < 0 {
		return 0, 0, errors.New("the event has no cost")
	}
	start += len(costMember)
	end := bytes.IndexByte(header[start:], '"')
	if end < 1 {
		return 0, 0, errors.New("the event's cost has no end")
	}
	offset = start + end - 1
	if to = header[offset] + 1; to > '9' {
		to = '8'
	}
	return offset, to, nil
}

// inExport is the change in an export, in the line of the event.
func inExport(export []byte, header []byte) (change, error) {
	at, to, err := costDigit(header)
	if err != nil {
		return change{}, err
	}
	i := bytes.Index(export, header)
	if i < 0 || bytes.Count(export, header) != 1 {
		return change{}, errors.New("the event does not stand in the export once")
	}
	return change{i + at, header[at], to}, nil
}

// inDatabase is the same change in a copy of the ledger file. Pages that bbolt
// no longer uses keep older copies of an event, which are no part of the
// ledger; so bbolt itself has to say where the event is read from.
func inDatabase(path string, seq uint64, header []byte) (change, error) {
	at, to, err := costDigit(header)
	if err != nil {
		return change{}, err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return change{}, fmt.Errorf("find event %d: %w", seq, err)
	}
	for from := 0; ; from++ {
		i := bytes.Index(file[from:], header)
		if i < 0 {
			return change{}, fmt.Errorf("find event %d in %s: bbolt reads it from none of its copies", seq, path)
		}
		from += i
		c := change{from + at, header[at], to}
		trial := path + ".trial"
		if err := c.write(file, trial); err != nil {
			return change{}, err
		}
		used, err := holds(trial, seq, header)
		if err := errors.Join(err, os.Remove(trial)); err != nil {
			return change{}, fmt.Errorf("find event %d: %w", seq, err)
		}
		if !used {
			return c, nil
		}
	}
}

// holds says whether the ledger file still gives the event as it was.
func holds(path string, seq uint64, header []byte) (same bool, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		events := tx.Bucket([]byte("events"))
		if events == nil {
			return errors.New("no events in the file")
		}
		same = bytes.Contains(events.Get(binary.BigEndian.AppendUint64(nil, seq)), header)
		return nil
	})
	return same, err
}

// write makes a copy of file with the one byte changed.
func (c change) write(file []byte, path string) error {
	if file[c.offset] != c.from {
		return fmt.Errorf("change byte %d: it is %q, not %q", c.offset, file[c.offset], c.from)
	}
	changed := bytes.Clone(file)
	changed[c.offset] = c.to
	return os.WriteFile(path, changed, 0o600)
}
