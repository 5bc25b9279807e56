package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// RunSpec says what a run begins with.
type RunSpec struct {
	ID        string            // "" for a random one
	Name      string            // for people; may be empty
	Upstreams map[string]string // base URLs by upstream name, for this run alone
	Actor     *chain.Actor      // whom the run's calls are recorded under
	Peer      *chain.Peer
}

// Run is where a run stands.
type Run struct {
	ID        string
	Name      string
	Upstreams map[string]string
	Actor     *chain.Actor
	Opened    uint64 // seq of its first event
	Closed    uint64 // seq of its run.closed; 0 while it is open
	RunSeq    uint64 // of its last event
	OpenCalls int
	Implicit  bool
	Totals    chain.Totals
}

// CloseSpec says how a run ends.
type CloseSpec struct {
	Reason   string        // may be empty
	ExitCode *int          // of the command that the run was
	Wait     time.Duration // for calls in flight; 0 is DefaultCloseWait
	Peer     *chain.Peer
}

// DefaultCloseWait is how long a run's close waits for calls in flight before
// it cancels them.
const DefaultCloseWait = 30 * time.Second

// refusalsInHand bounds the refusals of one run that wait for the disk at one
// time, so that a flood moves at the ledger's pace and holds up nobody else.
const refusalsInHand = 64

// run is an open run in memory. Its fields are guarded by Engine.mu.
type run struct {
	id       string
	opened   runOpened
	actor    *chain.Actor
	token    [sha256.Size]byte // zero where the run has no token
	closing  bool
	calls    map[*Call]struct{} // in flight: outcome not yet durable
	idle     chan struct{}      // closed when calls is empty while closing
	refusals chan struct{}      // one slot for each refusal in hand
}

// runOpened is the content of run.opened.
type runOpened struct {
	Implicit    bool              `json:"implicit,omitempty"`
	Name        string            `json:"name,omitempty"`
	TokenSHA256 string            `json:"token_sha256,omitempty"`
	Upstreams   map[string]string `json:"upstreams,omitempty"`
}

func newRun(id string, o runOpened, actor *chain.Actor) *run {
	return &run{
		id: id, opened: o, actor: actor,
		calls:    map[*Call]struct{}{},
		idle:     make(chan struct{}),
		refusals: make(chan struct{}, refusalsInHand),
	}
}

// OpenRun begins a run and returns the token that its calls carry. The token
// is known to the caller alone: the ledger keeps its SHA-256.
func (e *Engine) OpenRun(ctx context.Context, s RunSpec) (Run, string, error) {
	if err := noFence(s.Actor); err != nil {
		return Run{}, "", err
	}
	if s.ID == "" {
		s.ID = "run-" + randomHex(8)
	}
	token := randomHex(16)
	sum := sha256.Sum256([]byte(token))
	o := runOpened{Name: s.Name, TokenSHA256: hex.EncodeToString(sum[:]), Upstreams: s.Upstreams}
	content, err := json.Marshal(o)
	if err != nil {
		return Run{}, "", fmt.Errorf("open run: %w", err)
	}
	p, err := prepare(chain.Header{Type: chain.TypeRunOpened, Run: s.ID, Actor: s.Actor, Peer: s.Peer}, content)
	if err != nil {
		return Run{}, "", fmt.Errorf("open run: %w", err)
	}
	r := newRun(s.ID, o, s.Actor)
	r.token = sum
	t, err := e.store.Sequence(func(q *store.Sequencer) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.draining {
			return ErrStopping
		}
		known, err := e.runKnown(s.ID)
		if err != nil || known {
			return orRunExists(s.ID, err)
		}
		q.Add(p)
		e.runs[s.ID] = r
		e.tokens[sum] = s.ID
		return nil
	})
	if err != nil {
		return Run{}, "", fmt.Errorf("open run: %w", err)
	}
	if _, err := t.Wait(ctx); err != nil {
		return Run{}, "", fmt.Errorf("open run: %w", err)
	}
	info, err := e.Run(s.ID)
	return info, token, err
}

