package boundary_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/boundary"
)

// raw sends text over a connection of its own and gives all that comes back
// until the server closes.
func raw(t *testing.T, b *bench, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\r\n"), "TOKEN", b.token))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	got, _ := io.ReadAll(c)
	return string(got)
}

// TestUpgrade refuses to switch protocols, whichever and however asked.
func TestUpgrade(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t)})
	for i, text := range []string{
		"GET /b/TOKEN/openai/v1/responses HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: a\nSec-WebSocket-Version: 13\n\n",
		"POST /b/TOKEN/openai/v1/chat/completions HTTP/1.1\nHost: x\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\nContent-Length: 2\n\n{}",
		"GET /b/TOKEN/anthropic/v1/models HTTP/1.1\nHost: x\nUpgrade: TLS/1.0\n\n",
	} {
		got := raw(t, b, text)
		if !strings.HasPrefix(got, "HTTP/1.1 426 ") || !strings.Contains(got, `"error":{`) || !strings.Contains(got, "X-Docket: "+boundary.CodePolicy) || !strings.Contains(got, "Upgrade: HTTP/1.1") {
			t.Errorf("%q", got)
		}
		all := b.ofType(chain.TypeRefused)
		if len(all) != i+1 || all[i].content["http_status"] != 426.0 {
			t.Errorf("recorded %d refusals, the last %v", len(all), all[len(all)-1].content)
		}
	}
}

// TestSwitchUnasked ends a call whose provider switches protocols by itself,
// with a name of a protocol and without one.
func TestSwitchUnasked(t *testing.T) {
	for _, head := range []string{"", "Connection: Upgrade\r\nUpgrade: h2c\r\n"} {
		url := rawProvider(t, func(c net.Conn) {
			readHead(c)
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+head+"\r\nsecret tunnel")
		})
		b := newBench(t, setup{upstreams: upstreams(url)})
		res, body, err := b.do(http.MethodGet, b.url("openai", "/v1/models"), nil)
		if err != nil || res.StatusCode != 502 || strings.Contains(string(body), "tunnel") {
			t.Errorf("%v %v %s", err, res, body)
		}
		if one := b.only(); one.outcome.content["http_status"] != 101.0 || one.outcome.content["ended"] != "cut" {
			t.Errorf("outcome %v", one.outcome.content)
		}
	}
}

func readHead(c net.Conn) string {
	r, head := bufio.NewReader(c), ""
	for !strings.HasSuffix(head, "\r\n\r\n") {
		line, err := r.ReadString('\n')
		if err != nil {
			return head
		}
		head += line
	}
	return head
}

// TestSmuggling sends messages that two servers could frame in two ways: each
// reaches the provider as one request, framed anew, or not at all.
func TestSmuggling(t *testing.T) {
	var mu sync.Mutex
	var heads []string
	up := rawProvider(t, func(c net.Conn) {
		head := readHead(c)
		mu.Lock()
		heads = append(heads, head)
		mu.Unlock()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	})
	b := newBench(t, setup{upstreams: upstreams(up), options: impatient})
	post := "POST /b/TOKEN/openai/v1/chat/completions HTTP/1.1\nHost: x\nConnection: close\n"
	for name, c := range map[string]struct {
		text  string
		calls int
	}{
		"length and chunked":  {post + "Content-Length: 4\nTransfer-Encoding: chunked\n\n2\n{}\n0\n\n", 1},
		"two lengths":         {post + "Content-Length: 2\nContent-Length: 3\n\n{}x", 0},
		"odd encoding":        {post + "Transfer-Encoding: xchunked\n\n2\n{}\n0\n\n", 0},
		"two encodings":       {post + "Transfer-Encoding: chunked\nTransfer-Encoding: identity\n\n2\n{}\n0\n\n", 0},
		"space before colon":  {post + "Content-Length : 2\n\n{}", 0},
		"negative length":     {post + "Content-Length: -1\n\n{}", 0},
		"short body":          {post + "Content-Length: 20\n\n{}", 0},
		"broken chunk":        {post + "Transfer-Encoding: chunked\n\nzz\n{}\n0\n\n", 0},
		"absolute target":     {"POST http://evil.example/b/TOKEN/openai/v1/chat/completions HTTP/1.1\nHost: x\nConnection: close\nContent-Length: 2\n\n{}", 0},
		"foreign target":      {"POST https://api.openai.com/v1/chat/completions HTTP/1.1\nHost: x\nConnection: close\nContent-Length: 2\n\n{}", 0},
		"connect":             {"CONNECT api.openai.com:443 HTTP/1.1\nHost: x\nConnection: close\n\n", 0},
		"two hosts":           {"POST /b/TOKEN/openai/v1/chat/completions HTTP/1.1\nHost: x\nHost: y\nConnection: close\nContent-Length: 2\n\n{}", 0},
		"trailer of a client": {post + "Transfer-Encoding: chunked\nTrailer: X-Evil\n\n2\n{}\n0\nX-Evil: 1\n\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			heads = nil
			got := raw(t, b, c.text)
			mu.Lock()
			defer mu.Unlock()
			if len(heads) != c.calls || (c.calls == 1) != strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Fatalf("%d calls, answer %q", len(heads), got)
			}
			for _, h := range heads {
				if strings.Count(h, "Content-Length: 2\r\n") != 1 || strings.Contains(h, "Transfer-Encoding") || strings.Contains(h, "railer") {
					t.Errorf("framed as %q", h)
				}
			}
		})
	}
}

