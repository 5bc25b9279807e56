package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pretend answers GET /v1/head, and any other request with these bytes, after
// which it closes the connection, or holds it until the test ends.
func pretend(t *testing.T, answer string, hold bool) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	done := make(chan struct{})
	serve := func(c net.Conn) {
		defer c.Close()
		for {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			if r.URL.Path == "/v1/head" {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n{\"ledger\":\"l\",\"seq\":9,\"hash\":\"\",\"root\":\"\"}\n")
				continue
			}
			io.WriteString(c, answer)
			if hold {
				<-over
			}
			return
		}
	}
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	t.Cleanup(func() {
		close(over)
		ln.Close()
		<-done
	})
	return socket
}

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// TestBrokenStreams: a service that fails midway leaves no file, whole or part,
// and the command fails.
func TestBrokenStreams(t *testing.T) {
	for name, x := range map[string]struct {
		answer, message string
		args            []string
	}{
		"export cut":             {chunkedHead + chunk("{}\n{"), "connection broken", []string{"export", "-o", "out"}},
		"export cut, compressed": {chunkedHead + chunk("{}\n{"), "connection broken", []string{"export", "-o", "out.zst"}},
		"export without trailer": {chunkedHead + chunk("{}\n") + "0\r\n\r\n", "without its trailer", []string{"export", "-o", "out"}},
		"export cut, to stdout":  {chunkedHead + chunk("{}\n{"), "connection broken", []string{"export"}},
		"log cut":                {chunkedHead + chunk("{"), "connection broken", []string{"log"}},
		"log of something else":  {chunkedHead + chunk("{}\n") + "0\r\n\r\n", "no event", []string{"log"}},
		"snapshot cut":           {"HTTP/1.1 200 OK\r\nDocket-Seq: 9\r\nContent-Length: 100\r\n\r\nshort", "connection broken", []string{"snapshot", "out"}},
		"snapshot of no length":  {"HTTP/1.1 200 OK\r\nDocket-Seq: 9\r\n\r\nshort", "is not stated", []string{"snapshot", "out"}},
		"snapshot of no ledger":  {"HTTP/1.1 200 OK\r\nDocket-Seq: 9\r\nContent-Length: 5\r\n\r\nshort", "verified and not kept", []string{"snapshot", "out"}},
		"append unanswered":      {"", "connection broken", []string{"append", "--type", "tool.call"}},
		"append outcome unknown": {"HTTP/1.1 504 Timeout\r\nContent-Length: 66\r\n\r\n" + `{"error":{"code":"outcome-unknown","message":"unknown","hint":""}}`, "may have been recorded", []string{"append", "--type", "tool.call"}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := pretend(t, x.answer, false)
			t.Chdir(t.TempDir())
			var stdout, stderr bytes.Buffer
			if exit := execute(append(x.args, "--socket", socket), strings.NewReader(""), &stdout, &stderr); exit != 1 || !strings.Contains(stderr.String(), x.message) {
				t.Errorf("exit code %d: %s", exit, stderr.String())
			}
			nothingHere(t)
		})
	}
}

func nothingHere(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s is left", e.Name())
	}
}

// TestInterrupt: Ctrl-C in the middle of a file leaves no part of it.
func TestInterrupt(t *testing.T) {
	for name, x := range map[string]struct {
		answer string
		args   []string
	}{
		"export":   {chunkedHead + chunk("{}\n"), []string{"export", "-o", "out"}},
		"snapshot": {"HTTP/1.1 200 OK\r\nDocket-Seq: 9\r\nContent-Length: 100\r\n\r\nshort", []string{"snapshot", "out"}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := pretend(t, x.answer, true)
			t.Chdir(t.TempDir())
			cmd := exec.Command("docket", append(x.args, "--socket", socket)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(20 * time.Second)
			for {
				if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("no file was begun: %s", stderr.String())
				}
				time.Sleep(5 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			nothingHere(t)
		})
	}
}
