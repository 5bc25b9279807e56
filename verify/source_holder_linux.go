package verify

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// holder names the process that has f locked, for a message; "" where the
// system doesn't say.
func holder(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer list.Close()
	inode := fmt.Sprintf(":%d", st.Ino)
	for s := bufio.NewScanner(list); s.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF
		fields := strings.Fields(s.Text())
		if len(fields) > 5 && fields[1] == "FLOCK" && strings.HasSuffix(fields[5], inode) {
			return " (process " + fields[4] + ")"
		}
	}
	return ""
}