// TestLyingUpstream has providers whose framing is false.
func TestLyingUpstream(t *testing.T) {
	for name, c := range map[string]struct {
		answer, ended string
		body          string // what the client gets
	}{
		"too short":    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "cut", "{}"},
		"too long":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}extra", "complete", "{}"},
		"broken chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n", "cut", "{}"},
		"no end":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "cut", "{}"},
		"until close":  {"HTTP/1.0 200 OK\r\n\r\n{}", "complete", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			url := rawProvider(t, func(conn net.Conn) {
				readHead(conn)
				_, _ = io.WriteString(conn, c.answer)
			})
			b := newBench(t, setup{upstreams: upstreams(url)})
			_, got, err := b.do(http.MethodGet, b.url("openai", "/v1/models"), nil)
			if string(got) != c.body || (err != nil) != (c.ended == "cut") {
				t.Errorf("the client got %q, %v", got, err)
			}
			one := b.only()
			if one.outcome.content["ended"] != c.ended {
				t.Errorf("outcome %v", one.outcome.content)
			}
			if err := one.outcome.commits("response", got); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOddStatus: a head came, whatever stands in it, so the call was answered.
func TestOddStatus(t *testing.T) {
	for _, status := range []int{0, 99} {
		url := rawProvider(t, func(conn net.Conn) {
			readHead(conn)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %03d x\r\nContent-Length: 2\r\n\r\n{}", status)
		})
		b := newBench(t, setup{upstreams: upstreams(url)})
		res, got, err := b.do(http.MethodPost, b.url("openai", "/v1/chat/completions"), strings.NewReader(chatBody))
		if err != nil || res.StatusCode != http.StatusBadGateway {
			t.Fatalf("%03d: %v %q %v", status, res, got, err)
		}
		one := b.only()
		if one.outcome.Type != chain.TypeResponse || one.outcome.content["ended"] != "cut" || one.outcome.content["http_status"] != float64(status) {
			t.Errorf("%03d: outcome %s %v", status, one.outcome.Type, one.outcome.content)
		}
	}
}

// TestHeaderBomb ends a call whose provider sends a head without end.
func TestHeaderBomb(t *testing.T) {
	url := rawProvider(t, func(c net.Conn) {
		readHead(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		line := "X-Bomb: " + strings.Repeat("x", 8<<10) + "\r\n"
		for range 1024 {
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
	})
	b := newBench(t, setup{upstreams: upstreams(url)})
	if res, _, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody); err != nil || res.StatusCode != 502 {
		t.Errorf("%v %v", res, err)
	}
	if one := b.only(); one.outcome.Type != chain.TypeFailed || one.outcome.content["reason"] != "connect" {
		t.Errorf("outcome %v", one.outcome.content)
	}
}

// TestSilentStream cuts an answer whose provider says nothing more.
func TestSilentStream(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL), options: impatient})
	if _, _, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody); err == nil {
		t.Error("the client saw a clean end")
	}
	if one := b.only(); one.outcome.content["ended"] != "cut" {
		t.Errorf("outcome %v", one.outcome.content)
	}
}

