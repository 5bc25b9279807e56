package verify_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

// TestHotCopies copies a database in small pieces while it is written at full
// rate: each copy is torn or intact, and none is ever accused.
func TestHotCopies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := newLedger(t, 40)
	writeDB(t, path, 16384, 100, l.take(1000))
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, PageSize: 16384})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- db.Close()
				return
			default:
			}
			if err := db.Update(func(tx *bolt.Tx) error { return appendEvents(tx, l, 20) }); err != nil {
				db.Close()
				done <- err
				return
			}
		}
	}()
	counts := map[verify.Verdict]int{}
	for range 20 {
		b := hotCopy(t, path)
		r := verifyBytes(t, b, verify.Options{})
		counts[r.Verdict]++
		if r.Verdict != verify.Torn && r.Verdict != verify.Intact {
			t.Errorf("a copy is %s: %v", r.Verdict, r.Deciding())
		}
		if r.Verdict == verify.Intact && r.Events < 1000 {
			t.Errorf("a copy is intact with %d events", r.Events)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", counts)
	want(t, verifyFile(t, path, verify.Options{}), verify.Intact, 0)
}

// appendEvents writes the next n events and the derived values beside them.
func appendEvents(tx *bolt.Tx, l *ledger, n int) error {
	b := tx.Bucket([]byte(chain.BucketEvents))
	b.FillPercent = 1
	for range n {
		e := l.next()
		if err := b.Put(chain.SeqKey(l.frontier.Size()), chain.EncodeEvent(nil, e)); err != nil {
			return err
		}
		state := chain.RunState{RunSeq: 1, First: 1, Last: l.frontier.Size()}
		if err := tx.Bucket([]byte(chain.BucketRuns)).Put([]byte(l.run+"-"), state.Append(nil)); err != nil {
			return err
		}
	}
	head := chain.Head{Seq: l.frontier.Size(), Hash: l.prev, Frontier: l.frontier}
	return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeyHead), head.Append(nil))
}

// hotCopy reads a file as cp does.
func hotCopy(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{&b}, struct{ io.Reader }{f}, make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
