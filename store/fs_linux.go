package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unreliableFS names the file system of f where its locks or syncs are not
// those of a local disk, else "".
func unreliableFS(f *os.File) (string, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("statfs %s: %w", f.Name(), err)
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS", nil
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB", nil
	case unix.V9FS_MAGIC:
		return "9p", nil
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE", nil
	}
	return "", nil
}
