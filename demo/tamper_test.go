package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func header(seq int, cost string) []byte {
	return fmt.Appendf(nil, `{"meter":{"cost_usd":"%s","model":"m"},"seq":%d}`, cost, seq)
}

func TestCostDigit(t *testing.T) {
	for cost, want := range map[string]string{"0.25": "0.26", "0.19": "0.18", "1": "2", "12.00001": "12.00002"} {
		h := header(7, cost)
		at, to, err := costDigit(h)
		if err != nil {
			t.Fatal(err)
		}
		h[at] = to
		if !bytes.Equal(h, header(7, want)) {
			t.Errorf("%s becomes %s, not %s", cost, h, want)
		}
	}
	for _, bad := range []string{`{}`, `{"cost_usd":""}`, `{"cost_usd":"1`} {
		if _, _, err := costDigit([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestInExport(t *testing.T) {
	one, two := header(1, "0.25"), header(2, "0.25")
	export := bytes.Join([][]byte{one, two}, []byte("\n"))
	c, err := inExport(export, two)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "changed")
	if err := c.write(export, path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join([][]byte{one, header(2, "0.26")}, []byte("\n")); !bytes.Equal(got, want) {
		t.Errorf("changed to %s", got)
	}
	if _, err := inExport(export, header(3, "1")); err == nil {
		t.Error("an event that is not there was changed")
	}
	if _, err := inExport(append(export, two...), two); err == nil {
		t.Error("one of two copies was changed")
	}
	if err := (change{c.offset, 'x', 'y'}).write(export, path); err == nil {
		t.Error("a byte that is not there was changed")
	}
}

// A database keeps older copies of its pages: the byte has to be changed in
// the one that is read.
func TestInDatabaseFindsTheCopyInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	const events = 60
	for i := range events {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("events"))
			if err != nil {
				return err
			}
			return b.Put(binary.BigEndian.AppendUint64(nil, uint64(i+1)), header(i+1, "0.25"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	for seq := uint64(1); seq <= events; seq++ {
		h := header(int(seq), "0.25")
		copies = max(copies, bytes.Count(file, h))
		c, err := inDatabase(path, seq, h)
		if err != nil {
			t.Fatal(err)
		}
		changed := path + ".changed"
		if err := c.write(file, changed); err != nil {
			t.Fatal(err)
		}
		for other := uint64(1); other <= events; other++ {
			same, err := holds(changed, other, header(int(other), "0.25"))
			if err != nil || same != (other != seq) {
				t.Fatalf("event %d changed: event %d is as it was: %v, %v", seq, other, same, err)
			}
		}
	}
	if copies < 2 {
		t.Error("the file has one copy of each event: this test shows nothing")
	}
	if _, err := inDatabase(path, 1, header(events+1, "0.25")); err == nil || !strings.Contains(err.Error(), "none of its copies") {
		t.Errorf("an event that is not there: %v", err)
	}
	if left, _ := filepath.Glob(path + ".trial"); left != nil {
		t.Error("a trial was left behind")
	}
}
