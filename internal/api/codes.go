package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

// Code is one of the ways in which a request can be refused or fail. The list
// is closed: what a client sees in "code", the HTTP status that goes with it
// and the exit code of a command that meets it stand here and nowhere else.
type Code struct {
	Name    string // the member "code" of an error body
	Status  int    // of the HTTP answer
	Exit    int    // of a command that the answer ends
	Meaning string // one phrase, for the documentation
}

// The codes.
var (
	BadRequest      = Code{"bad-request", http.StatusBadRequest, 2, "the request's form is not what this route takes"}
	BadDraft        = Code{"bad-draft", http.StatusBadRequest, 2, "the draft is not an event that the format allows"}
	ReservedType    = Code{"reserved-type", http.StatusBadRequest, 2, "events of this type are written by the service alone"}
	Unauthorized    = Code{"unauthorized", http.StatusUnauthorized, 1, "the bearer token is missing or wrong"}
	ForeignHost     = Code{"foreign-host", http.StatusForbidden, 1, "the Host is not this service's own loopback address"}
	ForeignOrigin   = Code{"foreign-origin", http.StatusForbidden, 1, "the request comes from another site's page"}
	NotFound        = Code{"not-found", http.StatusNotFound, 1, "there is no such route"}
	RunUnknown      = Code{"run-unknown", http.StatusNotFound, 1, "the ledger has no such run"}
	WrongMethod     = Code{"method-not-allowed", http.StatusMethodNotAllowed, 1, "the route does not take this method"}
	RunClosed       = Code{"run-closed", http.StatusConflict, 1, "the run has ended and its id is never used again"}
	RunExists       = Code{"run-exists", http.StatusConflict, 1, "the run id was used before"}
	KeyConflict     = Code{"key-conflict", http.StatusConflict, 1, "the idempotency key belongs to another draft"}
	FenceStale      = Code{"fence-stale", http.StatusConflict, 1, "the actor's fence is not that of a live lock"}
	NoKey           = Code{"no-signing-key", http.StatusConflict, 1, "the service has no key to sign with"}
	TooLarge        = Code{"too-large", http.StatusRequestEntityTooLarge, 1, "the request is larger than this route takes"}
	WrongMedia      = Code{"unsupported-media", http.StatusUnsupportedMediaType, 1, "the body's type or encoding is not one that this route takes"}
	NoUpgrade       = Code{"upgrade-refused", http.StatusUpgradeRequired, 1, "the service speaks HTTP/1.1 alone"}
	Busy            = Code{"busy", http.StatusTooManyRequests, 1, "too many requests are in hand"}
	Internal        = Code{"internal", http.StatusInternalServerError, 1, "the service met a fault of its own"}
	Latched         = Code{"ledger-unavailable", http.StatusServiceUnavailable, 1, "storage failed, and nothing is written until a restart"}
	NoSpace         = Code{"no-space", http.StatusInsufficientStorage, 1, "the disk is nearly full: calls in flight are still settled, new events are not taken"}
	Stopping        = Code{"stopping", http.StatusServiceUnavailable, 1, "the service is shutting down"}
	OutcomeUnknown  = Code{"outcome-unknown", http.StatusGatewayTimeout, 1, "the wait ended before it was known whether the event was kept"}
	AmbiguousLength = Code{"ambiguous-length", http.StatusBadRequest, 1, "the request gives its length in more than one way"}
)

// Codes lists every code, in the order of the documentation.
func Codes() []Code {
	return []Code{
		BadRequest, BadDraft, ReservedType, Unauthorized, ForeignHost, ForeignOrigin, NotFound, RunUnknown,
		WrongMethod, RunClosed, RunExists, KeyConflict, FenceStale, NoKey, TooLarge, WrongMedia, NoUpgrade, Busy,
		Internal, Latched, NoSpace, Stopping, OutcomeUnknown, AmbiguousLength,
	}
}

// A refusal is an error that knows its code. Message says what and where, Hint
// what to do.
type refusal struct {
	code    Code
	message string
	hint    string
	cause   error
}

func (r *refusal) Error() string { return r.code.Name + ": " + r.message }

func (r *refusal) Unwrap() error { return r.cause }

func refuse(c Code, hint, format string, args ...any) error {
	return &refusal{code: c, message: fmt.Sprintf(format, args...), hint: hint}
}

// faultOf gives any error its code. An error that nothing here knows is
// Internal: its text goes to the log and not to the client, since it may
// name what is none of the client's business.
func faultOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &refusal{code: k.code, message: err.Error(), hint: k.hint, cause: err}
		}
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &refusal{
			code: TooLarge, message: fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit),
			hint: "send large bodies as the files of a multipart request", cause: err,
		}
	}
	return &refusal{code: Internal, message: "the service met a fault; its log says more", hint: "look at the log of docketd", cause: err}
}

// known maps the errors of engine and chain. The first that fits counts.
var known = []struct {
	err  error
	code Code
	hint string
}{
	{engine.ErrOutcomeUnknown, OutcomeUnknown, "repeat the draft with the same key: if the event was kept, the first answer comes again"},
	{engine.ErrLatched, Latched, "restart docketd: it examines the file before it serves again"},
	{engine.ErrNoSpace, NoSpace, "make room on the ledger's disk; nothing was written, and nothing is lost"},
	{engine.ErrStopping, Stopping, "wait until docketd runs again"},
	{engine.ErrRunClosed, RunClosed, "open another run"},
	{engine.ErrRunUnknown, RunUnknown, "GET /v1/runs lists the runs"},
	{engine.ErrRunExists, RunExists, "choose another id, or leave it out to get a random one"},
	{engine.ErrReserved, ReservedType, "choose a type outside the service's own prefixes, as in \"tool.call\""},
	{engine.ErrKeyConflict, KeyConflict, "use a fresh key for another draft"},
	{engine.ErrStaleFence, FenceStale, "leave the fence out: an actor without one says nothing about locks"},
	{engine.ErrNoKey, NoKey, "the service was started without docketd.key"},
	{engine.ErrRange, BadRequest, "GET /v1/head has the last number"},
	{engine.ErrScope, BadRequest, "use ledger, run, model, role or day"},
	{chain.ErrForm, BadDraft, "docs/format.md, section 1 has the form of each member"},
}
