package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/internal/api"
)

// TestRawGuard sends what no HTTP library would, byte by byte as a browser, a
// rebound name or an attacker can: docs/threats.md, S1, S2, S5, S7, S8.
func TestRawGuard(t *testing.T) {
	s := start(t)
	_, port, _ := net.SplitHostPort(s.addr)
	own := "Host: " + s.addr + "\r\n"
	auth := "Authorization: Bearer " + testToken + "\r\n"
	end := "Connection: close\r\n\r\n"
	get := func(headers string) string { return "GET /v1/head HTTP/1.1\r\n" + headers + end }
	post := func(headers, body string) string { return "POST /v1/events HTTP/1.1\r\n" + headers + end + body }
	jsonType := "Content-Type: application/json\r\n"
	sized := fmt.Sprintf("Content-Length: %d\r\n", len(plainDraft))
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainDraft), plainDraft)
	for _, x := range []struct{ name, request, want string }{
		{"plain", get(own + auth), "200 "},
		{"localhost", get("Host: localhost:" + port + "\r\n" + auth), "200 "},
		{"LOCALHOST", get("Host: LOCALHOST:" + port + "\r\n" + auth), "200 "},
		{"IPv6", get("Host: [::1]:" + port + "\r\n" + auth), "200 "},
		{"scheme in other letters", get(own + "Authorization: bEARER " + testToken + "\r\n"), "200 "},
		{"a name that was pointed here", get("Host: evil.example:" + port + "\r\n" + auth), "403 foreign-host"},
		{"name with our address in it", get("Host: 127.0.0.1.evil.example:" + port + "\r\n" + auth), "403 foreign-host"},
		{"another port", get("Host: 127.0.0.1:1\r\n" + auth), "403 foreign-host"},
		{"no port", get("Host: 127.0.0.1\r\n" + auth), "403 foreign-host"},
		{"another loopback address", get("Host: 127.0.0.2:" + port + "\r\n" + auth), "403 foreign-host"},
		{"all addresses", get("Host: 0.0.0.0:" + port + "\r\n" + auth), "403 foreign-host"},
		{"user info in the host", get("Host: x@127.0.0.1:" + port + "\r\n" + auth), "4"},
		{"no host", get(auth), "400 "},
		{"HTTP/1.0 without host", "GET /v1/head HTTP/1.0\r\n" + auth + "\r\n", "403 foreign-host"},
		{"two hosts", get(own + "Host: evil.example\r\n" + auth), "400 "},
		{"absolute target elsewhere", "GET http://evil.example/v1/head HTTP/1.1\r\n" + own + auth + end, "403 foreign-host"},
		{"absolute target here", "GET http://" + s.addr + "/v1/head HTTP/1.1\r\n" + own + auth + end, "200 "},
		{"CONNECT", "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n" + auth + end, "403 foreign-host"},

		{"same site says the browser, foreign host", get("Host: evil.example\r\nSec-Fetch-Site: same-origin\r\n" + auth), "403 foreign-host"},
		{"cross-site", get(own + auth + "Sec-Fetch-Site: cross-site\r\n"), "403 foreign-origin"},
		{"same-site", get(own + auth + "Sec-Fetch-Site: same-site\r\n"), "403 foreign-origin"},
		{"typed in by the user", get(own + auth + "Sec-Fetch-Site: none\r\n"), "200 "},
		{"own page", get(own + auth + "Sec-Fetch-Site: same-origin\r\nOrigin: http://" + s.addr + "\r\nReferer: http://" + s.addr + "/\r\n"), "200 "},
		{"foreign origin", get(own + auth + "Origin: http://evil.example\r\n"), "403 foreign-origin"},
		{"null origin", get(own + auth + "Origin: null\r\n"), "403 foreign-origin"},
		{"https origin", get(own + auth + "Origin: https://" + s.addr + "\r\n"), "403 foreign-origin"},
		{"second origin", get(own + auth + "Origin: http://" + s.addr + "\r\nOrigin: http://evil.example\r\n"), "403 foreign-origin"},
		{"foreign referer", get(own + auth + "Referer: http://evil.example/x\r\n"), "403 foreign-origin"},
		{"foreign origin of a post", post(own+auth+jsonType+sized+"Origin: http://evil.example\r\n", plainDraft), "403 foreign-origin"},
		{"a form of another site", post(own+"Content-Type: text/plain\r\n"+sized, plainDraft), "401 unauthorized"},

		{"no token", get(own), "401 unauthorized"},
		{"wrong token", get(own + "Authorization: Bearer " + strings.Repeat("0", 64) + "\r\n"), "401 unauthorized"},
		{"token cut", get(own + "Authorization: Bearer " + testToken[:63] + "\r\n"), "401 unauthorized"},
		{"token and more", get(own + "Authorization: Bearer " + testToken + "0\r\n"), "401 unauthorized"},
		{"basic", get(own + "Authorization: Basic " + testToken + "\r\n"), "401 unauthorized"},
		{"token in the query", "GET /v1/head?token=" + testToken + " HTTP/1.1\r\n" + own + end, "401 unauthorized"},
		{"health without token", "GET /healthz HTTP/1.1\r\n" + own + end, "401 unauthorized"},
		{"unknown route without token", "GET /x HTTP/1.1\r\n" + own + end, "401 unauthorized"},

		{"boundary needs no bearer token", "GET /b/run/anthropic/v1/models HTTP/1.1\r\n" + own + end, "200 boundary /b/run/anthropic"},
		{"boundary under a foreign host", "GET /b/run/anthropic HTTP/1.1\r\nHost: evil.example\r\n" + end, "403 foreign-host"},
		{"boundary for another site", "GET /b/run/anthropic HTTP/1.1\r\n" + own + "Origin: http://evil.example\r\n" + end, "403 foreign-origin"},
		{"boundary with an unclean path is not redirected", "GET /b/run//anthropic/../x HTTP/1.1\r\n" + own + end, "200 boundary /b/run//anthropic/../x"},
		{"a path that climbs to the boundary", "GET /v1/../b/run HTTP/1.1\r\n" + own + end, "401 unauthorized"},

		{"chunked", post(own+auth+jsonType+"Transfer-Encoding: chunked\r\n", chunk), "201 "},
		{"chunked with a length", post(own+auth+jsonType+sized+"Transfer-Encoding: chunked\r\n", chunk), "400 ambiguous-length"},
		{"a length behind chunked", post(own+auth+jsonType+"Transfer-Encoding: chunked\r\ncontent-length:3\r\n", chunk), "400 ambiguous-length"},
		{"chunked with a length to the boundary", "POST /b/run/x HTTP/1.1\r\n" + own + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n" + end + chunk, "400 ambiguous-length"},
		{"line feeds alone", strings.ReplaceAll("POST /v1/events HTTP/1.1\r\n"+own+auth+jsonType+sized+"Transfer-Encoding: chunked\r\n"+end, "\r\n", "\n") + chunk, "400 ambiguous-length"},
		{"two lengths", post(own+auth+jsonType+sized+"Content-Length: 5\r\n", plainDraft), "400 "},
		{"two encodings", post(own+auth+jsonType+"Transfer-Encoding: gzip, chunked\r\n", chunk), "501 "},
		{"negative length", post(own+auth+jsonType+"Content-Length: -1\r\n", plainDraft), "400 "},
		{"space before the colon", get(own + auth + "X : y\r\n"), "400 "},
		{"header too large", get(own + auth + "X: " + strings.Repeat("x", 17<<10) + "\r\n"), "431 "},
		{"many headers", get(own + auth + strings.Repeat("X: y\r\n", 3000)), "431 "},
		{"no HTTP", "hello\r\n\r\n", "400 "},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := s.raw(x.request)
			status, code, _ := strings.Cut(x.want, " ")
			if !strings.HasPrefix(got, "HTTP/1.1 "+status) && !strings.HasPrefix(got, "HTTP/1.0 "+status) || !strings.Contains(got, code) {
				t.Errorf("%q, want %s", got, x.want)
			}
			if strings.Contains(got, "Access-Control-") || strings.Contains(got, "Set-Cookie") {
				t.Errorf("%q has CORS headers or cookies", got)
			}
		})
	}
	if strings.Contains(s.logged.String(), testToken) {
		t.Error("the token was logged")
	}
}

