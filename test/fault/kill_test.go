//go:build fault

package fault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
)

// A killed writer leaves an intact ledger with every acknowledged event, each
// time, and the next one goes on without a rewrite.
func TestKill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	path := newLedger(t)
	acks := map[uint64]string{}
	for i := range 25 {
		cmd := exec.Command(filepath.Join(bin, "writer"), "append", path, "1000000", "16", fmt.Sprint(random.IntN(3000)))
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(120))*time.Millisecond, func() { cmd.Process.Kill() })
		_ = cmd.Wait() // killed
		timer.Stop()
		if code := cmd.ProcessState.ExitCode(); code != -1 {
			t.Fatalf("round %d: exit code %d: %s", i, code, out.String())
		}
		maps.Copy(acks, result{out: out.String()}.acks(t))
		r := storetest.Check(t, path, verify.Intact)
		if t.Failed() {
			t.Fatalf("round %d: %+v", i, r)
		}
	}
	t.Logf("%d acknowledged events", len(acks))
	if len(acks) == 0 {
		t.Error("nothing was acknowledged")
	}
	if judge(t, path, acks, 25*16) {
		t.Error("rewritten after a mere kill")
	}
}

// killAt kills the writer at every system call of a kind, one after the other,
// until a run gets through; after each it calls check.
func killAt(t *testing.T, calls []string, prepare func() []string, check func(r result)) {
	t.Helper()
	for _, call := range calls {
		for n := 1; ; n++ {
			args := append([]string{"writer"}, prepare()...)
			r := run(t, []string{fmt.Sprintf("%s:signal=KILL:when=%d", call, n)}, args...)
			check(r)
			if t.Failed() {
				t.Fatalf("killed at %s %d: %s", call, n, r.out)
			}
			if r.code == 0 {
				break
			}
			if n > 200 {
				t.Fatal("no end")
			}
		}
	}
}

// init killed at any point leaves no ledger or a whole one.
func TestKillInit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	whole, none := 0, 0
	killAt(t, []string{"openat", "fchmod", "pwrite64", "fdatasync", "ftruncate", "fsync", "renameat2"}, func() []string {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return []string{"init", path}
	}, func(result) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			none++
			return
		}
		whole++
		storetest.Check(t, path, verify.Intact)
	})
	if none == 0 || whole == 0 {
		t.Errorf("%d times no ledger, %d times a whole one", none, whole)
	}
}

// A rewrite killed at any point leaves the old file or the new one, with the
// same events, and the next start finishes it.
func TestKillRewrite(t *testing.T) {
	path := newLedger(t)
	r := run(t, nil, "writer", "append", path, "50", "4", "500")
	if r.code != 0 {
		t.Fatal(r.out)
	}
	acks := r.acks(t)
	total := 51
	killAt(t, []string{"openat", "pwrite64", "fsync", "flock", "renameat", "unlinkat", "write"}, func() []string {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "dirty"), []byte("not a marker"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"append", path, "1", "1", "10"}
	}, func(r result) {
		maps.Copy(acks, r.acks(t))
		report := storetest.Check(t, path, verify.Intact)
		if got := int(report.Events); got < total || got > total+1 {
			t.Errorf("%d events after %d", got, total)
		}
		total = int(report.Events)
	})
	judge(t, path, acks, total)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// Many start at once on a file that has to be rewritten: the inode changes
// under those who wait, and still there is one writer at a time.
func TestStartersDuringRewrite(t *testing.T) {
	path := newLedger(t)
	acks := map[uint64]string{}
	for round := range 10 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "dirty"), []byte("not a marker"), 0o600); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for range 8 {
			wg.Go(func() {
				cmd := exec.Command(filepath.Join(bin, "writer"), "append", path, "20", "2", "100")
				out, err := cmd.Output()
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !strings.Contains(string(out), store.ErrInUse.Error()) {
					t.Errorf("%v: %s", err, out)
				}
				for seq, hash := range (result{out: string(out)}).acks(t) {
					if _, ok := acks[seq]; ok {
						t.Errorf("number %d was given out twice", seq)
					}
					acks[seq] = hash
				}
			})
		}
		wg.Wait()
		if won == 0 {
			t.Errorf("round %d: nobody got the ledger", round)
		}
		storetest.Check(t, path, verify.Intact)
	}
	judge(t, path, acks, 0)
}
