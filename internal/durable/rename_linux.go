package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames without replacing: the kernel decides in one step, where a
// check of ours followed by a rename would leave a gap.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "renameat2", Old: from, New: to, Err: err}
	}
	return nil
}
