//go:build fault

package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
)

// smallDisk mounts a disk of the given size and returns its folder. Where the
// system doesn't permit that, the test says so and ends.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Geteuid() == 0 {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Skipf("NOT CHECKED: mounting a small disk takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a disk that fills up, ordinary events are refused with nothing latched,
// those that end what has begun are kept, and the file is intact.
func TestSmallDisk(t *testing.T) {
	dir := smallDisk(t, "600k")
	path := filepath.Join(dir, "ledger.db")
	if r := run(t, nil, "writer", "init", path); r.code != 0 {
		t.Fatal(r.out)
	}
	r := run(t, nil, "writer", "full", path)
	if r.code != 0 || !strings.Contains(r.out, "full: ") || strings.Count(r.out, "closing") != 5 {
		t.Fatalf("exit code %d: %s", r.code, r.out)
	}
	if !strings.Contains(r.out, path) || !strings.Contains(r.out, "bytes free") {
		t.Errorf("the message lacks path or free bytes: %s", r.out)
	}
	acks := r.acks(t)
	t.Logf("%d events on the disk", len(acks))
	storetest.Check(t, path, verify.Intact)

	// Full as it is, it doesn't open for writing.
	if r := run(t, nil, "writer", "full", path); r.code != 1 || !strings.Contains(r.out, "not enough room") {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	// Nor is there room for a rewrite, and the bytes are named.
	marker := filepath.Join(dir, "dirty")
	if err := os.WriteFile(marker, []byte("not a marker"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := run(t, nil, "writer", "append", path, "1", "1", "1"); r.code != 1 || !strings.Contains(r.out, "has to be rewritten, which takes") {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("a refused rewrite changed the file: %v", err)
	}
	storetest.Check(t, path, verify.Intact)

	// With more room it goes on.
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if !judge(t, path, acks, 0) {
		t.Error("not rewritten")
	}
}

// A disk of nothing gives no ledger, and no rest of one.
func TestTinyDisk(t *testing.T) {
	dir := smallDisk(t, "48k")
	r := run(t, nil, "writer", "init", filepath.Join(dir, "ledger.db"))
	if r.code != 1 || !strings.Contains(r.out, "no space left") {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// A limit on the size of files is like a full disk.
func TestFileSizeLimit(t *testing.T) {
	path := newLedger(t)
	// In blocks of 512 bytes: 17 MiB, a little more than a new ledger.
	cmd := exec.Command("sh", "-c", `ulimit -f 34816; exec "$0" append "$1" 100 1 1000000`, filepath.Join(bin, "writer"), path)
	out, err := cmd.CombinedOutput()
	t.Logf("%v: %s", err, lastLine(string(out)))
	r := result{code: cmd.ProcessState.ExitCode(), out: string(out)}
	if r.code != 1 && r.code != 74 {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	judge(t, path, r.acks(t), 1)
}
