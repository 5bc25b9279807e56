//go:build unix

package verify

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockShared takes the lock that a reader of the database takes, without
// waiting. The service holds the writer's lock for life, so a file that it has
// open is never judged while it moves.
func lockShared(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("another process has the file open for writing%s; take a copy by docket snapshot: %w", holder(f), ErrInUse)
	}
	if err != nil && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENOLCK) {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}
