package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
	"github.com/docket-audit/docket/store"
)

// CallSpec is a call to a model as it is about to be forwarded.
type CallSpec struct {
	Run        string
	Actor      *chain.Actor
	Peer       *chain.Peer
	Upstream   string // name of the upstream
	Provider   string // name in meters and price rows
	Method     string
	Path       string // without the query
	Model      string // requested; may be empty
	Stream     bool
	AddedUsage bool // usage was asked for in the client's place
	Request    Part // the client's body; Name is "request"
}

// Reading is what an answer said of its usage. Who reads answers of their own
// fills in Model, Usage by the classes of docs/design/metering.md, and Source.
type Reading = meter.Reading

// Response is how a call ended whose response head arrived.
type Response struct {
	HTTPStatus int
	Ended      string // EndedComplete and its like
	Reading    Reading
	Body       Part // as the provider sent it; Name is "response"
	Duration   time.Duration
}

// How the body of a response ended.
const (
	EndedComplete = "complete" // whole
	EndedCut      = "cut"      // the upstream broke off
	EndedClient   = "client"   // the client left
	EndedStopped  = "stopped"  // the run was closed or the service stopped
)

// Why no response head arrived.
const (
	FailedConnect = "connect"
	FailedTimeout = "timeout"
	FailedClient  = "client"
	FailedStopped = "stopped"
	failedCrash   = "crash"
)

// Call is a forwarded call that gets exactly one outcome.
type Call struct {
	e       *Engine
	spec    CallSpec
	run     *run
	seq     uint64
	at      time.Time // of the request, for the price in force
	begun   time.Time // monotonic
	ctx     context.Context
	cancel  context.CancelCauseFunc
	settled atomic.Bool
}

// Begin records model.request and returns when it is on the disk: only then
// may the call leave. Where it fails, nothing may be forwarded.
func (e *Engine) Begin(ctx context.Context, s CallSpec) (*Call, error) {
	if err := noFence(s.Actor); err != nil {
		return nil, err
	}
	content, err := json.Marshal(struct {
		AddedUsage bool   `json:"include_usage_added,omitempty"`
		Method     string `json:"method"`
		Model      string `json:"model,omitempty"`
		Path       string `json:"path"`
		Stream     bool   `json:"stream"`
		Upstream   string `json:"upstream"`
	}{s.AddedUsage, s.Method, printable(s.Model), printable(s.Path), s.Stream, s.Upstream})
	if err != nil {
		return nil, fmt.Errorf("begin call: %w", err)
	}
	p, err := prepare(chain.Header{Type: chain.TypeRequest, Run: s.Run, Actor: s.Actor, Peer: s.Peer}, content, s.Request)
	if err != nil {
		return nil, fmt.Errorf("begin call: %w", err)
	}
	c := &Call{e: e, spec: s, at: e.now(), begun: time.Now()}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	t, err := e.store.Sequence(func(q *store.Sequencer) error { return c.admit(q, p) })
	if err != nil {
		c.cancel(err)
		return nil, fmt.Errorf("begin call: %w", err)
	}
	if _, err := t.Wait(ctx); err != nil {
		// The request may become durable after all, and then has to end.
		go func() {
			if _, err := c.Fail(FailedClient, time.Since(c.begun)); err != nil {
				e.log.Warn("call left before it began", "call", c.seq, "error", err.Error())
			}
		}()
		return nil, fmt.Errorf("begin call: %w", err)
	}
	return c, nil
}

// admit is where a call is let through or refused, in the order of events.
func (c *Call) admit(q *store.Sequencer, p *store.Prepared) error {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return ErrStopping
	}
	if err := e.admitsRun(c.spec.Run); err != nil {
		return err
	}
	if err := e.openImplicitly(q, c.spec.Run, c.spec.Peer); err != nil {
		return err
	}
	c.seq = q.Add(p)
	c.run = e.runs[c.spec.Run]
	c.run.calls[c] = struct{}{}
	e.inFlight[c] = struct{}{}
	return nil
}

// Seq is the number of the call's model.request.
func (c *Call) Seq() uint64 { return c.seq }

// Context ends, with a cause, when the run is closed or the engine stops while
// the call is in flight, and when the call is settled.
func (c *Call) Context() context.Context { return c.ctx }

