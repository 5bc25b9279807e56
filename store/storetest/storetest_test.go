package storetest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
	"go.etcd.io/bbolt"
)

// recorder is a test that is only looked at.
type recorder struct {
	*testing.T
	failed   []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }

// end runs what the harness left for the end of the test.
func (r *recorder) end() {
	for i := range r.cleanups {
		r.cleanups[len(r.cleanups)-1-i]()
	}
}

func fill(t *testing.T, l *storetest.Ledger) {
	t.Helper()
	for i := range 20 {
		d := store.Draft{Header: chain.Header{Type: "tool.call", Run: "r"}, Content: fmt.Appendf(nil, `{"i":%d}`, i)}
		if i == 0 {
			d.Header = chain.Header{Type: chain.TypeRunOpened, Run: "r"}
		}
		if _, err := l.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIntact(t *testing.T) {
	r := &recorder{T: t}
	fill(t, storetest.Open(r))
	r.end()
	if len(r.failed) > 0 {
		t.Error(r.failed)
	}
}

// A harness that can't fail shows nothing: each kind of damage has to be seen.
func TestHarnessFails(t *testing.T) {
	put := func(bucket string, key []byte, change func([]byte) []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucket))
			return b.Put(key, change(bytes.Clone(b.Get(key))))
		}
	}
	flip := func(v []byte) []byte { v[len(v)-1] ^= 1; return v }
	flipDigit := func(v []byte) []byte { v[len(v)-2] ^= 1; return v } // of {"i":3}
	for name, c := range map[string]struct {
		damage  func(*bbolt.Tx) error
		verdict verify.Verdict // "" where it is intact all the same
	}{
		"content": {put(chain.BucketEvents, chain.SeqKey(5), flipDigit), verify.Altered},
		"missing": {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(chain.BucketEvents)).Delete(chain.SeqKey(5)) }, verify.Missing},
		"run":     {put(chain.BucketRuns, []byte("r"), flip), ""},
		"head":    {put(chain.BucketMeta, []byte(chain.KeyHead), flip), ""},
		"key":     {put(chain.BucketKeys, []byte("k"), func([]byte) []byte { return chain.SeqKey(3) }), ""},
		"call":    {put(chain.BucketCalls, chain.SeqKey(3), func([]byte) []byte { return []byte("r") }), ""},
		"totals":  {put(chain.BucketTotals, []byte("ledger"), func([]byte) []byte { return (&chain.Totals{}).Append(nil) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{T: t}
			l := storetest.Open(r)
			fill(t, l)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(l.Path(), 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Update(c.damage); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			r.end()
			if len(r.failed) != 1 {
				t.Errorf("failures: %q", r.failed)
			}
			if c.verdict == "" {
				return
			}
			r.failed = nil
			l.Expect(c.verdict)
			r.end()
			if len(r.failed) != 0 {
				t.Errorf("declared %s: %q", c.verdict, r.failed)
			}
		})
	}
}
