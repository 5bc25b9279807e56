package store

import (
	"errors"
	"fmt"
)

// Errors of opening a ledger.
var (
	// ErrNotLedger: the file is there and is no ledger, or so damaged that
	// it can't be told. It is left as it is.
	ErrNotLedger = errors.New("not a docket ledger, or damaged")
	// ErrInUse: another process, or another Store of this one, holds it.
	ErrInUse = errors.New("ledger in use")
	// ErrUnsafeFile: the file is a link, has several names, belongs to
	// somebody else, was swapped, or lies on a file system without reliable
	// locks.
	ErrUnsafeFile = errors.New("file not fit to hold a ledger")
	// ErrNoSpace: the disk has no room for what has to be written. Nothing
	// was.
	ErrNoSpace = errors.New("not enough room on the disk")
)

// Errors of appending.
var (
	// ErrClosed: the Store was closed.
	ErrClosed = errors.New("ledger closed")
	// ErrLatched: storage failed once, so nothing more is written by this
	// process. The events in hand at that moment have ErrOutcomeUnknown
	// besides: only the next start tells whether they were kept.
	ErrLatched = errors.New("storage failed and the ledger is latched")
	// ErrOutcomeUnknown: the wait ended before the event was durable. It may
	// be kept all the same; an idempotency key tells on the next try.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrKeyConflict: the idempotency key belongs to another draft.
	ErrKeyConflict = errors.New("idempotency key used with another draft")
	// ErrFull: the ledger has reached the largest number of an event.
	ErrFull = errors.New("ledger has no number left")
)

// latchError is what every append gets once the ledger is latched.
type latchError struct {
	cause   error
	unknown bool // the event was in hand
}

func (e *latchError) Error() string {
	if e.unknown {
		return fmt.Sprintf("%v; %v: %v", ErrOutcomeUnknown, ErrLatched, e.cause)
	}
	return fmt.Sprintf("%v: %v", ErrLatched, e.cause)
}

func (e *latchError) Unwrap() []error {
	if e.unknown {
		return []error{ErrOutcomeUnknown, ErrLatched, e.cause}
	}
	return []error{ErrLatched, e.cause}
}
