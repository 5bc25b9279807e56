// Package verify re-checks a ledger from its bytes alone: a copy of the
// database, an export (plain or zstd) or a receipt. It shares no code with the
// writer but package chain, starts no service, uses no network and writes
// nothing but a temporary file of its own where a stream has to be kept.
//
// # What it answers
//
// [File] and [Reader] return a [Report] for everything that can be read,
// whatever is wrong with it; an error means that reading itself failed. The
// report holds one [Verdict] and every [Fault] with its place, in the order of
// docs/format.md, section 8; what stays consistent and what an anchor proves;
// each check that was made and, with the reason, each that was not. The same
// bytes give the same report, however many cores work on it.
//
// A verdict without an [Anchor] from outside means "consistent with itself":
// whoever holds the only copy can rewrite all of it. An anchor (a checkpoint,
// a receipt, or a size and a head that the owner couldn't change since) turns
// that into "this is the history that was there then".
//
// # What it relies on
//
// Events are all that counts. The other buckets of a database are derived from
// them and never believed, with one exception that can only make the verdict
// worse: where the file's own head names more events than the file holds, it
// is torn.
//
// Nothing of an input is trusted. Every loop is bounded by the input's length
// or by a limit that is named where it is used; a database is read by this
// package's own reader of pages ([Source]), within bounds and each page once,
// never through a memory map and never by the database's own code. Memory does
// not grow with the number of events, but for one bit each where contents are
// present, and with the runs, open calls, held locks and scopes of caps.
//
// # What it leaves to others
//
// Time stamps (RFC 3161) and later cosignatures kept in ledger.anchored are
// not judged; the uniqueness of idempotency keys is the writer's duty; class
// names and prices have no meaning here, costs are recomputed from each row's
// own figures. The command line prints reports, and salvage copies what a
// [Source] hands out.
package verify
