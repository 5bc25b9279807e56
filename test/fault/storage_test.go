//go:build fault

package fault

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
)

// A storage error at any point of a commit: no write to the ledger after it,
// the second append refused, exit code 74, the file rewritten at the next
// start, no acknowledged event lost, and the group in flight whole or absent.
func TestStorageError(t *testing.T) {
	const workers = 4
	cases := map[string]string{}
	for n := 1; n <= 8; n++ { // odd: the data; even: the meta page
		cases[fmt.Sprintf("fdatasync %d", n)] = fmt.Sprintf("fdatasync:error=EIO:when=%d", n)
	}
	for _, e := range []string{"EIO", "ENOSPC", "EDQUOT", "EFBIG", "EROFS"} {
		for _, n := range []int{1, 4, 9} {
			cases[fmt.Sprintf("pwrite64 %s %d", e, n)] = fmt.Sprintf("pwrite64:error=%s:when=%d", e, n)
		}
	}
	for name, inject := range cases {
		t.Run(name, func(t *testing.T) {
			path := newLedger(t)
			r := run(t, []string{inject}, "writer", "append", path, "2000", fmt.Sprint(workers), "300")
			latched(t, r, path)
			if strings.Contains(name, "ENOSPC") && !strings.Contains(r.out, "bytes free") {
				t.Errorf("the message names no free bytes: %s", r.out)
			}
			if !judge(t, path, r.acks(t), workers) {
				t.Error("not rewritten")
			}
		})
	}
}

