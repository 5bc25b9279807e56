package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if run := os.Getenv("DOCKET_STORE_CHILD"); run != "" {
		os.Exit(children[run]())
	}
	goleak.VerifyTestMain(m)
}

// newLedger makes a ledger in a folder of its own.
func newLedger(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ledger.db")
	makeLedger(tb, path)
	return path
}

func makeLedger(tb testing.TB, path string) {
	tb.Helper()
	if _, err := store.Init(tb.Context(), path, store.InitOptions{CreatedBy: "test"}); err != nil {
		tb.Fatal(err)
	}
}

// open opens the ledger at path.
func open(tb testing.TB, path string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), path, store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// opened makes a ledger and opens it; at the end it is closed and its chain
// checked.
func opened(t *testing.T) *store.Store {
	t.Helper()
	s := open(t, newLedger(t))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		checkFile(t, s.Path())
	})
	return s
}

// event is a draft with this much to say.
func event(format string, args ...any) store.Draft {
	return store.Draft{
		Header:  chain.Header{Type: "tool.call"},
		Content: fmt.Appendf(nil, `{"say":%q}`, fmt.Sprintf(format, args...)),
	}
}

// mustAppend appends d, from any goroutine.
func mustAppend(t *testing.T, s *store.Store, d store.Draft) store.Receipt {
	t.Helper()
	r, err := s.Append(t.Context(), d)
	if err != nil {
		t.Error(err)
	}
	return r
}

func noVerify(context.Context, string) error { return nil }

// snapshotTo writes a snapshot to a file.
func snapshotTo(t *testing.T, s *store.Store, path string) chain.Head {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, err := s.Snapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func mustClose(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// readAll reads every durable event.
func readAll(t *testing.T, s *store.Store) []chain.Event {
	t.Helper()
	var all []chain.Event
	for {
		events, err := s.Read(uint64(len(all))+1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// checkChain judges events as a whole ledger, by hand: number, link, hash,
// commitment, run_seq, and the tree.
func checkChain(events []chain.Event, head chain.Head) error {
	var f chain.Frontier
	runs := map[string]uint64{}
	var prev chain.Hash
	for i, e := range events {
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		if h.Run != "" {
			runs[h.Run]++
		}
		switch {
		case h.Seq != uint64(i+1):
			return fmt.Errorf("event %d says %d", i+1, h.Seq)
		case i > 0 && h.Prev != prev:
			return fmt.Errorf("event %d is not linked", i+1)
		case chain.EventHash(e.Header) != e.Hash:
			return fmt.Errorf("event %d has another hash", i+1)
		case e.Content == nil || chain.ContentCommit(e.Salt, e.Content) != h.Content:
			return fmt.Errorf("event %d has another content", i+1)
		case h.RunSeq != runs[h.Run]:
			return fmt.Errorf("event %d has run_seq %d, not %d", i+1, h.RunSeq, runs[h.Run])
		}
		prev = e.Hash
		f.Add(e.Hash)
	}
	if len(events) == 0 {
		return errors.New("no events")
	}
	if head.Seq != uint64(len(events)) || head.Hash != prev || head.Frontier.Root() != f.Root() {
		return fmt.Errorf("the head is %d, the chain has %d events", head.Seq, len(events))
	}
	return nil
}

// checkFile judges the closed ledger at path.
func checkFile(t *testing.T, path string) []chain.Event {
	t.Helper()
	s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
	if err != nil {
		t.Error(err)
		return nil
	}
	events := readAll(t, s)
	if err := checkChain(events, s.Head()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := storetest.Derived(path); err != nil {
		t.Error(err)
	}
	return events
}

// bytesOf is what stands in the file at path.
func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unchanged makes sure that fn leaves the file at path as it is.
func unchanged(t *testing.T, path string, fn func()) {
	t.Helper()
	before := bytesOf(t, path)
	fn()
	if !bytes.Equal(before, bytesOf(t, path)) {
		t.Errorf("%s was changed", path)
	}
}

// names lists what stands in the folder of path.
func names(t *testing.T, path string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func writeFile(path string, b []byte) error { return os.WriteFile(path, b, 0o600) }
