//go:build unix && !linux

package main

import (
	"fmt"
	"syscall"
)

// harden keeps this process's memory, where keys pass through, out of core
// dumps.
func harden() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("set the core limit to 0: %w", err)
	}
	return nil
}
