// Package receipt holds what a ledger hands to third parties: its signing
// keys, checkpoints, the notes of key rotations, and receipts of runs. It turns
// them into bytes and back; it judges signatures and paths where it is given
// the key and the root, and it knows no file, no clock and no database.
//
// # Keys
//
// A key is Ed25519 (RFC 8032) in the forms of C2SP signed notes. Its name is
// the ledger's origin, docketd.ledger/1/ and the id, and its key id the first
// four bytes of SHA-256 over name, newline, the byte 0x01 and the key:
//
//	docketd.vkey   NAME+KEYID+base64(0x01 key)
//	docketd.key    PRIVATE+KEY+NAME+KEYID+base64(0x01 seed)
//
// The id of a ledger follows from its first keys, so a [Signer] is made before
// it has a name: [GenerateKey], then chain.LedgerID, then [Signer.PrivateKey]
// and [VerifierKey].
//
// # Checkpoints
//
// A checkpoint is a signed note whose text is three lines: the origin, the
// number of events, and the root of the RFC 6962 tree over their hashes in
// base64. The ledger's own signature comes first; up to 15 of witnesses may
// follow. [SignCheckpoint] writes one, [ParseSignedCheckpoint] reads one and
// believes nothing: whether a key of the ledger signed it is what
// [Note.VerifiedBy] says, once for each key. A rotation's note
// ([RotationText]) names the number and prev of its key.rotated and the new
// keys, so it fits no other place.
//
// Reading accepts one spelling of everything: base64 without unused bits,
// numbers without leading zeros, lines ended by a newline. Every refusal wraps
// [ErrForm].
//
// # Receipts
//
// A receipt (docs/format.md, section 9) holds all events of one run, each with
// its path to one checkpoint. [Parse] reads its form, row by row, so that a
// fault has its place; [Row.CheckProof] follows one path. What the rows say
// about one another is package verify's to judge.
package receipt
