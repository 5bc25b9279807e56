package boundary

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/meter"
)

// Options says what a Handler records to and where calls go.
type Options struct {
	// Recorder takes the records; Record makes one of an engine. Required.
	Recorder Recorder
	// Upstreams stand beside DefaultUpstreams, or in the place of those with
	// the same name.
	Upstreams map[string]Upstream
	// Log takes one line a call and one a refusal, without any header, body,
	// query, token or foreign error text. nil: none are written.
	Log *slog.Logger
	// MaxBody is the largest request body, in bytes: at least MinBody, and
	// MinBody if 0. A larger request is refused and recorded.
	MaxBody int64
	// BodyBudget bounds all request bodies in memory together, in bytes: at
	// least MaxBody; 8 × MaxBody if 0. Who does not fit waits.
	BodyBudget int64
	// HeadWait is how long a provider may take from the start of a call to its
	// answer's head; 15 minutes if 0. After it the call is a model.failed with
	// reason timeout.
	HeadWait time.Duration
	// Idle is the longest silence inside an answer; 10 minutes if 0. After it
	// the answer is cut. There is no limit to how long an answer may take.
	Idle time.Duration
	// ClientWait is how long a client may take to send or take one piece;
	// 2 minutes if 0.
	ClientWait time.Duration
}

// Handler is the boundary: an http.Handler for the paths below Prefix. It is
// safe for concurrent use.
type Handler struct {
	recorder  Recorder
	upstreams map[string]upstream
	log       *slog.Logger
	maxBody   int64
	headWait  time.Duration
	idle      time.Duration
	wait      time.Duration

	transport http.RoundTripper
	budget    *budget
	counts    counts
	buffers   buffers
	quiet     *log.Logger // for what httputil would say: it can hold foreign text
}

// New makes a boundary. The error says which option is wrong.
func New(o Options) (*Handler, error) {
	ups, err := checkUpstreams(o.Upstreams)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		recorder: o.Recorder, upstreams: ups, log: o.Log, transport: newTransports(),
		maxBody: o.MaxBody, headWait: o.HeadWait, idle: o.Idle, wait: o.ClientWait,
		counts: newCounts(), quiet: log.New(io.Discard, "", 0),
	}
	if h.recorder == nil {
		return nil, errors.New("boundary needs a recorder")
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.maxBody == 0 {
		h.maxBody = MinBody
	}
	if h.maxBody < MinBody {
		return nil, fmt.Errorf("a request body limit of %d bytes is below the least of %d", h.maxBody, MinBody)
	}
	size := o.BodyBudget
	if size == 0 {
		size = bodiesInFlight * h.maxBody
	}
	if size < h.maxBody {
		return nil, fmt.Errorf("a budget of %d bytes for request bodies is below the limit of one, %d", size, h.maxBody)
	}
	h.budget = newBudget(size)
	for _, d := range []struct {
		of   *time.Duration
		zero time.Duration
	}{{&h.headWait, defaultHeadWait}, {&h.idle, defaultIdle}, {&h.wait, defaultClientWait}} {
		if *d.of < 0 {
			return nil, fmt.Errorf("a wait of %v is below zero", *d.of)
		}
		if *d.of == 0 {
			*d.of = d.zero
		}
	}
	return h, nil
}

// Close drops the idle connections to upstreams. Calls in flight are the
// engine's to end: it cancels their contexts.
func (h *Handler) Close() {
	if t, ok := h.transport.(*transports); ok {
		t.closeIdle()
	}
}

// runToken is the form of a run token.
var runToken = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ServeHTTP forwards one call, or refuses it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := &tracked{ResponseWriter: w}
	defer h.contain(to, r)
	// A deadline left behind would fall into another request on the same
	// connection. Where there are no deadlines there is nothing to clear.
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	bodyIsUnread(to, h.wait)
	h.serve(to, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	a, ok := parseAddress(r.URL)
	dialect := h.upstreams[a.upstream].dialect // "" makes errors of OpenAI's shape
	if !ok {
		h.answer(w, r, dialect, noAddress)
		return
	}
	run, err := engine.Run{}, engine.ErrRunUnknown
	if runToken.MatchString(a.token) {
		run, err = h.recorder.RunByToken(a.token)
	}
	if err != nil {
		h.answer(w, r, dialect, h.notTaken(r, err))
		return
	}
	up, spec, why := h.consider(run, a, r)
	if why != nil {
		h.refuse(w, r, spec, dialect, *why)
		return
	}
	h.take(w, r, up, a.path, spec)
}

