package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unreliableFS names the file system of f where it is not one of a local disk,
// else "".
func unreliableFS(f *os.File) (string, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("statfs %s: %w", f.Name(), err)
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return unix.ByteSliceToString(st.Fstypename[:]), nil
	}
	return "", nil
}
