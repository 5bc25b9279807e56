package verify_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

func openSource(t testing.TB, path string) *verify.Source {
	t.Helper()
	s, err := verify.OpenSource(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSource reads every event back, from every number on, at every page size,
// and twice from one source.
func TestSource(t *testing.T) {
	for _, size := range []int{4096, 8192, 16384, 32768, 65536} {
		l := newLedger(t, 20)
		l.text = string(bytes.Repeat([]byte("long "), 200))
		events := l.take(300)
		path := filepath.Join(t.TempDir(), "ledger.db")
		writeDB(t, path, size, 30, events)
		s := openSource(t, path)
		for _, from := range []uint64{0, 1, 2, 150, 299, 300, 301, 1 << 60} {
			next := max(from, 1)
			for e, err := range s.Events(from) {
				if err != nil {
					t.Fatal(err)
				}
				want := events[next-1]
				if e.Hash != want.Hash || !bytes.Equal(e.Header, want.Header) || !bytes.Equal(e.Content, want.Content) || e.Salt != want.Salt {
					t.Fatalf("page size %d, event %d differs", size, next)
				}
				next++
			}
			if from <= 300 && next != 301 {
				t.Errorf("page size %d, from %d: ended before %d", size, from, next)
			}
		}
		for range s.Events(1) {
			break
		}
		seq, hash, ok := s.Head()
		if !ok || seq != 300 || hash != events[299].Hash {
			t.Errorf("head %d %s %t", seq, hash, ok)
		}
		if m := s.Metas(); m[0].Problem+m[1].Problem+s.Rolled() != "" || m[0].PageSize != uint32(size) || m[0].TxID == m[1].TxID {
			t.Errorf("metas %+v, %q", m, s.Rolled())
		}
		if s.Unknown() != nil || s.Damage() != nil {
			t.Errorf("unknown %q, damage %v", s.Unknown(), s.Damage())
		}
	}
}

// TestSourceOwnsMemory: an event stays what it was when the walk goes on.
func TestSourceOwnsMemory(t *testing.T) {
	path, events := makeDB(t)
	var got []chain.Event
	for e, err := range openSource(t, path).Events(1) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	for i, e := range got {
		if !bytes.Equal(e.Header, events[i].Header) || !bytes.Equal(e.Content, events[i].Content) {
			t.Fatalf("event %d changed", i+1)
		}
	}
}

// TestSourceDamage: damage takes an error's place in the walk, which goes on
// behind it, so that nobody takes fewer events for all of them.
func TestSourceDamage(t *testing.T) {
	path, _ := makeDB(t)
	b := readFile(t, path)
	c := craft{b}
	root, _ := c.events(t)
	c.page(binary.LittleEndian.Uint64(c.child(root, 2)))[8] ^= 0xff
	bad := writeFile(t, "bad.db", b)
	s := openSource(t, bad)
	n, torn := 0, 0
	for _, err := range s.Events(1) {
		switch {
		case errors.Is(err, verify.ErrTorn):
			torn++
		case err != nil:
			t.Error(err)
		default:
			n++
		}
	}
	if torn != 1 || n == 0 || n >= dbEvents || len(s.Damage()) != 1 {
		t.Errorf("%d events, %d errors, damage %v", n, torn, s.Damage())
	}
	// The last page: nothing comes behind the error.
	b = readFile(t, path)
	c = craft{b}
	c.page(binary.LittleEndian.Uint64(c.child(root, c.count(root)-1)))[8] ^= 0xff
	var last error
	for _, err := range openSource(t, writeFile(t, "end.db", b)).Events(1) {
		last = err
	}
	if !errors.Is(last, verify.ErrTorn) {
		t.Errorf("the walk ended with %v", last)
	}
}

// TestSourceLayout: what is not stored as an event is an error in its place.
func TestSourceLayout(t *testing.T) {
	path, _ := makeDB(t)
	update(t, path, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(chain.BucketEvents))
		return errors.Join(b.Put(chain.SeqKey(7), []byte("x")), b.Put([]byte("odd key"), nil))
	})
	n, wrong := 0, 0
	for _, err := range openSource(t, path).Events(1) {
		if errors.Is(err, chain.ErrLayout) {
			wrong++
		} else if err == nil {
			n++
		}
	}
	if wrong != 2 || n != dbEvents-1 {
		t.Errorf("%d events, %d errors", n, wrong)
	}
}

