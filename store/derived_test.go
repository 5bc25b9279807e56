package store_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"go.etcd.io/bbolt"
)

// contents is everything that a ledger file holds, by bucket and key.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string]string{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				all[fmt.Sprintf("%s %q", name, k)] = fmt.Sprintf("%x", v)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever happens to what is derived, in each bucket in turn, is noticed at
// the next start and made anew from the events: no call is forgotten, no key
// free again, no sum off.
func TestDerivedIsRebuilt(t *testing.T) {
	t.Parallel()
	first := func(b *bbolt.Bucket) (k, v []byte) { k, v = b.Cursor().First(); return bytes.Clone(k), bytes.Clone(v) }
	ways := map[string]func(tx *bbolt.Tx, name string) error{
		"bucket gone": func(tx *bbolt.Tx, name string) error { return tx.DeleteBucket([]byte(name)) },
		"bucket empty": func(tx *bbolt.Tx, name string) error {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
			_, err := tx.CreateBucket([]byte(name))
			return err
		},
		"entry gone": func(tx *bbolt.Tx, name string) error {
			k, _ := first(tx.Bucket([]byte(name)))
			return tx.Bucket([]byte(name)).Delete(k)
		},
		"value flipped": func(tx *bbolt.Tx, name string) error {
			k, v := first(tx.Bucket([]byte(name)))
			v[len(v)-1] ^= 1
			return tx.Bucket([]byte(name)).Put(k, v)
		},
		"value short": func(tx *bbolt.Tx, name string) error {
			k, v := first(tx.Bucket([]byte(name)))
			return tx.Bucket([]byte(name)).Put(k, v[:len(v)-1])
		},
		"entry more": func(tx *bbolt.Tx, name string) error {
			return tx.Bucket([]byte(name)).Put([]byte("zz"), []byte("xx"))
		},
		"values swapped": func(tx *bbolt.Tx, name string) error {
			b := tx.Bucket([]byte(name))
			k1, v1 := first(b)
			k2, v2 := b.Cursor().Last()
			k2, v2 = bytes.Clone(k2), bytes.Clone(v2)
			if bytes.Equal(v1, v2) {
				v2 = append(v2, 0)
			}
			if err := b.Put(k2, v1); err != nil {
				return err
			}
			return b.Put(k1, v2)
		},
	}
	path := filled(t)
	want := contents(t, path)
	whole := bytesOf(t, path)
	check := func(name string, fn func(*bbolt.Tx) error) {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/ledger.db"
			if err := writeFile(path, whole); err != nil {
				t.Fatal(err)
			}
			damage(t, path, fn)
			var log strings.Builder
			s, err := store.Open(t.Context(), path, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "rebuilding") {
				t.Errorf("not said: %s", log.String())
			}
			mustClose(t, s)
			got := contents(t, path)
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s is %s, not %s", k, got[k], v)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d entries, not %d", len(got), len(want))
			}
			// It fits from then on.
			log.Reset()
			if s, err = store.Open(t.Context(), path, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
				t.Fatal(err)
			}
			if log.Len() > 0 {
				t.Errorf("the second start said %s", log.String())
			}
			if r := mustAppend(t, s, keyed("key-3", "x")); !r.Replayed {
				t.Error("a key is free again")
			}
			if calls, err := s.OpenCalls(); err != nil || len(calls) != 1 || calls[0].Seq != 32 {
				t.Errorf("open calls %v, %v", calls, err)
			}
			mustClose(t, s)
		})
	}
	for _, bucket := range []string{chain.BucketRuns, chain.BucketKeys, chain.BucketCalls, chain.BucketTotals} {
		for way, fn := range ways {
			check(bucket+", "+way, func(tx *bbolt.Tx) error { return fn(tx, bucket) })
		}
	}
	meta := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte(chain.BucketMeta)) }
	for name, fn := range map[string]func(tx *bbolt.Tx) error{
		"head gone":     func(tx *bbolt.Tx) error { return meta(tx).Delete([]byte(chain.KeyHead)) },
		"head short":    func(tx *bbolt.Tx) error { return meta(tx).Put([]byte(chain.KeyHead), []byte("x")) },
		"checksum gone": func(tx *bbolt.Tx) error { return meta(tx).Delete([]byte(chain.KeyDerived)) },
		"checksum short": func(tx *bbolt.Tx) error {
			return meta(tx).Put([]byte(chain.KeyDerived), []byte("x"))
		},
		"head's hash": func(tx *bbolt.Tx) error {
			v := bytes.Clone(meta(tx).Get([]byte(chain.KeyHead)))
			v[20] ^= 1
			return meta(tx).Put([]byte(chain.KeyHead), v)
		},
		"tree": func(tx *bbolt.Tx) error {
			v := bytes.Clone(meta(tx).Get([]byte(chain.KeyHead)))
			v[len(v)-1] ^= 1
			return meta(tx).Put([]byte(chain.KeyHead), v)
		},
	} {
		check(name, fn)
	}
}

// Events are evidence, not derived: where they don't bear it, nothing is
// rebuilt on them.
func TestNothingIsRebuiltOnDamage(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	drafts := make([]store.Draft, store.TailEvents+10)
	for i := range drafts {
		drafts[i] = event("%d", i)
		drafts[i].Header.Run = "r"
	}
	if _, err := s.AppendAll(t.Context(), drafts); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	damage(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(chain.BucketEvents))
		v := bytes.Clone(b.Get(chain.SeqKey(4)))
		v[len(v)-2] ^= 1
		return b.Put(chain.SeqKey(4), v)
	})
	// Far from the tail, a start doesn't look: verify does.
	mustClose(t, open(t, path))
	damage(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketRuns)) })
	unchanged(t, path, func() {
		if _, err := store.Open(t.Context(), path, store.Options{}); err == nil || !strings.Contains(err.Error(), "event 4") {
			t.Error(err)
		}
	})
}
