package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-audit/docket/verify"
)

// docketd is a service process with its own data folder.
type docketd struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan error
	client *http.Client
}

// launch makes a ledger where there is none, and serves it.
func launch(t *testing.T, dir string, args ...string) *docketd {
	t.Helper()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := &docketd{t: t, dir: dir, ended: make(chan error, 1)}
	d.cmd = exec.Command("docketd", append([]string{"run", "--data", dir, "--init", "--listen", ":0"}, args...)...)
	d.cmd.Stderr = &d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() { d.cmd.Process.Kill() })
	socket := filepath.Join(dir, "docketd.sock")
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	t.Cleanup(d.client.CloseIdleConnections)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := d.post("/v1/runs/none/close", `{}`); err == nil {
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("docketd does not answer: %s", d.stderr.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *docketd) post(path, body string) (string, error) {
	resp, err := d.client.Post("http://docket"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 500 {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), err
}

// exit waits for the end and returns the exit code, -1 after a signal.
func (d *docketd) exit() int {
	d.t.Helper()
	select {
	case <-d.ended:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(60 * time.Second):
		d.t.Fatalf("docketd goes on: %s", d.stderr.String())
		return 0
	}
}

// acknowledged appends from several clients until the service is gone, and
// returns the hashes that were answered, by number.
func (d *docketd) acknowledged(begun chan<- struct{}) map[uint64]string {
	var mu sync.Mutex
	acked := map[uint64]string{}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				body, err := d.post("/v1/events", `{"type":"tool.call","content":{"n":1},"run":"load"}`)
				var got struct {
					Seq  uint64
					Hash string
				}
				if err == nil {
					err = json.Unmarshal([]byte(body), &got)
				}
				if err != nil || got.Seq == 0 {
					return
				}
				mu.Lock()
				acked[got.Seq] = got.Hash
				if len(acked) == 50 {
					close(begun)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return acked
}

// judge verifies the ledger and looks for everything that was acknowledged.
func (d *docketd) judge(acked map[uint64]string) *verify.Report {
	t := d.t
	t.Helper()
	path := filepath.Join(d.dir, "ledger.db")
	r, err := verify.File(t.Context(), path, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Errorf("after %d acknowledged events: %v", len(acked), err)
	}
	s, err := verify.OpenSource(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seq := uint64(0)
	for e, err := range s.Events(1) {
		if err != nil {
			t.Fatal(err)
		}
		seq++
		if want, ok := acked[seq]; ok && want != e.Hash.String() {
			t.Errorf("event %d has hash %s, and %s was acknowledged", seq, e.Hash, want)
		}
		delete(acked, seq)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged events are not there", len(acked))
	}
	return r
}

// TestStopUnderLoad: SIGTERM while clients append; what was acknowledged is
// there, and the stop is clean.
func TestStopUnderLoad(t *testing.T) {
	d := launch(t, t.TempDir())
	begun := make(chan struct{})
	go func() {
		<-begun
		d.cmd.Process.Signal(syscall.SIGTERM)
	}()
	acked := d.acknowledged(begun)
	if code := d.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
	if len(acked) < 50 {
		t.Errorf("%d events", len(acked))
	}
	d.judge(acked)
	if _, err := os.Stat(filepath.Join(d.dir, "dirty")); err == nil {
		t.Error("the marker of an unclean end is there")
	}
}

// TestKilledUnderLoad: a crash is never tampering, and loses nothing that was
// acknowledged.
func TestKilledUnderLoad(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		d := launch(t, dir)
		begun := make(chan struct{})
		go func() {
			<-begun
			d.cmd.Process.Kill()
		}()
		acked := d.acknowledged(begun)
		if code := d.exit(); code != -1 || len(acked) < 50 {
			t.Errorf("exit code %d after %d events", code, len(acked))
		}
		d.judge(acked)
	}
}

// TestSecondSignal: a request that does not end holds the stop up; the second
// signal doesn't wait for it.
func TestSecondSignal(t *testing.T) {
	d := launch(t, t.TempDir())
	c, err := net.Dial("unix", filepath.Join(d.dir, "docketd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /v1/events HTTP/1.1\r\nHost: docket\r\nContent-Type: application/json\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n")
	// The answer comes when a handler reads the body.
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.ended:
		t.Fatalf("it ended with a request in hand: %s", d.stderr.String())
	case <-time.After(300 * time.Millisecond):
	}
	began := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := d.exit(); code != -1 || time.Since(began) > 5*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(began))
	}
	d.judge(nil)
}

// TestBoundaryIsServed: a run's base URL leads through the boundary to the
// upstream of docketd.toml, and the call is in the ledger with its outcome.
// Neither the run's token nor the service's is in the log or in the ledger.
// answer sends body and, when answered is closed, bytes that nobody asked for
// on the idle connection. surplusSeen is closed when the other side has closed
// the connection for them.
func answer(t *testing.T, w http.ResponseWriter, answered, surplusSeen chan struct{}, body string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		close(surplusSeen)
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	go func() {
		defer close(surplusSeen)
		defer conn.Close()
		<-answered
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: canary-surplus\r\n\r\n")
		io.Copy(io.Discard, conn)
	}()
}

func TestBoundaryIsServed(t *testing.T) {
	answered, surplusSeen := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer canary-key" {
			t.Errorf("%s %s reached the upstream", r.Method, r.URL.Path)
		}
		answer(t, w, answered, surplusSeen, `{"id":"x","object":"chat.completion","model":"some-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("[upstream.local]\ndialect = \"openai\"\nurl = %q\n", upstream.URL)
	if err := os.WriteFile(filepath.Join(dir, "docketd.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, dir, "--verbose")
	body, err := d.post("/v1/runs", `{"run":"r1"}`)
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		Token    string
		BaseURLs map[string]string `json:"base_urls"`
	}
	if err := json.Unmarshal([]byte(body), &run); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("POST", run.BaseURLs["local"]+"/chat/completions", strings.NewReader(`{"model":"some-model","messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer canary-key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(answer), "some-model") {
		t.Fatalf("%s %s %v", resp.Status, answer, err)
	}
	close(answered)
	<-surplusSeen
	closed, err := d.post("/v1/runs/r1/close", `{}`)
	if err != nil || !strings.Contains(closed, `"calls":1`) || !strings.Contains(closed, `"unpriced":1`) {
		t.Errorf("%s %v", closed, err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	if code := d.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{run.Token, strings.TrimSpace(string(token)), "canary-key", "canary-surplus"} {
		if strings.Contains(d.stderr.String(), secret) || bytes.Contains(ledger, []byte(secret)) {
			t.Errorf("a secret is in the log or in the ledger: %s", d.stderr.String())
		}
	}
	if r := d.judge(nil); r.Unpriced != 1 || r.OpenCalls != 0 {
		t.Errorf("%+v", r)
	}
}
