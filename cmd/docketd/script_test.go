package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"docketd": main, "hardened": hardened})
}

// TestScripts runs testdata/*.txt, one file a topic, with docketd as a process
// of its own.
func TestScripts(t *testing.T) {
	if files, err := filepath.Glob("testdata/*.txt"); err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DOCKET_DATA", "")
			e.Setenv("XDG_STATE_HOME", "")
			e.Values["seen"] = map[string]string{}
			running := map[string]*process{}
			e.Values["running"] = running
			e.Defer(func() {
				for _, p := range running {
					p.cmd.Process.Kill()
					<-p.done
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "await": cmdAwait, "mode": cmdMode, "call": cmdCall,
			"remember": cmdRemember, "unchanged": cmdUnchanged,
			"serve": cmdServe, "signal": cmdSignal, "ended": cmdEnded,
		},
	})
}

// cmdExits runs a program and asks for its exit code: exits 2 docketd run x.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		got = x.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// process is a docketd that a script started.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan struct{} // closed when it has ended
}

// cmdServe starts docketd run in the background: serve NAME ARGS….
func cmdServe(ts *testscript.TestScript, _ bool, args []string) {
	p := &process{cmd: exec.Command("docketd", append([]string{"run"}, args[1:]...)...), done: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.done)
		p.cmd.Wait()
	}()
	ts.Value("running").(map[string]*process)[args[0]] = p
}

// cmdSignal sends a signal: signal TERM NAME.
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig, ok := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[args[0]]
	p := ts.Value("running").(map[string]*process)[args[1]]
	if !ok || p == nil {
		ts.Fatalf("no signal %s, or no process %s", args[0], args[1])
	}
	ts.Check(p.cmd.Process.Signal(sig))
}

// cmdEnded waits for a process and asks for its exit code, -1 where a signal
// ended it: ended 0 NAME. What it printed is then standard output and error.
func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.Value("running").(map[string]*process)
	p := running[args[1]]
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		ts.Fatalf("%s goes on:\n%s", args[1], p.stderr.String())
	}
	delete(running, args[1])
	ts.Stdout().Write(p.stdout.Bytes())
	ts.Stderr().Write(p.stderr.Bytes())
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// cmdAwait waits until a file exists: ! await waits until it is gone.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := os.Lstat(ts.MkAbs(args[0])); (err == nil) != neg {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("waited for %s in vain", args[0])
}

// cmdMode asks for a file's permissions: mode 0600 FILE….
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, path := range args[1:] {
		info, err := os.Lstat(ts.MkAbs(path))
		ts.Check(err)
		if info.Mode().Perm() != fs.FileMode(want) {
			ts.Fatalf("%s has mode %04o", path, info.Mode().Perm())
		}
	}
}

// cmdCall sends a request to a socket: call SOCKET METHOD PATH [JSON]. What is
// answered is on standard output, the status first.
func cmdCall(ts *testscript.TestScript, _ bool, args []string) {
	socket, body := ts.MkAbs(args[0]), ""
	if len(args) > 3 {
		body = args[3]
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequest(args[1], "http://docket"+args[2], strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s", resp.StatusCode, b)
}

// cmdRemember and cmdUnchanged hold a folder against what it was: names,
// modes and every byte.
func cmdRemember(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value("seen").(map[string]string)[args[0]] = fingerprint(ts, args[0])
}

func cmdUnchanged(ts *testscript.TestScript, _ bool, args []string) {
	was, ok := ts.Value("seen").(map[string]string)[args[0]]
	if now := fingerprint(ts, args[0]); !ok || now != was {
		ts.Fatalf("%s was\n%s\nand is\n%s", args[0], was, now)
	}
}

func fingerprint(ts *testscript.TestScript, dir string) string {
	var b bytes.Buffer
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "docketd.lock" { // names the last process that tried
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(&b, "%s %s %x\n", strings.TrimPrefix(path, root), info.Mode(), sha256.Sum256(data))
		return err
	}))
	return b.String()
}
