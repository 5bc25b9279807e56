// Package engine records agent runs into a ledger, for programs that embed
// docket without HTTP. It owns the rules that need the order of events: which
// runs are open, that every forwarded call gets exactly one outcome, that the
// calls of a crash are settled before anything new is admitted, when a
// checkpoint is signed, and what the service itself records. The bytes are
// those of package chain, the file is package store's.
//
// # What it promises
//
//   - Append, Begin, Respond, Fail and Refuse return when their event is on the
//     disk, never before; on an error that leaves the outcome open they say so
//     with ErrOutcomeUnknown or ErrLatched.
//   - A call that Begin let through is settled once: by Respond or Fail, by
//     CloseRun or Drain where its handler doesn't, or by the next Open where the
//     process was killed.
//   - A row is never lost to metering: what can't be recorded as it was read is
//     recorded as source none.
//   - A run that is closed takes nothing more, and its id is never used again.
//   - run.closed carries the totals that the rows give, to the last digit.
//   - What a refused draft would have changed, it has not changed.
//
// # What it leaves to others
//
// Forwarding calls and reading answers is the caller's: internal/boundary does
// it over HTTP. Locks and caps are not part of this version: an actor's fence
// is refused as not live. Judging a ledger is package verify's, which shares
// nothing with this package but chain and receipt.
//
// Everything is decided where numbers are assigned, within store.Sequence, under
// the engine's mutex: the engine's view of runs and calls and the order of
// events can't come apart.
package engine