// TestSlowClient ends a call whose client takes nothing, and keeps one whose
// client is slow but steady for longer than any one wait.
func TestSlowClient(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 64 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL), options: func(o *boundary.Options) {
		// Only the client's patience is short, and long beside a busy machine's pauses.
		o.ClientWait = time.Second
	}})
	c, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "POST /b/%s/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", b.token)
	if one := b.only(); one.outcome.content["ended"] != "client" {
		t.Errorf("outcome %v", one.outcome.content)
	}

	done := make(chan int64)
	req, _ := http.NewRequest(http.MethodPost, b.url("openai", "/v1/chat/completions"), strings.NewReader("{}"))
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	go func() {
		var total int64
		ticks := time.NewTicker(30 * time.Millisecond)
		defer ticks.Stop()
		for range ticks.C {
			n, err := io.CopyN(io.Discard, res.Body, 1<<20)
			total += n
			if err != nil {
				break
			}
		}
		done <- total
	}()
	if got := <-done; got != 64<<20 {
		t.Errorf("a steady client got %d bytes", got)
	}
}

// TestSlowRequest ends a request whose client stops sending.
func TestSlowRequest(t *testing.T) {
	b := newBench(t, setup{upstreams: uncalled(t), options: impatient})
	c, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "POST /b/%s/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{}", b.token)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 400") {
		t.Errorf("%q %v", line, err)
	}
	if n := len(b.events()); n != 0 {
		t.Errorf("%d events of half a request", n)
	}
}

// TestEncodings meters answers in each coding, and passes them as they are. A
// stream that docket asked for usage in comes to the client in plain.
func TestEncodings(t *testing.T) {
	encode := map[string]func([]byte) []byte{
		"gzip": func(p []byte) []byte {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(p)
			w.Close()
			return b.Bytes()
		},
		"br": func(p []byte) []byte {
			var b bytes.Buffer
			w := brotli.NewWriter(&b)
			_, _ = w.Write(p)
			w.Close()
			return b.Bytes()
		},
		"zstd": func(p []byte) []byte {
			w, _ := zstd.NewWriter(nil)
			defer w.Close()
			return w.EncodeAll(p, nil)
		},
		"identity": func(p []byte) []byte { return p },
	}
	streams := recordedStreams(t)
	for coding, f := range encode {
		for _, s := range []recorded{streams[1], streams[2]} {
			t.Run(coding+" "+s.name, func(t *testing.T) {
				sent := f(s.answer)
				var accepts string
				up := provider(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					accepts = r.Header.Get("Accept-Encoding")
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Encoding", coding)
					w.Header().Set("Content-Length", fmt.Sprint(len(sent)))
					_, _ = w.Write(sent)
				})
				b := newBench(t, setup{upstreams: upstreams(up.URL)})
				res, got, err := b.post(b.url(s.upstream, s.path), string(s.request), "Accept-Encoding", "gzip, deflate, br, zstd")
				if err != nil {
					t.Fatal(err)
				}
				want, wantAccept := sent, "gzip, br, zstd"
				if s.filtered {
					want, wantAccept = boundary.FilterStream(s.answer), "identity"
				}
				if !bytes.Equal(got, want) || accepts != wantAccept {
					t.Errorf("got %q; upstream was told to accept %q", got, accepts)
				}
				if s.filtered && coding != "identity" && res.Header.Get("Content-Encoding") != "" {
					t.Errorf("plain bytes called %s", res.Header.Get("Content-Encoding"))
				}
				one := b.only()
				if err := errors.Join(one.outcome.commits("response", sent), one.request.commits("request", s.request)); err != nil {
					t.Error(err)
				}
				if m := one.outcome.Meter; m.Source != chain.SourceReported || len(m.Usage) == 0 || one.outcome.content["ended"] != "complete" {
					t.Errorf("metered %+v, %v", m, one.outcome.content)
				}
			})
		}
	}
}

