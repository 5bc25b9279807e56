package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// openTestBackend makes a ledger and opens its backend alone.
func openTestBackend(t *testing.T) backend {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := Init(t.Context(), path, InitOptions{CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openBolt(path, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func commitChange(b backend, c *change) error {
	return b.commit(func(reader) (*change, error) { return c, nil })
}

func value(t *testing.T, b backend, bucket string, key []byte) (v []byte) {
	t.Helper()
	err := b.view(func(r reader) error {
		v = bytes.Clone(r.get(bucket, key))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What every backend has to do: a commit on another head, or over an event that
// is there, writes nothing and says so; any other is whole.
func TestBackendCommit(t *testing.T) {
	b := openTestBackend(t)
	headKey := []byte(chain.KeyHead)
	head := value(t, b, chain.BucketMeta, headKey)
	for name, c := range map[string]*change{
		"no head":      {after: nil, events: []write{{key: chain.SeqKey(2), value: []byte("x")}}},
		"another head": {after: append(bytes.Clone(head), 0), events: []write{{key: chain.SeqKey(2), value: []byte("x")}}},
		"same number":  {after: head, events: []write{{key: chain.SeqKey(1), value: []byte("x")}}},
		"twice": {after: head, derived: []write{{chain.BucketKeys, []byte("k"), []byte("v")}},
			events: []write{{key: chain.SeqKey(2), value: []byte("x")}, {key: chain.SeqKey(2), value: []byte("y")}}},
		"falling": {after: head, events: []write{{key: chain.SeqKey(3), value: []byte("x")}, {key: chain.SeqKey(2), value: []byte("y")}}},
	} {
		if err := commitChange(b, c); !errors.Is(err, errSequence) {
			t.Errorf("%s: %v", name, err)
		}
		if v := value(t, b, chain.BucketEvents, chain.SeqKey(2)); v != nil {
			t.Errorf("%s: wrote %q", name, v)
		}
		if v := value(t, b, chain.BucketKeys, []byte("k")); v != nil {
			t.Errorf("%s: wrote %q beside", name, v)
		}
	}
	err := commitChange(b, &change{after: head, events: []write{{key: chain.SeqKey(2), value: []byte("x")}}, derived: []write{
		{chain.BucketMeta, headKey, []byte("new head")},
		{chain.BucketKeys, []byte("a"), []byte("1")},
		{chain.BucketKeys, []byte("b"), []byte("2")},
		{chain.BucketKeys, []byte("a"), nil},
		{chain.BucketKeys, []byte("absent"), nil},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := commitChange(b, &change{after: head}); !errors.Is(err, errSequence) {
		t.Errorf("the same head again: %v", err)
	}
	no := errors.New("no")
	if err := b.commit(func(reader) (*change, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("a change that can't be built: %v", err)
	}
	if v := value(t, b, chain.BucketKeys, []byte("a")); v != nil {
		t.Errorf("deleted: %q", v)
	}
	if v := value(t, b, chain.BucketEvents, chain.SeqKey(2)); string(v) != "x" {
		t.Errorf("event: %q", v)
	}
	err = b.view(func(r reader) error {
		k, v := r.last(chain.BucketEvents)
		if !bytes.Equal(k, chain.SeqKey(2)) || string(v) != "x" {
			t.Errorf("last: %x %q", k, v)
		}
		if k, _ := r.last("no bucket"); k != nil {
			t.Errorf("last of nothing: %x", k)
		}
		var keys []byte
		stop := errors.New("stop")
		err := r.scan(chain.BucketEvents, chain.SeqKey(1), func(k, _ []byte) (bool, error) {
			keys = append(keys, k[7])
			return len(keys) < 1, nil
		})
		if err != nil || string(keys) != "\x01" {
			t.Errorf("scan: %x, %v", keys, err)
		}
		if err := r.scan(chain.BucketEvents, chain.SeqKey(2), func(_, _ []byte) (bool, error) { return true, stop }); err != stop {
			t.Errorf("scan: %v", err)
		}
		return r.scan("no bucket", nil, func(_, _ []byte) (bool, error) { return true, stop })
	})
	if err != nil {
		t.Error(err)
	}
	err = commitChange(b, &change{after: []byte("new head"), reset: true, derived: []write{{chain.BucketKeys, []byte("c"), []byte("3")}}})
	if err != nil {
		t.Fatal(err)
	}
	if b2, c := value(t, b, chain.BucketKeys, []byte("b")), value(t, b, chain.BucketKeys, []byte("c")); b2 != nil || string(c) != "3" {
		t.Errorf("after a reset: %q %q", b2, c)
	}
}

// A panic in a view or under a commit is an error, and close comes back.
func TestBackendPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := Init(t.Context(), path, InitOptions{CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	f, err := openLocked(path, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openBolt(path, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.view(func(reader) error { panic("in a view") }); err == nil {
		t.Error("no error")
	}
	tx, err := b.db.Begin(true) // a transaction whose lock is never given back
	if err != nil {
		t.Fatal(err)
	}
	_ = tx
	b.panicked = true
	if err := b.close(); err != nil {
		t.Error(err)
	}
	if f, err = openLocked(path, false); err != nil {
		t.Fatalf("the lock is still held: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
