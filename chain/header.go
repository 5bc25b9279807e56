package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"time"
)

// Header is the part of an event that is hashed and lasts for ever:
// docs/format.md, section 1. Pointers, maps, zero integers and empty strings
// stand for members that are absent.
type Header struct {
	Seq     uint64 // from 1
	TS      string // YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ
	Type    string
	Prev    Hash // hash of the event before; the genesis value for seq 1
	Content Hash // commitment to the content

	Run    string // together with RunSeq
	RunSeq uint64 // from 1

	Actor  *Actor
	Call   uint64 // seq of the model.request that this outcome settles
	Meter  *Meter
	Totals *RunTotals
	Cap    *Cap
	Note   string // a signed note
	Keys   []Key
	Erased *Erased
	Parts  map[string]Part
	Key    string // the client's idempotency key
	Peer   *Peer
}

// Actor is who is said to have acted.
type Actor struct {
	Role, Context, Pass string
	Fence               uint64 // seq of the lock.acquired; 0 where there is none
}

// Meter is what one call used and what that cost: docs/format.md, section 4.
type Meter struct {
	Model    string
	Provider string
	Source   string             // reported, estimated or none
	Usage    map[string]uint64  // units by class
	Prices   map[string]Decimal // USD per million units by class
	Cost     *Decimal           // USD; nil where the call is unpriced
}

// Sources of a meter.
const (
	SourceReported  = "reported"
	SourceEstimated = "estimated"
	SourceNone      = "none"
)

// RunTotals is what run.closed says of its run.
type RunTotals struct {
	Calls    uint64  // model.response events
	Cost     Decimal // sum of the priced ones, in USD
	Failed   uint64  // model.failed events
	Unpriced uint64  // model.response events without a cost
}

// Cap is a limit that was set, or that was found exceeded.
type Cap struct {
	Scope   string   // ledger, day, month, run, role or context
	Limit   *Decimal // USD; nil in a cap.set that lifts the cap
	Spent   *Decimal // USD; cap.exceeded only
	Period  string   // "2026-11-30" or "2026-11"; cap.exceeded of day and month
	Run     string
	Role    string
	Context string
}

// Scopes of a cap.
const (
	ScopeLedger  = "ledger"
	ScopeDay     = "day"
	ScopeMonth   = "month"
	ScopeRun     = "run"
	ScopeRole    = "role"
	ScopeContext = "context"
)

// Erased names what a ledger.erased took away; both lists rise strictly.
type Erased struct {
	Parts []Hash
	Seqs  []uint64
}

// Part commits to a body that is kept outside the event.
type Part struct {
	Bytes  uint64
	Commit Hash
	Media  string
}

// Peer is what the service itself saw at the other end of its socket.
type Peer struct{ GID, PID, UID uint64 }

// Key is an Ed25519 public key of a ledger.
type Key [ed25519.PublicKeySize]byte

// keyEd25519 is the type byte in front of an Ed25519 key.
const keyEd25519 = 0x01

// String spells k as the ledger does: base64 of the type byte and the key.
func (k Key) String() string {
	return base64.StdEncoding.EncodeToString(append([]byte{keyEd25519}, k[:]...))
}

// ParseKey reads a key in the spelling of String.
func ParseKey(s string) (Key, error) {
	b, err := ParseBase64(s)
	if err != nil {
		return Key{}, err
	}
	if len(b) != 1+len(Key{}) || b[0] != keyEd25519 {
		return Key{}, fault("not an Ed25519 key (type byte 1 and 32 bytes)")
	}
	return Key(b[1:]), nil
}

// ParseBase64 reads standard, padded, canonical base64: one spelling of each
// value, so no line breaks and no unused bits set.
func ParseBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(s) {
		return nil, fault("not canonical base64")
	}
	return b, nil
}

// timeLayout is the spelling of ts.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// FormatTime spells t as ts. The year of t has to be one of 1970 to 9999.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// Time is the moment that h.TS names.
func (h *Header) Time() time.Time {
	t, err := time.Parse(timeLayout, h.TS)
	if err != nil {
		panic("chain: ts of a header that was not parsed: " + err.Error())
	}
	return t
}

// The event types that docs/format.md gives a meaning.
const (
	TypeCreated      = "ledger.created"
	TypeCheckpoint   = "ledger.checkpoint"
	TypeErased       = "ledger.erased"
	TypeAnchored     = "ledger.anchored"
	TypeSealed       = "ledger.sealed"
	TypeRequest      = "model.request"
	TypeResponse     = "model.response"
	TypeFailed       = "model.failed"
	TypeRefused      = "model.refused"
	TypeRunOpened    = "run.opened"
	TypeRunClosed    = "run.closed"
	TypeLockAcquired = "lock.acquired"
	TypeLockRenewed  = "lock.renewed"
	TypeLockReleased = "lock.released"
	TypeLockExpired  = "lock.expired"
	TypeLockLost     = "lock.lost"
	TypeLockRefused  = "lock.refused"
	TypeCapSet       = "cap.set"
	TypeCapExceeded  = "cap.exceeded"
	TypeKeyRotated   = "key.rotated"
	TypeServiceStart = "service.started"
	TypeServiceStop  = "service.stopped"
	TypePricesLoaded = "prices.loaded"
	TypeEvExported   = "evidence.exported"
	TypeEvSnapshot   = "evidence.snapshot"
	TypeEvidenceLost = "evidence.lost"
)

// closedTypes holds every type under a closed prefix, under its own name.
var closedTypes = func() map[string]string {
	m := map[string]string{}
	for _, t := range []string{
		TypeCreated, TypeCheckpoint, TypeErased, TypeAnchored, TypeSealed,
		TypeRequest, TypeResponse, TypeFailed, TypeRefused,
		TypeRunOpened, TypeRunClosed,
		TypeLockAcquired, TypeLockRenewed, TypeLockReleased, TypeLockExpired, TypeLockLost, TypeLockRefused,
		TypeCapSet, TypeCapExceeded, TypeKeyRotated,
	} {
		m[t] = t
	}
	return m
}()

// closedPrefixes are the prefixes under which no other type may stand.
var closedPrefixes = []string{"ledger.", "model.", "run.", "lock.", "cap.", "key."}

// Prefix is the part of t up to and with its first point.
func Prefix(t string) string {
	for i := range len(t) {
		if t[i] == '.' {
			return t[:i+1]
		}
	}
	return t
}
