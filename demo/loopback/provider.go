package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CallHeader names the call that a request is. Its value is Call.ID.
const CallHeader = "X-Demo-Call"

// How a call ends. "" is a whole answer.
const (
	EndCut    = "cut"    // the provider breaks the connection after the last byte of the case
	EndClient = "client" // the provider keeps the answer open until the other side hangs up
)

// Call is one call that the provider is ready to serve.
type Call struct {
	ID         int
	Case       *Case
	Upstream   string // name under which the client calls
	End        string
	AsksUsage  bool   // the client's own request has stream_options.include_usage
	Credential string // the one credential that has to arrive
}

// Served is an entry of the provider's list: a call, and what went over the
// wire.
type Served struct {
	Call     *Call
	Request  []byte // body as it arrived
	Response []byte // body as it was sent
	// HungUp is how long after the last byte the other side hung up, for
	// EndClient; 0 for the others.
	HungUp time.Duration
}

// hangUpLimit is how long the provider waits until the other side of a call of
// EndClient is gone. Whoever doesn't hang up pays for text that nobody reads.
const hangUpLimit = 10 * time.Second

// exchangeLimit bounds a request and its answer, so that Close ends.
const exchangeLimit = time.Minute

// maxRequest bounds a request's body; those of the cases are tiny.
const maxRequest = 1 << 20

// Provider is the loopback provider. It is safe for concurrent use.
type Provider struct {
	addr  string
	seed  uint64
	calls map[string]*Call
	http  *http.Server
	done  chan struct{}

	serving sync.WaitGroup

	mu     sync.Mutex // held to touch what follows
	closed bool       // no more is added to serving
	served []Served
	begun  map[int]bool
	faults []string
	secret []string
}

// New listens on a free port of 127.0.0.1 and serves calls. The cuts of a
// call's answer follow from seed and the call's ID. Close ends it.
func New(seed uint64, calls []Call) (*Provider, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the provider: %w", err)
	}
	p := &Provider{
		addr: ln.Addr().String(), seed: seed, calls: map[string]*Call{},
		begun: map[int]bool{}, done: make(chan struct{}),
	}
	for i := range calls {
		p.calls[strconv.Itoa(calls[i].ID)] = &calls[i]
	}
	p.http = &http.Server{
		Handler:           http.HandlerFunc(p.serve),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       exchangeLimit,
		WriteTimeout:      exchangeLimit,
		ErrorLog:          log.New(io.Discard, "", 0), // what matters stands in Faults
	}
	go func() {
		defer close(p.done)
		if err := p.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			p.fault("serve: %v", err)
		}
	}()
	return p, nil
}

// URL is the provider's base URL, without a path.
func (p *Provider) URL() string { return "http://" + p.addr }

// Close refuses further calls, waits until those in hand have ended, and ends
// the provider. (http.Server.Shutdown would wait five seconds for every
// connection that was made ahead and never used.)
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.serving.Wait()
	err := p.http.Close()
	<-p.done
	if err != nil {
		return fmt.Errorf("stop provider: %w", err)
	}
	return nil
}

// enter counts a request in, unless the provider is closed.
func (p *Provider) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.serving.Add(1)
	}
	return !p.closed
}

// Forbid tells the provider a text that no request may carry.
func (p *Provider) Forbid(secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secret = append(p.secret, secret)
}

// List is what was served, by the ID of the call. It is complete after Close:
// the other side can have the last byte of a call before the list has it.
func (p *Provider) List() []Served {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(slices.Values(p.served), func(a, b Served) int { return a.Call.ID - b.Call.ID })
}

// Faults is what was wrong with the requests, one line each.
func (p *Provider) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

func (p *Provider) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		p.fault("%s %s: came when the provider was closed", r.Method, r.URL.Path)
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	defer p.serving.Done()
	c := p.calls[r.Header.Get(CallHeader)]
	if c == nil {
		p.fault("%s %s: no call %q is to be served", r.Method, r.URL.Path, r.Header.Get(CallHeader))
		http.Error(w, "no such call", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		p.fault("call %d: read request: %v", c.ID, err)
		http.Error(w, "unreadable request", http.StatusBadRequest)
		return
	}
	if !p.first(c) {
		p.fault("call %d: came twice", c.ID)
	}
	for _, f := range p.judge(c, r, body) {
		p.fault("call %d (%s): %s", c.ID, c.Case.ID, f)
	}
	p.answer(w, r, c, body)
}

// first says whether c is served for the first time.
func (p *Provider) first(c *Call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.begun[c.ID]
	p.begun[c.ID] = true
	return !again
}

// answer sends the case's answer in pieces, and enters the call into the list
// once its end is known.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, c *Call, request []byte) {
	rng := rand.New(rand.NewPCG(p.seed, uint64(c.ID)))
	for name, value := range c.Case.Headers {
		w.Header().Set(name, value)
	}
	if c.End == "" && rng.IntN(2) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(c.Case.Body)))
	}
	w.WriteHeader(c.Case.Status)
	s := Served{Call: c, Request: request}
	flusher := http.NewResponseController(w)
	for _, piece := range cut(rng, c.Case.Body) {
		n, err := io.WriteString(w, piece)
		s.Response = append(s.Response, piece[:n]...)
		if err == nil {
			err = flusher.Flush()
		}
		if err != nil {
			p.fault("call %d (%s): the other side left after %d of %d bytes", c.ID, c.Case.ID, len(s.Response), len(c.Case.Body))
			break
		}
	}
	if c.End == EndClient {
		s.HungUp = p.awaitHangUp(r.Context(), c)
	}
	p.mu.Lock()
	p.served = append(p.served, s)
	p.mu.Unlock()
	if c.End != "" {
		// Ends the connection without the end of the body.
		panic(http.ErrAbortHandler)
	}
}

func (p *Provider) awaitHangUp(gone context.Context, c *Call) time.Duration {
	start := time.Now()
	select {
	case <-gone.Done():
	case <-time.After(hangUpLimit):
		p.fault("call %d (%s): the client left and nobody hung up here within %v", c.ID, c.Case.ID, hangUpLimit)
	}
	return time.Since(start)
}

// cut divides a body into pieces of random size: sometimes single bytes,
// sometimes all at once, and no more than about 400.
func cut(rng *rand.Rand, body string) []string {
	most := max(1<<rng.IntN(11), len(body)/200)
	var pieces []string
	for rest := body; rest != ""; {
		n := min(len(rest), 1+rng.IntN(most))
		pieces = append(pieces, rest[:n])
		rest = rest[n:]
	}
	return pieces
}

// containsAny says which of the secrets stands in text.
func containsAny(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}
