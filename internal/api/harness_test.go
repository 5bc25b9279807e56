package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/api"
	"github.com/docket-audit/docket/receipt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// service is the API over a real ledger, on a unix socket and on loopback.
type service struct {
	t      *testing.T
	engine *engine.Engine
	api    *api.Server
	socket string
	addr   string // of the loopback listener
	client *http.Client
	logged *bytes.Buffer
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// start opens a fresh ledger and serves it until the test ends.
func start(t *testing.T, change ...func(*api.Options, *engine.Options)) *service {
	t.Helper()
	dir := t.TempDir()
	signer, err := receipt.GenerateKey(zeroReader{})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, socket: filepath.Join(dir, "s.sock"), logged: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(s.logged, nil))
	eo := engine.Options{Path: filepath.Join(dir, "ledger.db"), Signer: signer, Version: "test"}
	ao := api.Options{Token: testToken, Log: log, BaseURLs: func(token string, r engine.Run) map[string]string {
		return map[string]string{"anthropic": "http://boundary/b/" + token + "/anthropic"}
	}}
	for _, c := range change {
		c(&ao, &eo)
	}
	if _, err := engine.Init(t.Context(), eo.Path, engine.InitOptions{Signer: signer, CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	if s.engine, err = engine.Open(t.Context(), eo); err != nil {
		t.Fatal(err)
	}
	ao.Engine = s.engine
	s.api = api.New(ao)
	s.serve()
	return s
}

func (s *service) serve() {
	t := s.t
	ul, err := api.ListenUnix(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := api.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = tl.Addr().String()
	web, err := s.api.Web(tl.Addr(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "boundary "+r.URL.Path)
	}))
	if err != nil {
		t.Fatal(err)
	}
	servers := []*http.Server{api.HTTP(s.api.Socket(), nil), api.HTTP(web, nil)}
	done := make(chan error, 2)
	for i, ln := range []net.Listener{ul, tl} {
		go func() { done <- servers[i].Serve(api.Limit(ln, 64)) }()
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.api.Stop()
		for _, server := range servers {
			if err := server.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			<-done
		}
		if err := s.engine.Close(context.Background()); err != nil && s.engine.Err() == nil {
			t.Error(err)
		}
	})
}

// answer is a response that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// code is the error code of an answer.
func (a answer) code() string {
	var b struct {
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(a.body), &b); err != nil {
		return "no error body: " + a.body
	}
	return b.Error.Code
}

func (s *service) do(method, path, media, body string, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://docket"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.send(req)
}

func (s *service) send(req *http.Request) answer {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func (s *service) get(path string) answer { s.t.Helper(); return s.do("GET", path, "", "") }

func (s *service) post(path, body string) answer {
	s.t.Helper()
	return s.do("POST", path, "application/json", body)
}

// decode reads a JSON answer.
func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return v
}

func (s *service) seq() uint64 { return s.engine.Head().Seq }

// raw sends bytes to the loopback listener and reads until it closes.
func (s *service) raw(request string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil && len(b) == 0 { // a server that read only a part resets after its answer
		s.t.Errorf("%q: %v", request, err)
	}
	return string(b)
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}
