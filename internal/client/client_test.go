package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/api"
	"github.com/docket-audit/docket/internal/client"
	"github.com/docket-audit/docket/receipt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// start serves the real API over a fresh ledger.
func start(t *testing.T) (*client.Client, *engine.Engine) {
	t.Helper()
	dir := t.TempDir()
	signer, err := receipt.GenerateKey(zeroReader{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ledger.db")
	if _, err := engine.Init(t.Context(), path, engine.InitOptions{Signer: signer, CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Options{Path: path, Signer: signer, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(api.Options{
		Engine: e, Token: "t",
		BaseURLs:       func(token string, _ engine.Run) map[string]string { return map[string]string{"x": "http://" + token} },
		CheckUpstreams: func(map[string]string) error { return nil },
	})
	socket := filepath.Join(dir, "s")
	ln, err := api.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := api.HTTP(s.Socket(), nil)
	done := make(chan error)
	go func() { done <- server.Serve(api.Limit(ln, 16)) }()
	c := client.New(socket)
	t.Cleanup(func() {
		c.Close()
		s.Stop()
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, e
}

// TestAPI calls every route of the service that this version has.
func TestAPI(t *testing.T) {
	c, e := start(t)
	ctx := t.Context()
	opened, err := c.OpenRun(ctx, client.RunSpec{Run: "..", Name: "first", Actor: &client.Actor{Role: "r", Context: "c", Pass: "p"}, Upstreams: map[string]string{"x": "https://x.example"}})
	if err != nil || opened.Run != ".." || opened.BaseURLs["x"] != "http://"+opened.Token {
		t.Fatalf("%+v %v", opened, err)
	}
	d := client.Draft{Type: "tool.call", Content: []byte(`{ "n" : 1.0 }`), Run: "..", Key: "k", Actor: &client.Actor{Role: "r", Context: "c", Pass: "p"}}
	body := strings.Repeat("body ", 100_000)
	first, err := c.Append(ctx, d, client.Body{Name: `in"\`, Media: "text/plain", Data: strings.NewReader(body)})
	if err != nil || first.Replayed || first.Seq != e.Head().Seq || first.Hash != e.Head().Hash.String() {
		t.Fatalf("%+v %v", first, err)
	}
	again, err := c.Append(ctx, d, client.Body{Name: `in"\`, Media: "text/plain", Data: strings.NewReader(body)})
	if err != nil || !again.Replayed || again.Seq != first.Seq {
		t.Errorf("%+v %v", again, err)
	}
	if _, err := c.Append(ctx, client.Draft{Type: "tool.call"}); err != nil {
		t.Error(err)
	}
	head, err := c.Head(ctx)
	if err != nil || head.Seq != e.Head().Seq || head.Ledger != e.Head().Ledger {
		t.Errorf("%+v %v", head, err)
	}
	run, err := c.Run(ctx, "..")
	if err != nil || run.Run != ".." || run.Actor.Role != "r" || run.Events != 2 || run.Upstreams["x"] == "" {
		t.Errorf("%+v %v", run, err)
	}
	code := 3
	run, err = c.CloseRun(ctx, "..", client.CloseSpec{Reason: "done", ExitCode: &code})
	if err != nil || run.Closed == 0 || run.Totals.CostUSD != "0" {
		t.Errorf("%+v %v", run, err)
	}
	if runs, err := c.Runs(ctx); err != nil || len(runs) != 1 || runs[0].Closed != run.Closed {
		t.Errorf("%+v %v", runs, err)
	}
	if costs, err := c.Costs(ctx, "ledger"); err != nil || len(costs) > 1 {
		t.Errorf("%+v %v", costs, err)
	}
	if s, err := c.Status(ctx); err != nil || s.Head.Ledger != head.Ledger || s.Bytes == 0 {
		t.Errorf("%+v %v", s, err)
	}
	if note, err := c.Checkpoint(ctx); err != nil || !strings.HasPrefix(note, "docketd.ledger/1/"+head.Ledger) {
		t.Errorf("%q %v", note, err)
	}
	for q, want := range map[client.EventsQuery]int{
		{From: 1, To: 2}: 2, {Run: ".."}: 3, {Type: "tool.call"}: 2, {Type: "tool.call", Run: "..", From: 1, To: 3}: 0,
	} {
		if got := count(t, c, q); got != want {
			t.Errorf("%+v: %d lines, want %d", q, got, want)
		}
	}
	seq := int(e.Head().Seq)
	if got := count(t, c, client.EventsQuery{Trailer: true}); got != seq+1 {
		t.Errorf("export of %d lines, want %d", got, seq+1)
	}
	snap, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if n, err := io.Copy(io.Discard, snap); err != nil || n != snap.Size || snap.Seq != uint64(seq)+1 || snap.Ledger != head.Ledger {
		t.Errorf("snapshot of %d bytes, %+v: %v", n, snap, err)
	}
}

func count(t *testing.T, c *client.Client, q client.EventsQuery) int {
	t.Helper()
	r, err := c.Events(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func TestFollow(t *testing.T) {
	c, e := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := c.Events(ctx, client.EventsQuery{From: e.Head().Seq + 1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := c.Append(t.Context(), client.Draft{Type: "tool.call"}); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || !strings.Contains(line, "tool.call") {
		t.Errorf("%q %v", line, err)
	}
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

func TestErrors(t *testing.T) {
	c, e := start(t)
	ctx := t.Context()
	before := e.Head().Seq
	_, err := c.Append(ctx, client.Draft{Type: "model.request"})
	if x, ok := errors.AsType[*client.Error](err); !ok || x.Code != "reserved-type" || x.Status != 400 || x.Hint == "" {
		t.Errorf("%v", err)
	}
	_, err = c.Run(ctx, "nobody")
	if x, ok := errors.AsType[*client.Error](err); !ok || x.Code != "run-unknown" {
		t.Errorf("%v", err)
	}
	broken := errors.New("the disk")
	_, err = c.Append(ctx, client.Draft{Type: "tool.call"}, client.Body{Name: "in", Media: "a/b", Data: io.MultiReader(strings.NewReader("a part"), failing{broken})})
	if !errors.Is(err, broken) || errors.Is(err, client.ErrBroken) {
		t.Errorf("a body that can't be read: %v", err)
	}
	if e.Head().Seq != before {
		t.Error("something was written")
	}
	nobody := client.New(filepath.Join(t.TempDir(), "none"))
	if _, err := nobody.Head(ctx); !errors.Is(err, client.ErrNoService) || errors.Is(err, client.ErrBroken) {
		t.Errorf("no service: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestBroken: an answer that ends early, at any byte, is never taken for one.
func TestBroken(t *testing.T) {
	full := "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}\n{}\r\n1\r\n\n\r\n0\r\n\r\n"
	head := `{"ledger":"x","seq":1,"hash":"h","root":"r"}`
	for _, x := range []struct {
		answer string
		read   func(*client.Client) error
	}{
		{full, func(c *client.Client) error {
			r, err := c.Events(t.Context(), client.EventsQuery{})
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.ReadAll(r)
			return err
		}},
		{"HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n" + head, func(c *client.Client) error {
			_, err := c.Head(t.Context())
			return err
		}},
	} {
		for n := range len(x.answer) {
			if err := x.read(fake(t, x.answer[:n])); !errors.Is(err, client.ErrBroken) {
				t.Errorf("cut at %d of %q: %v", n, x.answer, err)
			}
		}
		if err := x.read(fake(t, x.answer)); err != nil {
			t.Errorf("%q: %v", x.answer, err)
		}
	}
	for _, other := range []string{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
		"HTTP/1.1 301 Moved\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n",
	} {
		if _, err := fake(t, other).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "is it docketd") {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// fake answers one request with these bytes and closes.
func fake(t *testing.T, answer string) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, answer)
		}
	}()
	c := client.New(path)
	t.Cleanup(func() {
		ln.Close()
		<-done
		c.Close()
	})
	return c
}

// TestCodes: the codes that the client sees are those of the API's list.
func TestCodes(t *testing.T) {
	c, _ := start(t)
	_, err := c.Run(t.Context(), "nobody")
	x, ok := errors.AsType[*client.Error](err)
	if !ok || !slices.ContainsFunc(api.Codes(), func(k api.Code) bool { return k.Name == x.Code && k.Status == x.Status }) {
		t.Errorf("%+v", err)
	}
}
