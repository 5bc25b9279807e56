//go:build fault

// Package fault breaks the storage under the real binaries, and kills them,
// and looks at what is left. It needs strace, and a system that lets it trace;
// where these lack, its tests fail and say so: they are asked for by name
// (make fault), so a skipped one would pass for a check that was made.
package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
)

// bin is the folder of the binaries under test.
var bin string

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need strace 6.1 or later; none was found")
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "docket-fault")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	for _, b := range [][]string{
		{"build", "-tags", "fault", "-o", dir + "/writer", "./writer"},
		{"build", "-trimpath", "-o", dir + "/", "../../cmd/docketd", "../../cmd/docket"},
	} {
		cmd := exec.Command("go", b...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// traced are the system calls that a trace shows.
const traced = "openat,fchmod,pwrite64,write,ftruncate,fallocate,fsync,fdatasync,renameat,renameat2,rename,unlinkat,unlink,mkdirat,flock,exit_group"

// result is what a run of a binary left.
type result struct {
	code  int
	out   string
	trace []string // lines of strace, in order
}

// run runs a binary, under strace with the given options where there are any.
func run(t *testing.T, injects []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args[0] = filepath.Join(bin, args[0])
	log := filepath.Join(t.TempDir(), "trace")
	if injects != nil {
		st := []string{"strace", "-f", "-y", "-s", "64", "-o", log, "-e", "trace=" + traced, "-e", "signal=none"}
		for _, i := range injects {
			st = append(st, "-e", "inject="+i)
		}
		args = append(st, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || ctx.Err() != nil {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	r := result{code: cmd.ProcessState.ExitCode(), out: out.String()}
	if injects != nil {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		r.trace = strings.Split(string(b), "\n")
	}
	return r
}

// injected is the place of the first injected fault in the trace, -1 for none.
func (r result) injected() int {
	for i, line := range r.trace {
		if strings.Contains(line, "(INJECTED)") {
			return i
		}
	}
	return -1
}

var ackLine = regexp.MustCompile(`(?m)^ack (\d+) ([0-9a-f]{64})$`)

// acks are the events that a run said to be durable.
func (r result) acks(t *testing.T) map[uint64]string {
	acks := map[uint64]string{}
	for _, m := range ackLine.FindAllStringSubmatch(r.out, -1) {
		var seq uint64
		if _, err := fmt.Sscan(m[1], &seq); err != nil {
			t.Fatal(err)
		}
		if other, ok := acks[seq]; ok && other != m[2] {
			t.Errorf("number %d was acknowledged twice", seq)
		}
		acks[seq] = m[2]
	}
	return acks
}

// newLedger makes a ledger by the writer.
func newLedger(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if r := run(t, nil, "writer", "init", path); r.code != 0 {
		t.Fatal(r.out)
	}
	return path
}

// judge opens the ledger as the next start does, appends to it, and makes sure
// that all acknowledged events are there and at most extra others. It returns
// whether the file was rewritten.
func judge(t *testing.T, path string, acks map[uint64]string, extra int) (rewritten bool) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), path, store.Options{Verify: storetest.Verify})
	if err != nil {
		t.Error(err)
		return false
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	head := s.Head().Seq
	for seq, hash := range acks {
		events, err := s.Read(seq, 1)
		if err != nil || len(events) != 1 || events[0].Hash.String() != hash {
			t.Errorf("event %d was acknowledged and is not there (head %d): %v", seq, head, err)
		}
	}
	if more := int(head) - 1 - len(acks); more > extra {
		t.Errorf("%d events that nobody was told of, of %d at most", more, extra)
	}
	if _, err := s.Append(t.Context(), store.Draft{Header: chain.Header{Type: "after.fault"}}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	storetest.Check(t, path, verify.Intact)
	return !os.SameFile(before, after)
}

// writes says whether a line of a trace changes the file at path.
func writes(line, path string) bool {
	for _, call := range []string{"pwrite64(", "write(", "ftruncate(", "fallocate(", "fsync(", "fdatasync("} {
		if strings.Contains(line, " "+call) && strings.Contains(line, "<"+path+">") {
			return true
		}
	}
	return false
}
