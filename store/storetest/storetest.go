// Package storetest helps to test what writes ledgers. It is for tests alone.
//
// Open makes a ledger in a folder of the test's own. When the test ends the
// ledger is closed, its file is verified by package verify, which shares no
// code with the writer but chain, and what is derived in it is compared with
// its events. The test fails unless the verdict is intact, or the one that it
// declared by Expect.
package storetest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/verify"
)

// Ledger is an open ledger of a test.
type Ledger struct {
	*store.Store

	mu     sync.Mutex
	expect verify.Verdict
}

// Expect declares the verdict that the file has at the end of the test.
func (l *Ledger) Expect(v verify.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expect = v
}

// Open makes and opens a ledger in a folder of its own.
func Open(t testing.TB) *Ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := store.Init(context.Background(), path, store.InitOptions{CreatedBy: "storetest", Verify: Verify}); err != nil {
		t.Fatal(err)
	}
	return Reopen(t, path)
}

// Reopen opens the ledger at path, with the same promise at the end of the
// test.
func Reopen(t testing.TB, path string) *Ledger {
	t.Helper()
	s, err := store.Open(context.Background(), path, store.Options{Verify: Verify})
	if err != nil {
		t.Fatal(err)
	}
	l := &Ledger{Store: s, expect: verify.Intact}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close ledger: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		Check(t, path, l.expect)
	})
	return l
}

// Verify is a store's Options.Verify: nil where the file at path is intact.
func Verify(ctx context.Context, path string) error {
	r, err := verify.File(ctx, path, verify.Options{})
	if err != nil {
		return err
	}
	if r.Verdict != verify.Intact {
		return fmt.Errorf("%s: %s: %v", path, r.Verdict, r.Faults)
	}
	return nil
}

// Check verifies the closed ledger at path and fails the test unless the
// verdict is want; an intact one has to have what is derived from its events
// as well. It returns the report, nil where there is none.
func Check(t testing.TB, path string, want verify.Verdict) *verify.Report {
	t.Helper()
	r, err := verify.File(context.Background(), path, verify.Options{})
	if err != nil {
		t.Errorf("verify %s: %v", path, err)
		return nil
	}
	if r.Verdict != want {
		t.Errorf("%s is %s, not %s: %v", path, r.Verdict, want, r.Faults)
	}
	if r.Verdict == verify.Intact {
		if err := Derived(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	return r
}

// sums are what follows from the events of a ledger, computed by hand.
type sums struct {
	head   chain.Head
	runs   map[string]chain.RunState
	keys   map[string]uint64
	calls  map[uint64]string
	totals map[string]chain.Totals
}

// add counts one event.
func (s *sums) add(e *chain.Event) error {
	h, err := chain.ParseHeader(e.Header)
	if err != nil {
		return err
	}
	s.head.Seq, s.head.Hash = h.Seq, e.Hash
	s.head.Frontier.Add(e.Hash)
	if h.Run != "" {
		r := s.runs[h.Run]
		if r.First == 0 {
			r.First = h.Seq
		}
		r.RunSeq, r.Last = h.RunSeq, h.Seq
		if h.Type == chain.TypeRunClosed {
			r.Closed = h.Seq
		}
		s.runs[h.Run] = r
	}
	if _, ok := s.keys[h.Key]; h.Key != "" && !ok {
		s.keys[h.Key] = h.Seq
	}
	switch h.Type {
	case chain.TypeRequest:
		s.calls[h.Seq] = h.Run
	case chain.TypeResponse, chain.TypeFailed:
		delete(s.calls, h.Call)
	}
	for _, k := range chain.TotalKeys(h) {
		t := s.totals[k]
		t.Add(h)
		s.totals[k] = t
	}
	return nil
}

// buckets spells s as a ledger file does.
func (s *sums) buckets() map[string]map[string]string {
	b := map[string]map[string]string{}
	for _, name := range chain.Buckets() {
		b[name] = map[string]string{}
	}
	b[chain.BucketMeta][chain.KeyHead] = string(s.head.Append(nil))
	for k, v := range s.runs {
		b[chain.BucketRuns][k] = string(v.Append(nil))
	}
	for k, v := range s.keys {
		b[chain.BucketKeys][k] = string(chain.SeqKey(v))
	}
	for k, v := range s.calls {
		b[chain.BucketCalls][string(chain.SeqKey(k))] = v
	}
	for k, v := range s.totals {
		b[chain.BucketTotals][k] = string(v.Append(nil))
	}
	return b
}

// differs names the first entry in which got is not want, "" for none.
func differs(bucket string, got, want map[string]string) string {
	keys := map[string]bool{}
	for k := range got {
		keys[k] = true
	}
	for k := range want {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if got[k] != want[k] {
			return fmt.Sprintf("%s %q is %x, and %x follows from the events", bucket, k, got[k], want[k])
		}
	}
	return ""
}
