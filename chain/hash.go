package chain

import (
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"github.com/zeebo/blake3"
)

// Hash is a BLAKE3 digest: an event's hash, a commitment or a genesis value.
type Hash [32]byte

// Salt is the random prefix of what a commitment is taken over.
type Salt [16]byte

// String spells h in lower-case hex, as the ledger does.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// String spells s in lower-case hex.
func (s Salt) String() string { return hex.EncodeToString(s[:]) }

// ParseHash reads 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if err := parseHex(h[:], []byte(s)); err != nil {
		return Hash{}, err
	}
	return h, nil
}

// ParseSalt reads 32 lower-case hex digits.
func ParseSalt(s string) (Salt, error) {
	var v Salt
	if err := parseHex(v[:], []byte(s)); err != nil {
		return Salt{}, err
	}
	return v, nil
}

// parseHex fills dst from exactly that many lower-case hex digits.
func parseHex(dst, text []byte) error {
	if len(text) != 2*len(dst) {
		return fault(fmt.Sprintf("not %d hex digits", 2*len(dst)))
	}
	for i := range dst {
		hi, lo := hexValue[text[2*i]], hexValue[text[2*i+1]]
		if hi|lo > 15 {
			return fault(fmt.Sprintf("not %d lower-case hex digits", 2*len(dst)))
		}
		dst[i] = hi<<4 | lo
	}
	return nil
}

// hexValue maps lower-case hex digits to their values, all else to 0xff.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

// A kind is one derive_key context of docs/format.md, section 3. Each keeps a
// pool of hashers, since one hasher must never serve two goroutines at once.
type kind struct{ pool sync.Pool }

const contextPrefix = "docketd 2026-11-30 ledger v1 "

func newKind(name string) *kind {
	k := &kind{}
	k.pool.New = func() any { return blake3.NewDeriveKey(contextPrefix + name) }
	return k
}

var (
	kindEvent   = newKind("event")
	kindContent = newKind("content")
	kindPart    = newKind("part")
	kindID      = newKind("id")
	kindGenesis = newKind("genesis")
)

func (k *kind) sum(pieces ...[]byte) Hash {
	h := k.pool.Get().(*blake3.Hasher)
	h.Reset()
	for _, p := range pieces {
		h.Write(p)
	}
	var out Hash
	h.Sum(out[:0])
	k.pool.Put(h)
	return out
}

// EventHash is the hash of an event: of its canonical header.
func EventHash(header []byte) Hash { return kindEvent.sum(header) }

// ContentCommit is the commitment to an event's canonical content.
func ContentCommit(salt Salt, content []byte) Hash { return kindContent.sum(salt[:], content) }

// PartCommit is the commitment to a body that is held in memory.
func PartCommit(salt Salt, body []byte) Hash { return kindPart.sum(salt[:], body) }

// PartHasher computes the commitment to a body as it streams by. It is not
// safe for concurrent use.
type PartHasher struct {
	h *blake3.Hasher
	n uint64
}

var _ io.Writer = (*PartHasher)(nil)

// NewPartHasher begins a commitment under salt.
func NewPartHasher(salt Salt) *PartHasher {
	h := blake3.NewDeriveKey(contextPrefix + "part")
	h.Write(salt[:])
	return &PartHasher{h: h}
}

// Write adds body bytes; it never fails.
func (p *PartHasher) Write(b []byte) (int, error) {
	p.n += uint64(len(b))
	return p.h.Write(b)
}

// Commit returns the commitment to the bytes so far and their number.
func (p *PartHasher) Commit() (Hash, uint64) {
	var out Hash
	p.h.Sum(out[:0])
	return out, p.n
}

// LedgerID derives a ledger's id, 32 hex digits, from its first keys and its
// nonce.
func LedgerID(keys []Key, nonce Salt) string {
	b := append([]byte(`{"keys":`), appendKeys(nil, keys)...)
	b = append(b, `,"nonce":"`...)
	b = append(b, nonce.String()...)
	b = append(b, `"}`...)
	sum := kindID.sum(b)
	return hex.EncodeToString(sum[:16])
}

// Genesis is what stands as prev in event 1 of the ledger id.
func Genesis(id string) Hash { return kindGenesis.sum([]byte(id)) }
