package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames without replacing, in one step of the kernel.
func renameNew(from, to string) error {
	if err := unix.RenamexNp(from, to, unix.RENAME_EXCL); err != nil {
		return &os.LinkError{Op: "renamex_np", Old: from, New: to, Err: err}
	}
	return nil
}
