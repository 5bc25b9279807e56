package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// ErrAnswered tells that another process answers at the socket.
var ErrAnswered = errors.New("another process answers there")

// maxSocketPath is how many bytes the systems take for a socket's path: 108
// on Linux and 104 on darwin, with the NUL at the end.
const maxSocketPath = 103

// ListenUnix listens on the socket path, which is for its owner alone from the
// moment it exists. A socket that a dead process left is tried and removed:
// the caller holds the lock of the data folder, so that no other service can
// come in between. Anything else at path stays, and is an error.
func ListenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes and the system takes %d: choose a data folder with a shorter path", path, len(path), maxSocketPath)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); cerr != nil {
			return cerr
		}
		if runtime.GOOS != "linux" {
			return nil // others refuse this on a socket; there the folder's mode 0700 protects it
		}
		return err
	}}
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen on %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("listen on %s: something that is no socket stands there; it was left as it is: move it away", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("listen on %s: %w", path, ErrAnswered)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// ListenTCP listens on addr, a port on 127.0.0.1, [::1] or localhost. An address
// without a host is on 127.0.0.1; port 0 lets the system choose.
func ListenTCP(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: not an address and a port, as in 127.0.0.1:7423", addr)
	}
	if host == "" {
		host = "127.0.0.1"
		addr = host + addr
	}
	const want = "the service is for this machine alone: use 127.0.0.1, [::1] or localhost, as in 127.0.0.1:7423"
	if !ownName(host) {
		return nil, fmt.Errorf("listen on %s: %s", addr, want)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		ln.Close()
		return nil, fmt.Errorf("listen on %s: the name stands for %s here; %s", addr, ln.Addr(), want)
	}
	return ln, nil
}
