package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-audit/docket/engine"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"docket": main})
}

// buildService builds docketd, so that scripts meet the real one, by its
// absolute path.
func buildService(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docketd")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/docket-audit/docket/cmd/docketd").CombinedOutput(); err != nil {
		t.Fatalf("build docketd: %v\n%s", err, out)
	}
	return path
}

// TestScripts runs testdata/*.txt, one file a topic.
func TestScripts(t *testing.T) {
	if files, err := filepath.Glob("testdata/*.txt"); err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	service := buildService(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DOCKET_DATA", filepath.Join(e.WorkDir, "d"))
			e.Setenv("DOCKETD", service)
			e.Setenv("XDG_STATE_HOME", "")
			e.Values["seen"] = map[string]string{}
			e.Values["service"] = &running{}
			e.Defer(func() { e.Values["service"].(*running).kill() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "start": cmdStart, "halt": cmdHalt, "calls": cmdCalls,
			"remember": cmdRemember, "unchanged": cmdUnchanged, "isjson": cmdIsJSON,
			"flip": cmdFlip, "cut": cmdCut, "rollback": cmdRollback,
		},
	})
}

// cmdExits runs a program and asks for its exit code: exits 2 docket log x.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
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

// running is the docketd of one script.
type running struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
}

func (r *running) kill() {
	if r.cmd != nil {
		r.cmd.Process.Kill()
		<-r.done
		r.cmd = nil
	}
}

// cmdStart serves the folder d, with a fresh ledger where there is none.
func cmdStart(ts *testscript.TestScript, _ bool, _ []string) {
	r := ts.Value("service").(*running)
	r.cmd = exec.Command(ts.Getenv("DOCKETD"), "run", "--init", "--listen", ":0", "--data", ts.MkAbs("d"))
	r.stderr.Reset()
	r.cmd.Stderr = &r.stderr
	r.done = make(chan struct{})
	ts.Check(r.cmd.Start())
	go func() {
		defer close(r.done)
		r.cmd.Wait()
	}()
	for range 4000 {
		if _, err := os.Stat(ts.MkAbs("d/address")); err == nil {
			return
		}
		select {
		case <-r.done:
			ts.Fatalf("docketd ended: %s", r.stderr.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	ts.Fatalf("docketd does not start: %s", r.stderr.String())
}

// cmdHalt ends it, cleanly.
func cmdHalt(ts *testscript.TestScript, _ bool, _ []string) {
	r := ts.Value("service").(*running)
	ts.Check(r.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-r.done:
	case <-time.After(40 * time.Second):
		ts.Fatalf("docketd goes on: %s", r.stderr.String())
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("docketd ended with %d: %s", code, r.stderr.String())
	}
	r.cmd = nil
}

// cmdCalls records four calls of two runs into d/ledger.db: one priced, one
// priced by estimate, one unpriced, one that failed.
func cmdCalls(ts *testscript.TestScript, _ bool, _ []string) {
	ctx := context.Background()
	path := ts.MkAbs("d/ledger.db")
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	_, err := engine.Init(ctx, path, engine.InitOptions{CreatedBy: "test"})
	ts.Check(err)
	e, err := engine.Open(ctx, engine.Options{Path: path, Version: "test", PriceFiles: []string{ts.MkAbs("prices.toml")}})
	ts.Check(err)
	call := func(run, model, source string, usage map[string]uint64) {
		c, err := e.Begin(ctx, engine.CallSpec{
			Run: run, Upstream: "up", Provider: "up", Method: "POST", Path: "/v1/chat/completions", Model: model,
			Request: engine.NewPartOf("request", "application/json", []byte("{}")),
		})
		ts.Check(err)
		if usage == nil {
			_, err = c.Fail(engine.FailedConnect, time.Millisecond)
			ts.Check(err)
			return
		}
		_, err = c.Respond(engine.Response{
			HTTPStatus: 200, Ended: engine.EndedComplete, Body: engine.NewPartOf("response", "application/json", []byte("{}")),
			Reading: engine.Reading{Model: model, RequestedModel: model, Usage: usage, Source: source, Prompt: usage["input"]},
		})
		ts.Check(err)
	}
	for _, run := range []string{"r1", "r2"} {
		_, _, err = e.OpenRun(ctx, engine.RunSpec{ID: run})
		ts.Check(err)
	}
	call("r1", "small", "reported", map[string]uint64{"input": 1_000_003, "output": 7})
	call("r1", "unheard-of", "reported", map[string]uint64{"input": 5})
	call("r2", "small", "estimated", map[string]uint64{"input": 1, "output": 1})
	call("r2", "small", "", nil)
	ts.Check(e.Close(ctx))
}

// cmdRemember and cmdUnchanged hold a file or a folder against what it was.
func cmdRemember(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value("seen").(map[string]string)[args[0]] = fingerprint(ts, args[0])
}

func cmdUnchanged(ts *testscript.TestScript, _ bool, args []string) {
	was, ok := ts.Value("seen").(map[string]string)[args[0]]
	if now := fingerprint(ts, args[0]); !ok || now != was {
		ts.Fatalf("%s was\n%s\nand is\n%s", args[0], was, now)
	}
}

func fingerprint(ts *testscript.TestScript, name string) string {
	var b bytes.Buffer
	root := ts.MkAbs(name)
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
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

// cmdIsJSON asks that each line of stdout or stderr is one JSON object: isjson
// stderr.
func cmdIsJSON(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if text == "" {
		ts.Fatalf("%s is empty", args[0])
	}
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("%v in %q", err, line)
		}
	}
}

// cmdFlip replaces a text of a file by another of the same length, wherever it
// stands: a database keeps old pages. flip FILE OLD NEW.
func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(b, []byte(args[1])) || len(args[1]) != len(args[2]) {
		ts.Fatalf("no %q in %s", args[1], args[0])
	}
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(b, []byte(args[1]), []byte(args[2])), 0o600))
}

// cmdCut leaves the first bytes of a file, or all but the last: cut FILE 40000,
// cut FILE -1.
func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	if n < 0 {
		n += info.Size()
	}
	if n >= info.Size() {
		ts.Fatalf("%s has %d bytes", args[0], info.Size())
	}
	ts.Check(os.Truncate(path, n))
}

// cmdRollback spoils the newer meta page of a ledger file, so that it shows the
// state of one commit ago: rollback FILE.
func cmdRollback(ts *testscript.TestScript, _ bool, args []string) {
	const pageSize, txid, checksum = 16 << 10, 16 + 48, 16 + 56
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	newer := 0
	if binary.LittleEndian.Uint64(b[pageSize+txid:]) > binary.LittleEndian.Uint64(b[txid:]) {
		newer = pageSize
	}
	b[newer+checksum]++
	ts.Check(os.WriteFile(path, b, 0o600))
}
