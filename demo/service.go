package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// How long docketd may take.
const (
	startLimit = 20 * time.Second
	stopLimit  = 40 * time.Second // it gives calls in flight 30 s
)

// service is a docketd that runs as a child.
type service struct {
	dir    string // its data folder
	listen string // what it said on its first line
	cmd    *exec.Cmd
	exited chan error
}

// startService starts docketd on a free port and returns once it serves. What
// it logs goes to the file logPath.
func startService(docketd, dir, logPath string) (*service, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make log of docketd: %w", err)
	}
	defer log.Close() // the child has its own
	s := &service{dir: dir, exited: make(chan error, 1)}
	s.cmd = exec.Command(docketd, "run", "--init", "--data", dir, "--listen", "127.0.0.1:0")
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start docketd: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start docketd: %w", err)
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n')
		first <- line
		_, err := io.Copy(io.Discard, lines)
		s.exited <- errors.Join(err, s.cmd.Wait())
	}()
	select {
	case line := <-first:
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening "); ok {
			s.listen = url
			return s, nil
		}
		err = errors.Join(fmt.Errorf("docketd said %q, not where it listens", line), <-s.exited)
	case <-time.After(startLimit):
		err = errors.Join(fmt.Errorf("docketd did not listen within %v", startLimit), s.cmd.Process.Kill(), <-s.exited)
	}
	tail, readErr := os.ReadFile(logPath)
	return nil, errors.Join(fmt.Errorf("start docketd: %w\nits log:\n%s", err, tail), readErr)
}

// stop ends docketd as an operator would, and expects a clean end.
func (s *service) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop docketd: %w", err)
	}
	select {
	case err := <-s.exited:
		if err != nil {
			return fmt.Errorf("stop docketd: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("docketd did not stop within %v", stopLimit), s.cmd.Process.Kill(), <-s.exited)
	}
}

// post sends v to the API on the service's socket, and reads the answer.
func (s *service) post(ctx context.Context, path string, v, answer any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("post %s: %w", path, err)
		}
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(s.dir, "docketd.sock"))
	}
	t := &http.Transport{DialContext: dial}
	defer t.CloseIdleConnections()
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docketd"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, b)
	}
	return json.Unmarshal(b, answer)
}

// run is what the service answers when a run is opened.
type run struct {
	ID       string            `json:"run"`
	Token    string            `json:"token"`
	BaseURLs map[string]string `json:"base_urls"`
}

func (s *service) openRun(ctx context.Context, name string) (r run, err error) {
	err = s.post(ctx, "/v1/runs", map[string]any{"name": name}, &r)
	return r, err
}

func (s *service) closeRun(ctx context.Context, id string) error {
	var closed struct {
		OpenCalls int `json:"open_calls"`
	}
	err := s.post(ctx, "/v1/runs/"+id+"/close", map[string]any{"reason": "the agents are done", "exit_code": 0}, &closed)
	if err == nil && closed.OpenCalls != 0 {
		err = fmt.Errorf("close run: %d calls are still open", closed.OpenCalls)
	}
	return err
}

// command is the docket command line.
type command struct {
	docket string // the program
	dir    string // data folder
}

// ran is what a command left.
type ran struct {
	stdout, stderr []byte
	code           int
}

func (c command) run(ctx context.Context, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, c.docket, append(args, "--data", c.dir)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return ran{out.Bytes(), errs.Bytes(), exit.ExitCode()}, nil
	}
	if err != nil {
		return ran{}, fmt.Errorf("docket %s: %w", args[0], err)
	}
	return ran{out.Bytes(), errs.Bytes(), 0}, nil
}

// must runs a command that has to succeed.
func (c command) must(ctx context.Context, args ...string) ([]byte, error) {
	r, err := c.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	if r.code != 0 {
		return nil, fmt.Errorf("docket %s: exit code %d: %s", strings.Join(args, " "), r.code, bytes.TrimSpace(append(r.stderr, r.stdout...)))
	}
	return r.stdout, nil
}
