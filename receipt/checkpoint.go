package receipt

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/docket-audit/docket/chain"
)

const (
	originPrefix   = chain.FormatName + "/"
	rotationPrefix = "docketd.key-rotated/1/"
)

// Origin is the first line of a checkpoint of the ledger, and the name of its
// keys.
func Origin(ledger string) string { return originPrefix + ledger }

// ParseOrigin gives the ledger's id back.
func ParseOrigin(s string) (ledger string, err error) {
	id, ok := strings.CutPrefix(s, originPrefix)
	if !ok || chain.CheckLedgerID(id) != nil {
		return "", fmt.Errorf("origin %q is not %s and an id: %w", s, originPrefix, ErrTextForm)
	}
	return id, nil
}

// Checkpoint states a ledger's tree at one size.
type Checkpoint struct {
	Ledger string // its id
	Size   uint64 // number of events, from 1
	Root   chain.TreeHash
}

// Text is the text that is signed: three lines, each ended by a newline.
func (c Checkpoint) Text() string {
	return Origin(c.Ledger) + "\n" + strconv.FormatUint(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n"
}

// ParseCheckpoint reads what Text writes, and nothing else. The id may be any
// text that fits an origin; whether it is the right one is for the caller.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return Checkpoint{}, fmt.Errorf("checkpoint of other than three lines: %w", ErrTextForm)
	}
	ledger, err := ParseOrigin(lines[0])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	c := Checkpoint{Ledger: ledger}
	if c.Size, err = parseNumber(lines[1]); err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: size %w", err)
	}
	root, err := chain.ParseBase64(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return Checkpoint{}, fmt.Errorf("read checkpoint: root is not base64 of %d bytes: %w", len(c.Root), ErrTextForm)
	}
	c.Root = chain.TreeHash(root)
	return c, nil
}

// parseNumber reads a number from 1 in its one decimal spelling.
func parseNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || n > chain.MaxInt || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a number from 1 to 2^53-1: %w", s, ErrTextForm)
	}
	return n, nil
}

// SignedCheckpoint is a checkpoint with its signatures, not yet believed.
type SignedCheckpoint struct {
	Checkpoint
	Note *Note
}

// ParseSignedCheckpoint reads a note whose text is a checkpoint and whose
// first signature is under the ledger's own name.
func ParseSignedCheckpoint(s string) (*SignedCheckpoint, error) {
	n, err := ParseNote(s)
	if err != nil {
		return nil, err
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return nil, err
	}
	if n.Signatures[0].Name != Origin(c.Ledger) {
		return nil, fmt.Errorf("first signature is not under the ledger's name: %w", ErrNoteForm)
	}
	return &SignedCheckpoint{c, n}, nil
}

// SignCheckpoint returns the checkpoint as a signed note. root is that of the
// tree over the events 1 to size.
func SignCheckpoint(s *Signer, ledger string, size uint64, root chain.TreeHash) (string, error) {
	if err := chain.CheckLedgerID(ledger); err != nil || size == 0 || size > chain.MaxInt {
		return "", fmt.Errorf("sign checkpoint of ledger %q at size %d: %w", ledger, size, ErrTextForm)
	}
	return sign(Checkpoint{ledger, size, root}.Text(), ledger, s)
}

// RotationText is the text that key.rotated number seq signs: prev is its
// prev, keys the new list.
func RotationText(ledger string, seq uint64, prev chain.Hash, keys []chain.Key) string {
	b := fmt.Appendf(nil, "%s%s\n%d\n%s\n", rotationPrefix, ledger, seq, prev)
	for _, k := range keys {
		b = append(b, k.String()...)
		b = append(b, '\n')
	}
	return string(b)
}

// SignRotation returns the note of key.rotated number seq, signed by a key in
// force and by each new key.
func SignRotation(inForce *Signer, ledger string, seq uint64, prev chain.Hash, next []*Signer) (string, error) {
	var keys []chain.Key
	for _, s := range next {
		keys = append(keys, s.Key())
	}
	return sign(RotationText(ledger, seq, prev, keys), ledger, append([]*Signer{inForce}, next...)...)
}
