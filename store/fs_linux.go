package store

import "golang.org/x/sys/unix"

// unreliableFS names the file system of path where its locks or syncs are not
// those of a local disk, else "".
func unreliableFS(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	}
	return ""
}