func orRunExists(id string, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", id, ErrRunExists)
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// runKnown says whether the id was ever used. The caller holds mu.
func (e *Engine) runKnown(id string) (bool, error) {
	if e.runs[id] != nil {
		return true, nil
	}
	_, ok, err := e.store.Run(id)
	return ok, err
}

// admitsRun says why the run takes no more events, or nil: it is open, or can
// be opened. The caller holds mu.
func (e *Engine) admitsRun(id string) error {
	if r := e.runs[id]; r != nil {
		if r.closing {
			return fmt.Errorf("run %s: %w", id, ErrRunClosed)
		}
		return nil
	}
	_, ok, err := e.store.Run(id)
	if err == nil && ok {
		err = fmt.Errorf("run %s: %w", id, ErrRunClosed)
	}
	return err
}

// openImplicitly adds run.opened for a run that is new. The caller holds mu
// and has asked admitsRun.
func (e *Engine) openImplicitly(q *store.Sequencer, id string, peer *chain.Peer) error {
	if e.runs[id] != nil {
		return nil
	}
	p, err := prepare(chain.Header{Type: chain.TypeRunOpened, Run: id, Peer: peer}, []byte(`{"implicit":true}`))
	if err != nil {
		return err
	}
	q.Add(p)
	e.runs[id] = newRun(id, runOpened{Implicit: true}, nil)
	return nil
}

// CloseRun ends a run: it admits nothing more, waits for the outcomes of calls
// in flight, cancels those that take longer, and records run.closed with the
// run's totals. It goes on where ctx ends, so that no run is left half closed.
func (e *Engine) CloseRun(ctx context.Context, id string, s CloseSpec) (Run, error) {
	ctx = context.WithoutCancel(ctx)
	r, err := e.beginClose(id)
	if err != nil {
		return Run{}, fmt.Errorf("close run: %w", err)
	}
	if s.Wait == 0 {
		s.Wait = DefaultCloseWait
	}
	cancelled := e.waitForCalls(r.idle, s.Wait, r.inFlight, errRunClosing)
	p, err := e.prepareClosed(r, s, cancelled)
	if err != nil {
		return Run{}, fmt.Errorf("close run: %w", err)
	}
	t, err := e.store.SequenceClosing(func(q *store.Sequencer) error {
		q.Add(p)
		return nil
	})
	if err == nil {
		_, err = t.Wait(ctx)
	}
	if err != nil {
		return Run{}, fmt.Errorf("close run: %w", err)
	}
	e.mu.Lock()
	delete(e.runs, id)
	delete(e.tokens, r.token)
	e.mu.Unlock()
	return e.Run(id)
}

// beginClose stops admissions to the run.
func (e *Engine) beginClose(id string) (*run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[id]
	if r == nil {
		known, err := e.runKnown(id)
		switch {
		case err != nil:
			return nil, err
		case known:
			return nil, fmt.Errorf("run %s: %w", id, ErrRunClosed)
		}
		return nil, fmt.Errorf("run %s: %w", id, ErrRunUnknown)
	}
	if r.closing {
		return nil, fmt.Errorf("run %s: %w", id, ErrRunClosed)
	}
	r.closing = true
	if len(r.calls) == 0 {
		close(r.idle)
	}
	return r, nil
}

// inFlight lists the run's calls without outcome. The caller holds mu.
func (r *run) inFlight() []*Call {
	calls := make([]*Call, 0, len(r.calls))
	for c := range r.calls {
		calls = append(calls, c)
	}
	return calls
}

// prepareClosed prepares run.closed. All outcomes of the run are durable, so
// the ledger's own totals are the run's.
func (e *Engine) prepareClosed(r *run, s CloseSpec, cancelled int) (*store.Prepared, error) {
	t, err := e.store.Total(chain.ScopeRun, r.id)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(struct {
		Reason    string `json:"reason,omitempty"`
		ExitCode  *int   `json:"exit_code,omitempty"`
		Cancelled int    `json:"cancelled,omitempty"`
	}{s.Reason, s.ExitCode, cancelled})
	if err != nil {
		return nil, err
	}
	return prepare(chain.Header{
		Type: chain.TypeRunClosed, Run: r.id, Actor: r.actor, Peer: s.Peer,
		Totals: &chain.RunTotals{Calls: t.Calls, Cost: t.Cost, Failed: t.Failed, Unpriced: t.Unpriced},
	}, content)
}

// Run tells where a run stands, by its durable events.
func (e *Engine) Run(id string) (Run, error) {
	state, ok, err := e.store.Run(id)
	if err != nil {
		return Run{}, err
	}
	if !ok {
		return Run{}, fmt.Errorf("run %s: %w", id, ErrRunUnknown)
	}
	return e.describeRun(id, state)
}

// Runs lists every run, in the order of their ids.
func (e *Engine) Runs(ctx context.Context) ([]Run, error) {
	type entry struct {
		id    string
		state chain.RunState
	}
	var list []entry
	err := e.store.Runs(func(id string, state chain.RunState) error {
		list = append(list, entry{id, state})
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs := make([]Run, 0, len(list))
	for _, x := range list {
		r, err := e.describeRun(x.id, x.state)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func (e *Engine) describeRun(id string, state chain.RunState) (Run, error) {
	r := Run{ID: id, Opened: state.First, Closed: state.Closed, RunSeq: state.RunSeq}
	o, actor, err := e.readOpened(state.First)
	if err != nil {
		return Run{}, err
	}
	r.Name, r.Upstreams, r.Implicit, r.Actor = o.Name, o.Upstreams, o.Implicit, actor
	if r.Totals, err = e.store.Total(chain.ScopeRun, id); err != nil {
		return Run{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if open := e.runs[id]; open != nil {
		r.OpenCalls = len(open.calls)
	}
	return r, nil
}

// readOpened reads a run's first event.
func (e *Engine) readOpened(seq uint64) (o runOpened, actor *chain.Actor, err error) {
	events, err := e.store.Read(seq, 1)
	if err != nil || len(events) == 0 {
		return o, nil, fmt.Errorf("read run.opened at %d: %w", seq, err)
	}
	h, err := chain.ParseHeader(events[0].Header)
	if err != nil {
		return o, nil, fmt.Errorf("read run.opened at %d: %w", seq, err)
	}
	if events[0].Content != nil { // else erased, and the name with it
		if err := json.Unmarshal(events[0].Content, &o); err != nil {
			return o, nil, fmt.Errorf("read run.opened at %d: %w", seq, err)
		}
	}
	return o, h.Actor, nil
}

// RunByToken finds the open run that a call belongs to. A token ends with its
// run: of one that closes it is ErrRunClosed, afterwards ErrRunUnknown.
func (e *Engine) RunByToken(token string) (Run, error) {
	sum := sha256.Sum256([]byte(token))
	e.mu.Lock()
	id, ok := e.tokens[sum]
	r := e.runs[id]
	closed := r == nil || r.closing
	e.mu.Unlock()
	switch {
	case !ok:
		return Run{}, fmt.Errorf("run token: %w", ErrRunUnknown)
	case closed:
		return Run{}, fmt.Errorf("run %s: %w", id, ErrRunClosed)
	}
	return Run{ID: id, Name: r.opened.Name, Upstreams: r.opened.Upstreams, Actor: r.actor}, nil
}