// TestPipelined: requests on one connection, in turn, may be chunked; one sent
// before the last was answered can't be judged, and is refused.
func TestPipelined(t *testing.T) {
	s := start(t)
	head := "POST /v1/events HTTP/1.1\r\nHost: " + s.addr + "\r\nAuthorization: Bearer " + testToken + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunked := head + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainDraft), plainDraft)
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for range 50 {
		if _, err := io.WriteString(c, chunked); err != nil {
			t.Fatal(err)
		}
		if got := status(t, r); got != 201 {
			t.Fatalf("in turn: %d", got)
		}
	}
	if _, err := io.WriteString(c, chunked+chunked); err != nil {
		t.Fatal(err)
	}
	if got := status(t, r); got != 201 {
		t.Errorf("first of two: %d", got)
	}
	if got := status(t, r); got != 400 {
		t.Errorf("second of two: %d", got)
	}
}

func status(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestSlowHead: a request whose head doesn't end is dropped.
func TestSlowHead(t *testing.T) {
	if d := api.HTTP(http.NotFoundHandler(), nil).ReadHeaderTimeout; d != 5*time.Second {
		t.Errorf("heads have %v", d)
	}
	ln, err := api.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := api.HTTP(http.NotFoundHandler(), nil)
	server.ReadHeaderTimeout = 50 * time.Millisecond
	done := make(chan error)
	go func() { done <- server.Serve(api.Limit(ln, 1)) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x")
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if b, err := io.ReadAll(c); err != nil || bytes.HasPrefix(b, []byte("HTTP/1.1 2")) {
		t.Errorf("%q %v", b, err)
	}
	c.Close()
	server.Close()
	<-done
}

// TestConnectionLimit: one more connection than there may be waits until one
// ends.
func TestConnectionLimit(t *testing.T) {
	ln, err := api.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := api.Limit(ln, 1)
	accepted := make(chan net.Conn, 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Fatal("a second connection was accepted beside the first")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives its place back once
	(<-accepted).Close()
	limited.Close()
	<-done
}

func TestBusy(t *testing.T) {
	s := start(t)
	s.api.SetInHand(1)
	release := s.api.Hold()
	if a := s.get("/v1/head"); a.status != 429 || a.code() != "busy" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	release()
	if a := s.get("/v1/head"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
