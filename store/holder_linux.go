package store

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockHolder is the process that took the lock of f, by the system's list of
// locks; 0 where it doesn't say.
func lockHolder(f *os.File) int {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	inode := fmt.Sprintf(":%d", st.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK ADVISORY WRITE 1234 fe:00:5678 0 EOF
		w := strings.Fields(lines.Text())
		if len(w) < 6 || w[1] != "FLOCK" || !strings.HasSuffix(w[5], inode) {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
