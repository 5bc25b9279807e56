package migrations_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/migrations"
	"go.etcd.io/bbolt"
)

func database(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "ledger.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// The list of versions begins at 1, has no gap, and says what each changed.
func TestSteps(t *testing.T) {
	for i, s := range migrations.Steps {
		if s.Version != uint32(i+1) || s.Changed == "" {
			t.Errorf("step %d: version %d, changed %q", i, s.Version, s.Changed)
		}
	}
	if migrations.Current() != chain.SchemaVersion {
		t.Errorf("steps lead to %d, chain describes %d", migrations.Current(), chain.SchemaVersion)
	}
}

func TestCreate(t *testing.T) {
	db := database(t)
	if err := db.View(migrations.Check); !errors.Is(err, migrations.ErrNoLedger) {
		t.Errorf("an empty database: %v", err)
	}
	if err := db.Update(migrations.Create); err != nil {
		t.Fatal(err)
	}
	err := db.View(func(tx *bbolt.Tx) error {
		var got []string
		err := tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			got = append(got, string(name))
			return nil
		})
		want := slices.Sorted(slices.Values(chain.Buckets()))
		if !slices.Equal(got, want) {
			t.Errorf("buckets %q, not %q", got, want)
		}
		return errors.Join(err, migrations.Check(tx))
	})
	if err != nil {
		t.Error(err)
	}
	// What is there already is never laid out again, and nothing stays of
	// the attempt.
	if err := db.Update(migrations.Create); err == nil {
		t.Error("created twice")
	}
	if err := db.View(migrations.Check); err != nil {
		t.Error(err)
	}
}

// A file of another version is refused, and one that isn't a ledger.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(tx *bbolt.Tx) error
		want   error
	}{
		"newer":      {schema(chain.EncodeSchema(migrations.Current() + 1)), migrations.ErrNewer},
		"far newer":  {schema(chain.EncodeSchema(1<<32 - 1)), migrations.ErrNewer},
		"older":      {schema(chain.EncodeSchema(0)), migrations.ErrOlder},
		"unreadable": {schema([]byte("1")), chain.ErrLayout},
		"none":       {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(chain.BucketMeta)).Delete([]byte(chain.KeySchema)) }, chain.ErrLayout},
		"no meta":    {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketMeta)) }, migrations.ErrNoLedger},
		"no events":  {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketEvents)) }, migrations.ErrNoLedger},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			if err := errors.Join(db.Update(migrations.Create), db.Update(c.change)); err != nil {
				t.Fatal(err)
			}
			if err := db.View(migrations.Check); !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
}

func schema(v []byte) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeySchema), v)
	}
}

// Every version that was ever written stays readable. The stored files were
// made once and are never made again.
func TestStoredFiles(t *testing.T) {
	for _, c := range []struct {
		file   string
		events uint64
		head   string
	}{
		{"testdata/v1.db.gz", 19, "68ca52a4e0835d298db5606e9a74163e5f4ffb82c150db08f9d87b3f4e966b14"},
	} {
		t.Run(c.file, func(t *testing.T) {
			path := unpack(t, c.file)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = db.View(func(tx *bbolt.Tx) error {
				if err := migrations.Check(tx); err != nil {
					return err
				}
				head, err := chain.ParseHead(tx.Bucket([]byte(chain.BucketMeta)).Get([]byte(chain.KeyHead)))
				if err != nil {
					return err
				}
				if head.Seq != c.events || head.Hash.String() != c.head {
					t.Errorf("head %d %s", head.Seq, head.Hash)
				}
				return walk(tx, head)
			})
			if err != nil {
				t.Error(err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("reading changed the file: %v", err)
			}
		})
	}
}

// walk recomputes the chain of tx up to head.
func walk(tx *bbolt.Tx, head chain.Head) error {
	var f chain.Frontier
	var prev chain.Hash
	n := uint64(0)
	err := tx.Bucket([]byte(chain.BucketEvents)).ForEach(func(k, v []byte) error {
		n++
		e, err := chain.DecodeEvent(v)
		if err != nil {
			return err
		}
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			return err
		}
		if h.Seq != n || !bytes.Equal(k, chain.SeqKey(n)) || n > 1 && h.Prev != prev || chain.EventHash(e.Header) != e.Hash ||
			chain.ContentCommit(e.Salt, e.Content) != h.Content {
			return errors.New("a damaged event")
		}
		prev = e.Hash
		f.Add(e.Hash)
		return nil
	})
	if err == nil && (n != head.Seq || prev != head.Hash || f.Root() != head.Frontier.Root()) {
		err = errors.New("another head")
	}
	return err
}

// unpack writes the stored file to a folder of the test.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
