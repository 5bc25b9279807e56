package api_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docket-audit/docket/internal/api"
)

// TestSocketMode looks at the socket from the moment it exists, under a umask
// that opens everything.
func TestSocketMode(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems don't take a mode before bind: there the folder protects the socket")
	}
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	var stop atomic.Bool
	seen := make(chan map[fs.FileMode]int)
	go func() {
		modes := map[fs.FileMode]int{}
		for !stop.Load() {
			if info, err := os.Lstat(path); err == nil {
				modes[info.Mode().Perm()]++
			}
		}
		seen <- modes
	}()
	for range 300 {
		ln, err := api.ListenUnix(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := mode(t, path); m.Perm() != 0o600 || m.Type() != fs.ModeSocket {
			t.Errorf("mode %v", m)
		}
		ln.Close()
	}
	stop.Store(true)
	modes := <-seen
	if len(modes) != 1 || modes[0o600] == 0 {
		t.Errorf("modes seen: %v", modes)
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.ListenUnix(path); !errors.Is(err, api.ErrAnswered) {
		t.Errorf("a socket that is answered: %v", err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	again, err := api.ListenUnix(path)
	if err != nil {
		t.Fatalf("a socket that nobody answers: %v", err)
	}
	again.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ListenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file was touched: %q %v", b, err)
	}
	if _, err := api.ListenUnix(filepath.Join(t.TempDir(), strings.Repeat("x", 100))); err == nil || !strings.Contains(err.Error(), "shorter path") {
		t.Errorf("a long path: %v", err)
	}
}

func TestListenTCP(t *testing.T) {
	for _, addr := range []string{":0", "127.0.0.1:0", "localhost:0"} {
		ln, err := api.ListenTCP(addr)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		if a := ln.Addr().(*net.TCPAddr); !a.IP.IsLoopback() || a.Port == 0 {
			t.Errorf("%s: %v", addr, a)
		}
		ln.Close()
	}
	for _, addr := range []string{"", "127.0.0.1", "0.0.0.0:0", "[::]:0", "127.0.0.2:0", "example.org:0", "192.168.0.1:0", "x:y:z", "127.0.0.1:http5"} {
		if ln, err := api.ListenTCP(addr); err == nil {
			ln.Close()
			t.Errorf("%q was taken", addr)
		}
	}
}