// TestEncodedRequest forwards a compressed request as it is and reads its copy.
func TestEncodedRequest(t *testing.T) {
	var sent bytes.Buffer
	z := gzip.NewWriter(&sent)
	_, _ = io.WriteString(z, chatStream)
	z.Close()
	body := sent.String()
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if got, _ := io.ReadAll(r.Body); string(got) != body || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("upstream got %q as %q", got, r.Header.Get("Content-Encoding"))
		}
	})
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	if _, _, err := b.post(b.url("openai", "/v1/chat/completions"), body, "Content-Encoding", "gzip"); err != nil {
		t.Fatal(err)
	}
	one := b.only()
	if one.request.content["model"] != "gpt-5.5" || one.request.content["stream"] != true || one.request.content["include_usage_added"] == true {
		t.Errorf("recorded %v", one.request.content)
	}
	if err := one.request.commits("request", []byte(body)); err != nil {
		t.Error(err)
	}
}

// TestNoReplay has the provider drop a connection with a paid call on it: the
// call is not sent again behind the client's back.
func TestNoReplay(t *testing.T) {
	var mu sync.Mutex
	posts := 0
	url := rawProvider(t, func(c net.Conn) {
		for {
			head := readHead(c)
			if head == "" {
				return
			}
			if strings.HasPrefix(head, "POST") {
				mu.Lock()
				posts++
				mu.Unlock()
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	b := newBench(t, setup{upstreams: upstreams(url)})
	// The first call leaves an idle connection, which the second one takes.
	if _, _, err := b.do(http.MethodGet, b.url("openai", "/v1/models"), nil); err != nil {
		t.Fatal(err)
	}
	res, _, err := b.post(b.url("openai", "/v1/chat/completions"), chatBody, "Idempotency-Key", "k", "X-Idempotency-Key", "k")
	if err != nil || res.StatusCode != 502 {
		t.Errorf("%v %v", res, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if posts != 1 {
		t.Errorf("the call was sent %d times", posts)
	}
}

// TestAddresses refuses to dial what no provider is.
func TestAddresses(t *testing.T) {
	b := newBench(t, setup{})
	for url, ok := range map[string]bool{
		"http://10.0.0.1/": false, "http://169.254.169.254/": false, "https://169.254.169.254/": false, "https://[fe80::1]/": false,
		"https://0.0.0.0/": false, "https://224.0.0.1/": false, "https://[::ffff:169.254.169.254]/": false, "http://127.0.0.1:1/": true,
	} {
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		_, err := b.handler.Transport().RoundTrip(r)
		if err == nil || strings.Contains(err.Error(), "not one that docket calls") == ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestHTTP2 calls a provider over TLS and HTTP/2: a whole answer, one in
// pieces with a trailer, and one that breaks off; and not one whose certificate
// nobody vouches for.
func TestHTTP2(t *testing.T) {
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.ProtoMajor != 2 {
			t.Errorf("called by %s", r.Proto)
		}
		switch r.URL.Query().Get("how") {
		case "length":
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "{}")
		case "pieces":
			w.Header().Set("Trailer", "X-Sum")
			for range 10 {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Sum", "1")
		case "cut":
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	up.EnableHTTP2 = true
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	up.StartTLS()
	t.Cleanup(up.Close)
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	res, body, err := b.do(http.MethodGet, b.url("openai", "/v1/models"), nil)
	if err != nil || res.StatusCode != 502 || !strings.Contains(string(body), "certificate") {
		t.Errorf("without trust: %v %v %s", err, res, body)
	}
	pool := x509.NewCertPool()
	pool.AddCert(up.Certificate())
	b.handler.Trust(pool)
	for i, c := range []struct{ how, body, ended string }{{"length", "{}", "complete"}, {"pieces", "xxxxxxxxxx", "complete"}, {"cut", "x", "cut"}} {
		res, got, err := b.post(b.url("openai", "/v1/chat/completions?how="+c.how), chatBody)
		if string(got) != c.body || (err != nil) != (c.ended == "cut") {
			t.Errorf("%s: %q %v", c.how, got, err)
		}
		if c.how == "pieces" && res.Trailer.Get("X-Sum") != "1" {
			t.Errorf("trailers %v", res.Trailer)
		}
		one := b.settled(i + 2)[i+1]
		if one.outcome.content["ended"] != c.ended {
			t.Errorf("%s: outcome %v", c.how, one.outcome.content)
		}
		if err := one.outcome.commits("response", got); err != nil {
			t.Error(err)
		}
	}
}
