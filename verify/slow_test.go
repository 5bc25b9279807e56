//go:build slow

package verify_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-audit/docket/verify"
)

// TestManyMutations is TestMutations with ten times as many.
func TestManyMutations(t *testing.T) { mutations(t, 20_000) }

// TestLongSweeps changes and cuts an export with every kind of event, and
// receipts, at every byte.
func TestLongSweeps(t *testing.T) {
	flips(t, small(t), 1, 0, 0)
	receiptFlips(t, 1)
	prefixes(t, 1)
}

// TestFlatMemory verifies exports of 100,000 and of 3,000,000 events in a
// process of their own each, and compares their peaks.
func TestFlatMemory(t *testing.T) {
	if path := os.Getenv("DOCKET_FLAT"); path != "" {
		r, err := verify.File(context.Background(), path, verify.Options{Workers: 2})
		if err != nil || r.Verdict != verify.Intact {
			t.Fatal(r, err)
		}
		t.Logf("peak %d KiB", peak(t))
		return
	}
	var peaks []int
	for _, n := range []int{100_000, 3_000_000} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, 30)
		l.steps = 400 // what is kept grows with runs, not with events
		l.writeExport(t, f, n)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestFlatMemory$", "-test.v")
		cmd.Env = append(os.Environ(), "DOCKET_FLAT="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, text, _ := strings.Cut(string(out), "peak ")
		kib, err := strconv.Atoi(strings.Fields(text)[0])
		if err != nil {
			t.Fatal(err)
		}
		peaks = append(peaks, kib)
		t.Logf("%d events: peak %d KiB", n, kib)
		os.Remove(path)
	}
	if peaks[1]-peaks[0] > 16<<10 {
		t.Errorf("the peak grew by %d KiB", peaks[1]-peaks[0])
	}
}

// peak is the largest resident size of this process so far, in KiB.
func peak(t *testing.T) int {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip("this system doesn't say: ", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(text)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
