package api

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/docket-audit/docket/chain"
)

// Limits of the servers, as docs/threats.md, S8 lists what they are against.
const (
	// MaxConns bounds the connections of one listener. Further ones wait in
	// the system's backlog, unanswered, until one ends.
	MaxConns = 1024
	// MaxInHand bounds the API requests that are answered at once, on both
	// listeners together. Further ones get Busy.
	MaxInHand = 768
	// MaxHead bounds the bytes of a request's line and headers.
	MaxHead = 16 << 10
)

// Limit makes a listener that holds at most n connections open and whose
// connections remember the head of the request in hand, which guard needs.
func Limit(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn keeps the bytes of the head that the server is reading. net/http drops
// Content-Length where the body is chunked before a handler can see it, and a
// request that states its length in two ways is how requests are smuggled.
type conn struct {
	net.Conn
	release func()

	// mu guards what follows: the server reads in the background while a
	// handler runs.
	mu   sync.Mutex
	head []byte
	last byte // the last byte read before head began, where there was one
	used bool // head is complete, or longer than any that is answered
}

func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.watch(p[:n])
	}
	return n, err
}

func (c *conn) watch(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		c.head = append(c.head, p...)
		c.used = headEnd(c.head) > 0 || len(c.head) > 2*MaxHead
	}
	c.last = p[len(p)-1]
}

// next begins the head of another request on the same connection. The server
// may have read that request's first byte already, to learn whether the client
// is still there, and never more than this one: so the last byte stays.
func (c *conn) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head, c.used = append(c.head[:0], c.last), false
}

// ambiguous says whether the head of r, a chunked request, states a length as
// well, or could not be seen, as where requests are sent without waiting for
// answers.
func (c *conn) ambiguous(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := []byte(r.Method + " " + r.RequestURI + " " + r.Proto)
	head := c.head
	if end := headEnd(head); end > 0 {
		head = head[:end]
	} else {
		return true
	}
	if !bytes.HasPrefix(head, line) {
		head = head[1:] // the byte that next kept was the last request's
	}
	if head = bytes.TrimLeft(head, "\r\n"); !bytes.HasPrefix(head, line) {
		return true
	}
	for field := range bytes.Lines(head[len(line):]) {
		name, _, _ := bytes.Cut(field, []byte(":"))
		if bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			return true
		}
	}
	return false
}

// headEnd is where the blank line behind the headers ends, or 0. Like
// net/http it takes a line feed alone for the end of a line. An empty line in
// front of the request is none.
func headEnd(b []byte) int {
	start := len(b) - len(bytes.TrimLeft(b, "\r\n"))
	for i := start; i < len(b); i++ {
		if b[i] != '\n' {
			continue
		}
		rest := b[i+1:]
		if bytes.HasPrefix(rest, []byte("\n")) {
			return i + 2
		}
		if bytes.HasPrefix(rest, []byte("\r\n")) {
			return i + 3
		}
	}
	return 0
}

type connKey struct{}

type peerKey struct{}

// connContext puts the connection, and who is at its other end, into the
// context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	lc, ok := c.(*conn)
	if !ok {
		return ctx
	}
	ctx = context.WithValue(ctx, connKey{}, lc)
	if u, ok := lc.Conn.(*net.UnixConn); ok {
		if p := peerOf(u); p != nil {
			ctx = context.WithValue(ctx, peerKey{}, p)
		}
	}
	return ctx
}

// connState begins a new head on a connection that has answered.
func connState(c net.Conn, s http.ConnState) {
	if lc, ok := c.(*conn); ok && s == http.StateIdle {
		lc.next()
	}
}

// peer is who the system says is at the other end of r's socket, nil where it
// doesn't say: over TCP, and on systems whose credentials we can't read.
func peer(r *http.Request) *chain.Peer {
	p, _ := r.Context().Value(peerKey{}).(*chain.Peer)
	return p
}