func TestOpenSourceErrors(t *testing.T) {
	path, _ := makeDB(t)
	later := filepath.Join(t.TempDir(), "later.db")
	if err := os.WriteFile(later, readFile(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	update(t, later, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeySchema), chain.EncodeSchema(2))
	})
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"absent":    {filepath.Join(t.TempDir(), "no"), os.ErrNotExist},
		"empty":     {writeFile(t, "x", nil), verify.ErrTorn},
		"text":      {writeFile(t, "x", []byte("hello")), verify.ErrNotLedger},
		"cut":       {writeFile(t, "x", readFile(t, path)[:9000]), verify.ErrTorn},
		"later":     {later, verify.ErrSchema},
		"an export": {writeFile(t, "x", export(t, 1, 5)), verify.ErrNotLedger},
	} {
		if _, err := verify.OpenSource(c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := verify.OpenSource(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}

// TestVerdictList walks the closed list of words with its exit codes.
func TestVerdictList(t *testing.T) {
	codes := map[int]int{}
	for _, v := range verify.Verdicts() {
		codes[v.ExitCode()]++
	}
	if want := map[int]int{0: 1, 10: 5, 20: 4, 30: 1, 40: 1, 50: 1}; len(codes) != len(want) || codes[10] != 5 || codes[20] != 4 {
		t.Errorf("codes %v", codes)
	}
	seen := map[verify.Verdict]bool{}
	for _, c := range loadVectors(t, vectorDir) {
		seen[c.Verdict] = true
		if c.Verdict.ExitCode() != c.Exit {
			t.Errorf("%s has code %d, and a case says %d", c.Verdict, c.Verdict.ExitCode(), c.Exit)
		}
	}
	for _, v := range verify.Verdicts() {
		if !seen[v] {
			t.Errorf("no case has verdict %s", v)
		}
	}
}

// TestReportError: a report as an error, and the check that nothing of a
// skipped check is called passed.
func TestReportError(t *testing.T) {
	r := verifyFile(t, filepath.Join(vectorDir, "content-edited.jsonl"), verify.Options{})
	var v *verify.VerdictError
	if err := r.Err(); !errors.As(err, &v) || v.Fault.Seq != 6 || err.Error() == "" {
		t.Errorf("error %v", err)
	}
	if err := verifyFile(t, filepath.Join(vectorDir, "usual.jsonl"), verify.Options{}).Err(); err != nil {
		t.Error(err)
	}
	for name, skipped := range map[string][]string{
		"empty-ledger": {"cost", "locks", "caps", "link", "run_seq", "anchors", "demanded_keys", "checkpoint_signatures"},
		"run-export":   {"locks", "caps", "signed_notes", "checkpoint_signatures"},
		"range":        {"caps"},
		"no-keys":      {"checkpoint_signatures"},
		"withheld":     {"anchors"},
	} {
		r := verifyFile(t, filepath.Join(vectorDir, name+".jsonl"), verify.Options{})
		for _, s := range skipped {
			if c := r.Checks[s]; c.Result != verify.Skip || c.Reason == "" {
				t.Errorf("%s: check %s is %+v", name, s, c)
			}
		}
	}
	if c := verifyFile(t, filepath.Join(vectorDir, "withheld.jsonl"), verify.Options{}).Checks["content"]; c.Result != verify.Pass || c.Reason == "" {
		t.Errorf("withheld contents: %+v", c)
	}
	if !slices.Contains(verify.Verdicts(), verify.Intact) {
		t.Error("intact is not in the list")
	}
}
