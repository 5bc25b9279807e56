package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives blocks to the n bytes of f from off on, without changing what
// they hold or how long the file is.
func allocate(f *os.File, off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errNoAllocate
		}
		return err
	}
}
