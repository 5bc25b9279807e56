// Package chain holds the bytes of a ledger: what an event is, how it is spelled,
// hashed, committed to and exported, and where things lie in a ledger's file. It
// is pure. It opens nothing, reads no clock and draws no random number; salts,
// moments and bytes are handed in. Whoever writes a ledger and whoever checks one
// share this package and no other, so a rule of form has one place.
//
// The contract is docs/format.md, whose sections are cited throughout. This page
// shows its bytes.
//
// # Events
//
// An event has two halves. The header is hashed and is never taken away. The
// content is anything that one JSON object can say; the header holds only a
// commitment to it, so it can be withheld from a copy, or erased for good, and
// everything still checks.
//
// Both halves are stored and exported in canonical JSON (RFC 8785): no white
// space, members sorted by the UTF-16 code units of their names, one spelling of
// every string and number. A header is closed: it has the members that [Header]
// has fields for, each of one form, and no others. [ParseHeader] accepts exactly
// those bytes that [Header.Append] gives back, and every refusal is a [FormError]
// with the JSON Pointer of the member. A writer calls [Header.Check] before it
// hashes.
//
// Content is open. [CanonicalContent] makes it canonical on its way in. It never
// changes a value: numbers that a double does not hold, negative zeros, members
// given twice, lone surrogates and bytes that are no UTF-8 are refused, and the
// sender is told where. [CheckContent] judges content that is read from a file,
// which has to be canonical as it stands.
//
// # Hashes
//
// Every hash is BLAKE3 with 32 bytes of output in derive_key mode, under one of
// five contexts, so that what was hashed as one thing can't be passed off as
// another. Each context is "docketd 2026-11-30 ledger v1 " and a word:
//
//	event    canonical header: EventHash, and prev of the next event
//	content  salt, canonical content: ContentCommit, the header's content
//	part     salt, a body's bytes: PartCommit and PartHasher
//	id       canonical {"keys":…,"nonce":…}: LedgerID, the first 16 bytes
//	genesis  the id as text: Genesis, prev of event 1
//
// A salt is 16 random bytes of its own for each content and each body. Without
// it a commitment to a short text could be guessed.
//
// # An example
//
// A ledger without keys, nonce 0f00…, whose second event was sent as
//
//	{ "name": "read_file", "limit": 1e2 }
//
// with the salts 0100… and 0200…. Its id, its two events, the line that an export
// has for the second one, and the trailer:
//
//	id      271ce01e362e7aac1e4100493f071530
//	content {"created_by":"example","format":"docketd.ledger/1","keys":[],"ledger":"271ce01e362e7aac1e4100493f071530","nonce":"0f000000000000000000000000000000"}
//	header  {"content":"b73980a6115ec288c087622e4c8550d237eaa952c24cecf7ecaa9679a7c92fc8","prev":"6e2cb67cf5e985b09c5053b5e484986cb1d98042a3698e54d255e679f7af7d03","seq":1,"ts":"2026-11-30T12:00:00.000000000Z","type":"ledger.created"}
//	hash    7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5
//	content {"limit":100,"name":"read_file"}
//	header  {"content":"7012fad0899c1a3f3fb2efaf4bf5250e3e624dba1db316c7bf65366cc1625091","prev":"7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5","seq":2,"ts":"2026-11-30T12:00:01.500000000Z","type":"tool.call"}
//	hash    e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869
//	line    {"content":{"limit":100,"name":"read_file"},"hash":"e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869","header":{"content":"7012fad0899c1a3f3fb2efaf4bf5250e3e624dba1db316c7bf65366cc1625091","prev":"7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5","seq":2,"ts":"2026-11-30T12:00:01.500000000Z","type":"tool.call"},"salt":"02000000000000000000000000000000"}
//	trailer {"trailer":{"bodies":0,"erased":0,"events":2,"first":1,"head":"e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869","last":2,"root":"4694f544b6220fa92e4ac67f84a79f5cb0ef24117bf2281c4619bcc9cb941989","withheld":0}}
//
// # Tree
//
// Beside the chain grows the Merkle tree of RFC 6962 over the same events: SHA-256,
// leaf i being the hash of event i + 1. A writer keeps no more of it than its
// right edge, the [Frontier]: one root for each bit that is set in the number of
// events. From it come the root that checkpoints sign and, in an export that
// begins after event 1, the peaks from which a checker goes on.
//
// # Money
//
// Prices and costs are decimal strings, never JSON numbers. A [Decimal] is exact,
// has one spelling, and no operation rounds.
//
// # Exports
//
// An export is one canonical JSON object a line: events, the bodies that they
// commit to, and a trailer ([Event.AppendLine], [Body.AppendLine],
// [Trailer.AppendLine], all read by [ParseLine]). The bytes of header and content
// stand in the line as they were hashed, so a line can be checked without a JSON
// library: docs/verify-by-hand.md.
//
// # File
//
// A ledger's file has the buckets that [Buckets] lists. The events alone are
// evidence; all else is derived from them in the same transaction and can be
// computed again. Numbers are big-endian, so that keys rise with them:
//
//	events  8 bytes of seq → hash, a flag byte, header, salt and content, part salts
//	meta    "schema" → 4 bytes; "head" → seq, hash, the frontier's peaks;
//	        "derived" → the writer's checksum over what is derived, 32 bytes
//	runs    run id → run_seq, first seq, last seq, seq of run.closed or 0
//	keys    idempotency key → 8 bytes of seq
//	calls   8 bytes of seq of a request without an outcome → run id
//	totals  scope and what tells it apart, joined by NUL → four counts, cost
//
// The flag is 1 where salt and content are there; header, content and part names
// stand behind their length as an unsigned varint. Each value has one encoding,
// and a reader refuses any other with [ErrLayout].
//
// # Left to others
//
// This package judges one event, one line, one value at a time. Whether hashes,
// links, costs, runs, calls, locks and caps hold is for a verifier; the text and
// the signatures of notes are for package receipt; when to write what is for a
// writer. Programs call [SelfTest] before they trust a hash.
package chain
