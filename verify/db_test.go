package verify_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

// writeDB makes a database of the events, each under its own number, in
// transactions of group events.
func writeDB(t testing.TB, path string, pageSize, group int, events []*chain.Event) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var f chain.Frontier
	for len(events) > 0 {
		n := min(group, len(events))
		err := db.Update(func(tx *bolt.Tx) error {
			for _, name := range chain.Buckets() {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				b.FillPercent = 1
			}
			for _, e := range events[:n] {
				f.Add(e.Hash)
				if err := tx.Bucket([]byte(chain.BucketEvents)).Put(chain.SeqKey(f.Size()), chain.EncodeEvent(nil, e)); err != nil {
					return err
				}
			}
			head := chain.Head{Seq: f.Size(), Hash: events[n-1].Hash, Frontier: f}
			meta := tx.Bucket([]byte(chain.BucketMeta))
			if err := meta.Put([]byte(chain.KeySchema), chain.EncodeSchema(chain.SchemaVersion)); err != nil {
				return err
			}
			return meta.Put([]byte(chain.KeyHead), head.Append(nil))
		})
		if err != nil {
			t.Fatal(err)
		}
		events = events[n:]
	}
}

// exportEvents are the events of a whole export, nil where a line is not
// readable as one, a content is absent or the numbers don't simply rise from
// 1: such an export says nothing that a database could say.
func exportEvents(t testing.TB, export []byte) []*chain.Event {
	t.Helper()
	var list []*chain.Event
	for b := range bytes.Lines(export) {
		l, err := chain.ParseLine(bytes.TrimSuffix(b, []byte("\n")))
		switch {
		case err != nil:
			return nil
		case l.Trailer != nil:
			return list
		case l.Body != nil:
		default:
			h, err := chain.ParseHeader(l.Event.Header)
			if err != nil || l.Event.Content == nil || h.Seq != uint64(len(list)+1) {
				return nil
			}
			list = append(list, l.Event)
		}
	}
	return nil
}

// exportsOnly are cases about what a database doesn't have: trailers, line ends
// and bodies.
var exportsOnly = []string{
	"tail-cut", "whole-with-peaks", "line-after-trailer", "old-line-after-trailer", "piece-after-trailer",
	"no-newline", "part-salt-edited",
}

func TestVectorsAsDatabase(t *testing.T) {
	ran := 0
	for name, c := range loadVectors(t, vectorDir) {
		if strings.HasPrefix(name, "trailer-") || strings.HasPrefix(name, "bod") || slices.Contains(exportsOnly, name) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(vectorDir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		events := exportEvents(t, b)
		if events == nil {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			writeDB(t, path, 4096, 3, events)
			r, err := verify.File(context.Background(), path, vectorOptions(t, vectorDir, c.Args))
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != verify.KindDatabase {
				t.Errorf("kind %s", r.Kind)
			}
			checkVector(t, c, r)
		})
	}
	if ran < 120 {
		t.Errorf("only %d cases make a database", ran)
	}
	t.Logf("%d cases", ran)
}

// TestSnapshots: a copy that the database makes of itself is intact whatever
// the number of its last transaction, and so is what is written to it later.
func TestSnapshots(t *testing.T) {
	for group := range 4 {
		path := filepath.Join(t.TempDir(), "ledger.db")
		l := newLedger(t, 9)
		writeDB(t, path, 4096, 7, l.take(7*(group+5)))
		copied := filepath.Join(t.TempDir(), "copy.db")
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.View(func(tx *bolt.Tx) error { return tx.CopyFile(copied, 0o600) })
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		want(t, verifyFile(t, copied, verify.Options{}), verify.Intact, 0)
		for range 3 {
			e := l.next()
			update(t, copied, func(tx *bolt.Tx) error {
				return tx.Bucket([]byte(chain.BucketEvents)).Put(chain.SeqKey(l.frontier.Size()), chain.EncodeEvent(nil, e))
			})
			want(t, verifyFile(t, copied, verify.Options{}), verify.Intact, 0)
		}
	}
}