// consider decides on a request by all that is known before its body.
func (h *Handler) consider(run engine.Run, a address, r *http.Request) (upstream, engine.CallSpec, *refusal) {
	spec := engine.CallSpec{Run: run.ID, Actor: run.Actor}
	spec.Upstream, spec.Method, spec.Path = recordable(a, r.Method)
	no := func(code string, status int, err error) *refusal {
		return &refusal{code, status, err.Error()}
	}
	up, err := h.upstreamOf(run, a.upstream)
	if err != nil {
		return up, spec, no(CodePolicy, statusOf(CodePolicy), err)
	}
	spec.Provider = up.provider
	if r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect {
		// An accepted upgrade would be a tunnel past the meter. 426 is what
		// clients take as "use plain HTTP"; other answers they retry.
		err := errors.New("docket does not switch protocols, since it could not meter what follows; use HTTP/1.1")
		return up, spec, no(CodePolicy, http.StatusUpgradeRequired, err)
	}
	if err := admit(up.dialect, r, a); err != nil {
		return up, spec, no(CodePolicy, statusOf(CodePolicy), err)
	}
	if r.ContentLength > h.maxBody {
		return up, spec, h.tooLarge()
	}
	return up, spec, nil
}

func (h *Handler) tooLarge() *refusal {
	why := refused(CodeTooLarge, fmt.Sprintf("the request's body is larger than %d bytes", h.maxBody))
	return &why
}

// take reads the body, records the call and forwards it.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, up upstream, path string, spec engine.CallSpec) {
	held := h.maxBody // a chunked body has no length yet
	if r.ContentLength >= 0 {
		held = r.ContentLength
	}
	if h.budget.take(r.Context(), held) != nil {
		panic(http.ErrAbortHandler) // the client left: there is nobody to answer
	}
	defer func() { h.budget.give(held) }()
	body, err := readBody(w, r, h.maxBody, h.wait)
	switch {
	case errors.Is(err, errBodyTooLarge):
		h.refuse(w, r, spec, up.dialect, *h.tooLarge())
		return
	case err != nil:
		// Half a request is none: nothing was asked for that could be refused.
		h.writeError(w, r, up.dialect, refusal{status: http.StatusBadRequest, message: "the request's body did not arrive whole"})
		return
	}
	if spare := held - int64(len(body)); spare > 0 {
		h.budget.give(spare)
		held -= spare
	}
	h.begin(w, r, up, path, spec, body)
}

// begin records the call; once that is durable the call leaves.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, up upstream, path string, spec engine.CallSpec, body []byte) {
	part := engine.NewPart("request", mediaOf(r.Header))
	// A PartWriter hashes; it has nothing to fail with.
	_, _ = part.Write(body)
	c := meter.Call{Provider: up.provider, Dialect: up.dialect, Method: r.Method, Path: path, Body: plainBody(r.Header, body)}
	asked := meter.ParseRequest(c)
	c.Parsed = &asked
	if len(asked.Model) > maxModel {
		spec.Model = fmt.Sprintf("(too long, %d bytes)", len(asked.Model))
		h.refuse(w, r, spec, up.dialect, refused(CodePolicy, fmt.Sprintf("the model's name is longer than %d bytes", maxModel)))
		return
	}
	out, added := askForUsage(c, r.Header, body)
	spec.Model, spec.Stream, spec.Request, spec.AddedUsage = asked.Model, asked.Stream, part.Part(), added

	began := time.Now()
	call, err := h.recorder.Begin(r.Context(), spec)
	if err != nil {
		h.answer(w, r, up.dialect, h.notTaken(r, err))
		return
	}
	e := &exchange{
		h: h, up: up, call: call, metered: c, began: began, run: spec.Run,
		w: w, target: up.target(path, r.URL.RawQuery), out: out, filtered: added,
	}
	e.serve(r)
}

// contain ends a panic. The call's outcome is recorded already: exchange sees
// to that. What is left is to end the answer without telling anybody what the
// panic's value was, since that could be a header.
func (h *Handler) contain(w *tracked, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		h.log.ErrorContext(r.Context(), "panic", "kind", panicKind(p), "stack", string(debug.Stack()))
	}
	if p != http.ErrAbortHandler && !w.wrote {
		clear(w.Header())
		a, _ := parseAddress(r.URL)
		h.writeError(w, r, h.upstreams[a.upstream].dialect, refusal{status: http.StatusInternalServerError, message: "internal fault; the call's record says how far it came"})
		return
	}
	// The server drops the connection without a word, so that the client does
	// not take what it has for the whole answer.
	panic(http.ErrAbortHandler)
}

// panicKind names a panic: the runtime's own are told in full.
func panicKind(p any) string {
	if fault, ok := p.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", p)
}

// tracked notes whether anything of an answer was written.
type tracked struct {
	http.ResponseWriter
	wrote bool
}

func (t *tracked) WriteHeader(status int) {
	if status >= http.StatusOK { // the others come before the answer
		t.wrote = true
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(p []byte) (int, error) {
	t.wrote = true
	return t.ResponseWriter.Write(p)
}

func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// extend gives the client its time for the next piece.
func (h *Handler) extend(w http.ResponseWriter) {
	// Not every writer has deadlines; one that has not can't hang on them.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.wait))
}

// buffers lends httputil its copy buffers.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