// latched makes sure of what follows a storage error within the process.
func latched(t *testing.T, r result, path string) {
	t.Helper()
	at := r.injected()
	if at < 0 {
		t.Fatalf("the fault did not fire: %s", r.out)
	}
	if r.code != 74 {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	if !strings.Contains(r.out, "second: storage failed and the ledger is latched") {
		t.Errorf("the second append: %s", r.out)
	}
	if !strings.Contains(r.out, "unknown=true") {
		t.Errorf("nobody was told that the outcome is unknown: %s", r.out)
	}
	for _, line := range r.trace[at+1:] {
		if writes(line, path) {
			t.Errorf("after the first error: %s", line)
		}
	}
}

// Growing the file takes a truncate and a sync more, which can fail as well.
func TestStorageErrorWhileGrowing(t *testing.T) {
	for _, inject := range []string{"ftruncate:error=EIO:when=1", "ftruncate:error=ENOSPC:when=1", "fsync:error=EIO:when=1"} {
		t.Run(inject, func(t *testing.T) {
			path := newLedger(t)
			r := run(t, []string{inject}, "writer", "append", path, "60", "1", "1000000")
			if strings.HasPrefix(inject, "fsync") {
				// The first fsync of the process is that of the marker: the
				// start fails, and nothing was written to the ledger.
				if r.injected() < 0 || r.code != 1 || !strings.Contains(r.out, "set marker") {
					t.Errorf("exit code %d: %s", r.code, r.out)
				}
				judge(t, path, nil, 0)
				return
			}
			latched(t, r, path)
			judge(t, path, r.acks(t), 1)
		})
	}
}

// A storage that claims a write which it did not make is noticed before the
// event is acknowledged, or does no harm. Where it lost what had been
// acknowledged before, the next start says so and takes nothing up: an older
// state that looks whole would be another history.
func TestStorageLies(t *testing.T) {
	caught := 0
	for n := 1; n <= 24; n++ {
		t.Run(fmt.Sprint("write ", n), func(t *testing.T) {
			path := newLedger(t)
			r := run(t, []string{fmt.Sprintf("pwrite64:retval=16384:when=%d", n)}, "writer", "append", path, "40", "1", "300")
			if r.injected() < 0 {
				t.Fatal("the fault did not fire")
			}
			if r.code == 74 {
				caught++
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(t.Context(), path, store.Options{Verify: storetest.Verify})
			if err != nil {
				t.Logf("exit code %d; refused: %v", r.code, err)
				after, readErr := os.ReadFile(path)
				if r.code != 74 || readErr != nil || !bytes.Equal(before, after) {
					t.Errorf("exit code %d; a refused start changed the file: %v", r.code, readErr)
				}
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			judge(t, path, r.acks(t), 1)
		})
	}
	if caught == 0 {
		t.Error("no lie was noticed")
	}
}

// Before each acknowledgement the data is synced, then the meta page is
// written, then it is synced.
func TestSyncsBeforeAcknowledgement(t *testing.T) {
	path := newLedger(t)
	r := run(t, []string{"mkdirat:error=EIO:when=1000"}, "writer", "append", path, "20", "1", "300")
	if r.code != 0 {
		t.Fatal(r.out)
	}
	var order string
	acks := 0
	for _, line := range r.trace {
		switch {
		case strings.Contains(line, "pwrite64(") && strings.Contains(line, path+">"):
			if strings.Contains(line, ", 16384, 0)") || strings.Contains(line, ", 16384, 16384)") {
				order += "M"
			} else if !strings.HasSuffix(order, "D") {
				order += "D"
			}
		case strings.Contains(line, "fdatasync(") && strings.Contains(line, path+">") && strings.Contains(line, "= 0"):
			order += "s"
		case strings.Contains(line, `write(1`) && strings.Contains(line, `"ack `):
			if order != "DsMs" {
				t.Errorf("before acknowledgement %d: %s", acks+1, order)
			}
			order = ""
			acks++
		}
	}
	if acks != 20 {
		t.Errorf("%d acknowledgements in the trace", acks)
	}
}

// The functions of package durable make the calls that stand above them.
func TestTraces(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		call, path string
		want       []string
	}{
		{"create", dir + "/a", []string{"openat .a.", "fchmod 0640", "write", "fsync .a.", "renameat2 RENAME_NOREPLACE", "openat dir", "fsync dir"}},
		{"replace", dir + "/a", []string{"openat .a.", "fchmod 0640", "write", "fsync .a.", "renameat", "openat dir", "fsync dir"}},
		{"syncdir", dir, []string{"openat dir", "fsync dir"}},
		{"mkdirall", dir + "/x/y", []string{"mkdirat", "openat dir", "fsync dir", "mkdirat", "openat dir/x", "fsync dir/x"}},
		{"remove", dir + "/a", []string{"unlinkat", "openat dir", "fsync dir"}},
		{"remove", dir + "/a", []string{"unlinkat", "openat dir", "fsync dir"}},
	} {
		r := run(t, []string{"flock:error=EIO:when=1000"}, "writer", "durable", c.call, c.path)
		if r.code != 0 {
			t.Fatal(r.out)
		}
		var got []string
		for _, line := range r.trace {
			if w := durableCall(line, dir); w != "" {
				got = append(got, w)
			}
		}
		if strings.Join(got, "; ") != strings.Join(c.want, "; ") {
			t.Errorf("%s %s:\n got %q\nwant %q", c.call, c.path, got, c.want)
		}
	}
}

// durableCall is the short form of a line of the trace that is about dir.
func durableCall(line, dir string) string {
	if !strings.Contains(line, dir) {
		return ""
	}
	_, call, _ := strings.Cut(line, " ")
	name, args, ok := strings.Cut(strings.TrimSpace(call), "(")
	if !ok {
		return ""
	}
	where := func() string {
		switch {
		case strings.Contains(args, "/.a."):
			return " .a."
		case strings.Contains(args, dir+`/x"`), strings.Contains(args, dir+"/x>"):
			return " dir/x"
		}
		return " dir"
	}
	switch name {
	case "openat", "fsync":
		return name + where()
	case "fchmod":
		return name + " " + strings.TrimSuffix(strings.Fields(strings.SplitN(args, ", ", 2)[1])[0], ")")
	case "renameat2":
		if strings.Contains(args, "RENAME_NOREPLACE") {
			return name + " RENAME_NOREPLACE"
		}
	case "unlinkat", "mkdirat", "write", "renameat", "fdatasync", "ftruncate":
		return name
	}
	return name
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
