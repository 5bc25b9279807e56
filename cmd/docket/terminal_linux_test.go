package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal and collects what is written to it.
func openTerminal(t *testing.T) (tty *os.File, shown func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(&b, control) // ends with an error when the other side closes
	}()
	return tty, func() string {
		tty.Close()
		<-done
		control.Close()
		return b.String()
	}
}

// TestExitOnTerminal: the exit code and the verdict are the same on a terminal
// as into a pipe, for one case of each exit code, and no escape sequence is
// sent.
func TestExitOnTerminal(t *testing.T) {
	all := loadVectors(t)
	t.Chdir(vectors)
	seen := map[string]bool{}
	for name, v := range all {
		if seen[v.Verdict] {
			continue
		}
		seen[v.Verdict] = true
		tty, shown := openTerminal(t)
		args := append([]string{"verify", name + ".jsonl"}, v.Args...)
		exit := execute(args, strings.NewReader(""), tty, tty)
		if out := shown(); exit != v.Exit || !strings.HasPrefix(out, v.Verdict) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit code %d, want %d: %q", name, exit, v.Exit, out)
		}
	}
	if len(seen) < 12 {
		t.Errorf("%d verdicts", len(seen))
	}
	for want, args := range map[int][]string{1: {"verify", "missing.jsonl"}, 2: {"verify"}} {
		tty, shown := openTerminal(t)
		exit := execute(args, strings.NewReader(""), tty, tty)
		if out := shown(); exit != want || !strings.HasPrefix(out, "docket: ") {
			t.Errorf("%v: exit code %d: %q", args, exit, out)
		}
	}
}
