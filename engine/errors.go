package engine

import (
	"errors"

	"github.com/docket-audit/docket/store"
)

// Errors that callers tell apart with errors.Is. A draft of wrong form is a
// *chain.FormError (chain.ErrForm).
var (
	// ErrReserved: the draft's type belongs to the service.
	ErrReserved = errors.New("event type reserved to the service")
	// ErrStaleFence: the draft's actor names a fence that is not live.
	ErrStaleFence = errors.New("fence not live")
	// ErrKeyConflict: the idempotency key belongs to another draft.
	ErrKeyConflict = store.ErrKeyConflict

	// ErrRunExists: the run id was used before.
	ErrRunExists = errors.New("run id used before")
	// ErrRunUnknown: no run has this id, or no open run has this token.
	ErrRunUnknown = errors.New("run unknown")
	// ErrRunClosed: the run is closed, or closing.
	ErrRunClosed = errors.New("run closed")
	// ErrSettled: the call has its outcome already.
	ErrSettled = errors.New("call settled already")
	// ErrScope: costs can't be grouped so.
	ErrScope = errors.New("costs are summed by ledger, run, model, role or day")
	// ErrRange: an export's bounds are not in the ledger.
	ErrRange = errors.New("no such range of events")
	// ErrNoKey: the engine has no key to sign with.
	ErrNoKey = errors.New("no signing key")

	// ErrStopping: the engine admits nothing more.
	ErrStopping = errors.New("service is stopping")
	// ErrLatched: storage failed; nothing more is written by this process.
	ErrLatched = store.ErrLatched
	// ErrNoSpace: the disk is nearly full, and what is left is kept for the
	// outcomes of calls and the close of runs. Nothing was written.
	ErrNoSpace = store.ErrNoSpace
	// ErrOutcomeUnknown: the wait ended before the event was durable.
	ErrOutcomeUnknown = store.ErrOutcomeUnknown
)

// Causes of a call's cancelled context.
var (
	errRunClosing = errors.New("the run was closed while the call was in flight")
	errStopped    = errors.New("the service stopped while the call was in flight")
)
