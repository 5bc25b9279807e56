package main

import (
	"fmt"
	"syscall"
)

// harden keeps this process's memory, where keys pass through, out of core
// dumps and away from other processes of the same user.
func harden() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("set the core limit to 0: %w", err)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("make the process not dumpable: %w", errno)
	}
	return nil
}