// Respond settles the call as model.response. It returns when that is on the
// disk, whatever has become of the client; only then may the client see the
// end. A second outcome is ErrSettled.
func (c *Call) Respond(r Response) (Receipt, error) {
	if c.settled.Swap(true) {
		return Receipt{}, fmt.Errorf("call %d: %w", c.seq, ErrSettled)
	}
	defer c.leave()
	bill := c.e.prices.Price(c.spec.Provider, r.Reading, c.at)
	p, err := c.prepareResponse(r, bill)
	if err != nil {
		// What can't be recorded as it was read is recorded as unknown:
		// metering never costs a call its row.
		reading := Reading{
			Model: r.Reading.Model, RequestedModel: r.Reading.RequestedModel, Source: chain.SourceNone,
			Note: "the usage could not be recorded: " + err.Error(),
		}
		r.Reading = reading
		p, err = c.prepareResponse(r, c.e.prices.Price(c.spec.Provider, reading, c.at))
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("settle call %d: %w", c.seq, err)
	}
	return c.settle(p)
}

func (c *Call) prepareResponse(r Response, bill meter.Bill) (*store.Prepared, error) {
	content := struct {
		DurationMS     int64             `json:"duration_ms"`
		Ended          string            `json:"ended"`
		ErrorInside    bool              `json:"error_inside,omitempty"`
		HTTPStatus     int               `json:"http_status"`
		Modifiers      map[string]string `json:"modifiers,omitempty"`
		Note           string            `json:"note,omitempty"`
		PriceRow       *meter.RowRef     `json:"price_row,omitempty"`
		RequestedModel string            `json:"requested_model,omitempty"`
		RequestedTier  string            `json:"requested_tier,omitempty"`
		Unpriced       string            `json:"unpriced,omitempty"`
		Upstream       string            `json:"upstream"`
		Usage          any               `json:"usage,omitempty"`
	}{
		DurationMS: r.Duration.Milliseconds(), Ended: r.Ended, ErrorInside: r.Reading.ErrorInside,
		HTTPStatus: r.HTTPStatus, Note: printable(r.Reading.Note), Unpriced: printable(bill.Why),
		RequestedModel: printable(r.Reading.RequestedModel), RequestedTier: printable(r.Reading.RequestedTier),
		Upstream: c.spec.Upstream, Usage: rawUsage(r.Reading.RawUsage),
	}
	for k, v := range r.Reading.Modifiers {
		if content.Modifiers == nil {
			content.Modifiers = map[string]string{}
		}
		content.Modifiers[printable(k)] = printable(v)
	}
	if bill.Row != nil {
		ref := bill.Row.Ref()
		content.PriceRow = &ref
	}
	b, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	h := c.outcome(chain.TypeResponse)
	h.Meter = &bill.Meter
	return prepare(h, b, r.Body)
}

