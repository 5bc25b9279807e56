package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-audit/docket/store"
)

// markerOf is what the open ledger's marker says.
func markerOf(t *testing.T, path string) map[string]any {
	t.Helper()
	b := bytesOf(t, store.MarkerPath(path))
	if len(b) != store.MarkerSize {
		t.Errorf("marker of %d bytes", len(b))
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func putMarker(t *testing.T, path string, m map[string]any) {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, bytes.Repeat([]byte(" "), store.MarkerSize-1-len(b))...)
	putRaw(t, path, append(b, '\n'))
}

func putRaw(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(store.MarkerPath(path), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Rewritten is a file where the flag is set, where the marker is of another
// boot, and where it can't be read; else the tail is looked at alone.
func TestMarkerRule(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	ours := markerOf(t, path)
	if ours["pid"] != float64(os.Getpid()) || ours["boot"] == "" || ours["storage_error"] != false {
		t.Errorf("marker %v", ours)
	}
	mustAppend(t, s, event("x"))
	mustClose(t, s)
	if _, err := os.Stat(store.MarkerPath(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("marker after a clean close: %v", err)
	}
	with := func(change func(map[string]any)) func(*testing.T) {
		return func(t *testing.T) {
			m := map[string]any{}
			for k, v := range ours {
				m[k] = v
			}
			change(m)
			putMarker(t, path, m)
		}
	}
	raw := func(b []byte) func(*testing.T) { return func(t *testing.T) { putRaw(t, path, b) } }
	whole, err := json.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	const other = "00000000-0000-0000-0000-000000000000"
	for _, c := range []struct {
		name             string
		put              func(*testing.T)
		unclean, rewrite bool
		unavailable      uint64
	}{
		{"none", func(*testing.T) {}, false, false, 0},
		{"same boot", with(func(m map[string]any) {}), true, false, 0},
		{"same boot, refusals", with(func(m map[string]any) { m["unavailable"] = 7 }), true, false, 7},
		{"same boot, flag", with(func(m map[string]any) { m["storage_error"] = true }), true, true, 0},
		{"other boot", with(func(m map[string]any) { m["boot"] = other }), true, true, 0},
		{"other boot, flag", with(func(m map[string]any) { m["boot"] = other; m["storage_error"] = true; m["unavailable"] = 2 }), true, true, 2},
		{"closed, refusals", with(func(m map[string]any) { m["closed"] = true; m["boot"] = other; m["unavailable"] = 3 }), false, false, 3},
		{"no boot", with(func(m map[string]any) { m["boot"] = "" }), true, true, 0},
		{"unknown member", with(func(m map[string]any) { m["newer"] = 1 }), true, true, 0},
		{"other type", with(func(m map[string]any) { m["storage_error"] = "no" }), true, true, 0},
		{"empty", raw(nil), true, true, 0},
		{"zeros", raw(make([]byte, store.MarkerSize)), true, true, 0},
		{"torn", raw(append(whole[:60:60], make([]byte, store.MarkerSize-60)...)), true, true, 0},
		{"short", raw(whole), true, true, 0},
		{"long", raw(append(whole, bytes.Repeat([]byte{' '}, store.MarkerSize)...)), true, true, 0},
		{"link", func(t *testing.T) {
			if err := errors.Join(os.Remove(store.MarkerPath(path)), os.Symlink("/dev/null", store.MarkerPath(path))); err != nil {
				t.Fatal(err)
			}
		}, true, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "link" {
				putRaw(t, path, nil)
			}
			c.put(t)
			verified := 0
			s, err := store.Open(t.Context(), path, store.Options{Verify: func(_ context.Context, p string) error {
				verified++
				if p == path || filepath.Dir(p) != filepath.Dir(path) {
					t.Errorf("verified %s", p)
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if (verified == 1) != c.rewrite || verified > 1 {
				t.Errorf("verified %d times, rewrite is %v", verified, c.rewrite)
			}
			if s.Unclean() != c.unclean || s.LeftUnavailable() != c.unavailable {
				t.Errorf("unclean %v, unavailable %d", s.Unclean(), s.LeftUnavailable())
			}
			m := markerOf(t, path)
			if m["boot"] != ours["boot"] || m["storage_error"] != false || m["unavailable"] != float64(c.unavailable) {
				t.Errorf("marker while open: %v", m)
			}
			s.KeepUnavailable(0)
			mustClose(t, s)
			if got := names(t, path); len(got) != 1 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// Refusals that nobody could record reach the next start over a latch, a crash
// and a clean close.
func TestUnavailableIsCarried(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	s.KeepUnavailable(5)
	s.Interpose(false, map[int]store.Fault{1: {}})
	if _, err := s.Append(t.Context(), event("x")); err == nil {
		t.Fatal("appended")
	}
	s.KeepUnavailable(6)
	mustClose(t, s)
	s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
	if err != nil {
		t.Fatal(err)
	}
	if s.LeftUnavailable() != 6 || !s.Unclean() {
		t.Error(s.LeftUnavailable(), s.Unclean())
	}
	s.KeepUnavailable(8)
	mustClose(t, s)
	s = open(t, path)
	if s.LeftUnavailable() != 8 || s.Unclean() {
		t.Error(s.LeftUnavailable(), s.Unclean())
	}
	s.KeepUnavailable(0)
	mustClose(t, s)
	if got := names(t, path); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// A rewrite that can't be finished leaves the old file, and the marker that
// asks for it.
func TestRewriteRefused(t *testing.T) {
	t.Parallel()
	path := filled(t)
	ask := func() { putRaw(t, path, []byte("nonsense")) }
	ask()
	no := errors.New("no")
	for name, o := range map[string]store.Options{
		"no verifier": {},
		"verifier":    {Verify: func(context.Context, string) error { return no }},
	} {
		unchanged(t, path, func() {
			if _, err := store.Open(t.Context(), path, o); err == nil || errors.Is(err, store.ErrInUse) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if got := names(t, path); len(got) != 2 {
			t.Errorf("%s: left behind: %v", name, got)
		}
	}
	// A start that was killed in a rewrite leaves its copy; the next one
	// takes it away.
	for _, left := range []string{".ledger.db.123.tmp", ".dirty.9.tmp"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), left), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told []int64
	s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify, Progress: func(done, total int64) {
		if done > total || total == 0 {
			t.Errorf("%d of %d bytes", done, total)
		}
		told = append(told, done)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) == 0 {
		t.Error("no progress")
	}
	if got := names(t, path); len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
	mustAppend(t, s, event("after"))
	mustClose(t, s)
	if got := len(checkFile(t, path)); got != 33 {
		t.Errorf("%d events", got)
	}
}

// Who starts while another rewrites is refused, also when they hold a
// descriptor of the old file by then.
func TestStartDuringRewrite(t *testing.T) {
	t.Parallel()
	path := filled(t)
	putRaw(t, path, []byte("nonsense"))
	tries := 0
	s, err := store.Open(t.Context(), path, store.Options{Verify: func(ctx context.Context, _ string) error {
		for range 3 {
			tries++
			if _, err := store.Open(ctx, path, store.Options{}); !errors.Is(err, store.ErrInUse) {
				t.Errorf("a second start during the rewrite: %v", err)
			}
		}
		return nil
	}})
	if err != nil || tries != 3 {
		t.Fatal(tries, err)
	}
	if _, err := store.Open(t.Context(), path, store.Options{}); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second start after the rewrite: %v", err)
	}
	mustClose(t, s)
}

// One damaged meta page is forgiven where a crash explains it, and only there.
func TestDamagedMetaAfterCrash(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		path := filled(t)
		b := bytesOf(t, path)
		clear(b[i*store.PageSize:][:512])
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		unchanged(t, path, func() {
			if _, err := store.Open(t.Context(), path, store.Options{Verify: noVerify}); !errors.Is(err, store.ErrNotLedger) {
				t.Error(err)
			}
		})
		putRaw(t, path, []byte("nonsense"))
		s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Head().Seq; got != 32 && got != 31 {
			t.Errorf("head %d", got)
		}
		mustClose(t, s)
		checkFile(t, path)
	}
}

// A file that ends before what was acknowledged is not taken up: it would
// become another history. It stays as it is.
func TestFileBehindItsMarker(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	old := bytesOf(t, path)
	mustAppend(t, s, event("x"))
	s.Interpose(false, map[int]store.Fault{1: {}})
	if _, err := s.Append(t.Context(), event("y")); err == nil {
		t.Fatal("appended")
	}
	if m := markerOf(t, path); m["durable"] != float64(2) || m["storage_error"] != true {
		t.Errorf("marker %v", m)
	}
	mustClose(t, s)
	if err := writeFile(path, old); err != nil {
		t.Fatal(err)
	}
	unchanged(t, path, func() {
		_, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
		if !errors.Is(err, store.ErrNotLedger) || !strings.Contains(err.Error(), "event 2 was acknowledged") {
			t.Error(err)
		}
	})
}
