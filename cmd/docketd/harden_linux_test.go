package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// hardened is a process of its own, since what harden does can't be undone. It
// prints the core limit and whether it is dumpable, before and after.
func hardened() {
	var limit syscall.Rlimit
	show := func() {
		if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &limit); err != nil {
			fmt.Println(err)
		}
		dumpable, _, errno := syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_GET_DUMPABLE, 0, 0)
		fmt.Println(limit.Cur == 0 && limit.Max == 0, dumpable, errno == 0)
	}
	show()
	if err := harden(); err != nil {
		fmt.Println(err)
	}
	show()
	os.Exit(0)
}

// TestHarden: keys that pass through memory reach no core file and no debugger.
func TestHarden(t *testing.T) {
	out, err := exec.Command("hardened").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "false 1 true\ntrue 0 true\n" && string(out) != "true 1 true\ntrue 0 true\n" {
		t.Errorf("core limit 0, dumpable: %q", out)
	}
}
