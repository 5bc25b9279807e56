// Package store is the only writer of a ledger file. It owns how an event gets
// its place in the chain and onto the disk, who may write, what a failure of
// the storage means, and what is derived from the events. What an event is
// made of is package chain's; the schema of the file is package migrations'.
//
// # What it promises
//
//   - Append, AppendAll and Ticket.Wait return when the event is on the disk,
//     its data and the meta page that makes it count both synced, and the file
//     is still the one at the path. Never before.
//   - One writer. The ledger file itself is locked for life by flock; a second
//     Open, in this process or another, is ErrInUse and names the holder. Any
//     mix of appends by any number of goroutines gives one contiguous chain.
//   - Events are created, never replaced. Event, head, run_seq, idempotency
//     key, open calls, totals and tree frontier move in one commit.
//   - AppendAll, and what one Sequence call adds, is consecutive and kept whole
//     or not at all.
//   - The same idempotency key gives the first receipt again; another draft
//     under it is ErrKeyConflict, and nothing of the batch is written.
//   - Any commit error is final (the latch): nothing is written after it, every
//     append is refused with ErrLatched, Dead is closed. Who waited for an event
//     in that commit gets ErrOutcomeUnknown besides; who waited behind it does
//     not, since those events were surely not written.
//   - Readers see what is durable and nothing else, in memory of their own.
//   - Open makes, repairs and deletes nothing unasked: where it fails, the
//     ledger file has not changed by a byte.
//   - What is derived is never trusted: a checksum tells at each start whether
//     it is what the last commit left; if not, it is computed anew from the
//     events. Where the events don't bear that, the start is refused.
//
// # Decisions that need the order of events
//
// Sequence calls a function where numbers are assigned. What it decides there
// (a fence is live, a run is open, a cap is not reached) holds for the events
// that it adds, because nothing else gets a number meanwhile. It may read the
// ledger. An event that it has to record it adds itself: that is how to append
// from inside the writer's own path.
//
// # After an unclean end
//
// A marker beside the file (dirty, or NAME.dirty beside another name than
// ledger.db) is durable before the first append and removed by Close. It tells
// the next start what happened: a killed process needs a look at the tail; a
// storage error, a power cut, or a marker that can't be read need the file
// rewritten, for which Options.Verify is given. docs/design/commit-path.md has
// the table and the reasons.
//
// # Space
//
// Some room on the disk is kept. When it has no more than that, Append and
// Sequence refuse with ErrNoSpace, with nothing written and nothing latched, and
// SequenceClosing still admits events that end what has begun.
//
// # What it leaves to others
//
// It takes any well-formed event: which types a client may send, and what a run,
// a call, a cap or a lock may do, is engine's. It keeps commitments to bodies,
// not bodies. It judges the tail of its own file, not ledgers: that is package
// verify's, which shares no code with this one but chain.
//
// BUG(store): after a panic of the database in a commit, Close lets go of the
// file and its lock, and leaves the file's map to the end of the process.
package store