// rawUsage keeps usage as it came: as JSON where the ledger can hold it, else
// as a string of the same bytes.
func rawUsage(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	wrapped := append(append([]byte(`{"usage":`), raw...), '}')
	if _, err := chain.CanonicalContent(wrapped); err == nil {
		return raw
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// printable makes foreign text a string of JSON; bytes that are no UTF-8 are
// shown as U+FFFD, here where the text is only a description.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Fail settles the call as model.failed: no response head arrived.
func (c *Call) Fail(reason string, d time.Duration) (Receipt, error) {
	if c.settled.Swap(true) {
		return Receipt{}, fmt.Errorf("call %d: %w", c.seq, ErrSettled)
	}
	defer c.leave()
	p, err := prepareFailed(c.outcome(chain.TypeFailed), c.spec.Upstream, reason, d)
	if err != nil {
		return Receipt{}, fmt.Errorf("settle call %d: %w", c.seq, err)
	}
	return c.settle(p)
}

func prepareFailed(h chain.Header, upstream, reason string, d time.Duration) (*store.Prepared, error) {
	content, err := json.Marshal(struct {
		DurationMS int64  `json:"duration_ms"`
		Reason     string `json:"reason"`
		Upstream   string `json:"upstream"`
	}{d.Milliseconds(), reason, upstream})
	if err != nil {
		return nil, err
	}
	return prepare(h, content)
}

// outcome is the header of an event that settles c.
func (c *Call) outcome(typ string) chain.Header {
	return chain.Header{Type: typ, Run: c.spec.Run, Actor: c.spec.Actor, Peer: c.spec.Peer, Call: c.seq}
}

// settle appends the outcome, which is admitted whatever else is not: its
// request is in the ledger.
func (c *Call) settle(p *store.Prepared) (Receipt, error) {
	t, err := c.e.store.SequenceClosing(func(q *store.Sequencer) error {
		q.Add(p)
		return nil
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("settle call %d: %w", c.seq, err)
	}
	receipts, err := t.Wait(context.Background())
	if err != nil {
		return Receipt{}, fmt.Errorf("settle call %d: %w", c.seq, err)
	}
	return receipts[0], nil
}

// leave takes the call off the lists of those in flight and wakes who waits
// for them.
func (c *Call) leave() {
	c.cancel(ErrSettled)
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(c.run.calls, c)
	delete(e.inFlight, c)
	if c.run.closing && len(c.run.calls) == 0 {
		close(c.run.idle)
	}
	if e.draining && len(e.inFlight) == 0 {
		close(e.idle)
	}
}

// settleGrace is how long cancelled calls have to settle by themselves.
const settleGrace = 5 * time.Second

// waitForCalls waits for idle, cancels the calls that take longer than wait,
// and settles those that don't end even then. It returns how many it
// cancelled. list is called with mu held.
func (e *Engine) waitForCalls(idle <-chan struct{}, wait time.Duration, list func() []*Call, cause error) int {
	if waitFor(idle, wait) {
		return 0
	}
	e.mu.Lock()
	late := list()
	e.mu.Unlock()
	for _, c := range late {
		c.cancel(cause)
	}
	if waitFor(idle, settleGrace) {
		return len(late)
	}
	e.mu.Lock()
	stuck := list()
	e.mu.Unlock()
	for _, c := range stuck {
		if _, err := c.Fail(FailedStopped, time.Since(c.begun)); err != nil {
			e.log.Warn("call left by its handler", "call", c.seq, "error", err.Error())
		}
	}
	select {
	case <-idle:
	case <-e.store.Dead():
	}
	return len(late)
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// Refuse records model.refused: a call that was not forwarded.
func (e *Engine) Refuse(ctx context.Context, s CallSpec, code string, httpStatus int) (Receipt, error) {
	if err := noFence(s.Actor); err != nil {
		return Receipt{}, err
	}
	content, err := json.Marshal(struct {
		Code       string `json:"code"`
		HTTPStatus int    `json:"http_status"`
		Method     string `json:"method"`
		Model      string `json:"model,omitempty"`
		Path       string `json:"path"`
		Upstream   string `json:"upstream"`
	}{code, httpStatus, s.Method, printable(s.Model), printable(s.Path), s.Upstream})
	if err != nil {
		return Receipt{}, fmt.Errorf("record refusal: %w", err)
	}
	p, err := prepare(chain.Header{Type: chain.TypeRefused, Run: s.Run, Actor: s.Actor, Peer: s.Peer}, content)
	if err != nil {
		return Receipt{}, fmt.Errorf("record refusal: %w", err)
	}
	done, err := e.refusalSlot(ctx, s.Run)
	if err != nil {
		return Receipt{}, fmt.Errorf("record refusal: %w", err)
	}
	defer done()
	t, err := e.store.Sequence(func(q *store.Sequencer) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err := e.admitsRun(s.Run); err != nil {
			return err
		}
		if err := e.openImplicitly(q, s.Run, s.Peer); err != nil {
			return err
		}
		q.Add(p)
		return nil
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("record refusal: %w", err)
	}
	receipts, err := t.Wait(ctx)
	if err != nil {
		return Receipt{}, fmt.Errorf("record refusal: %w", err)
	}
	return receipts[len(receipts)-1], nil
}

// refusalSlot waits for one of the run's slots.
func (e *Engine) refusalSlot(ctx context.Context, id string) (func(), error) {
	e.mu.Lock()
	r := e.runs[id]
	e.mu.Unlock()
	if r == nil {
		return func() {}, nil // decided where the number is assigned
	}
	select {
	case r.refusals <- struct{}{}:
		return func() { <-r.refusals }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
