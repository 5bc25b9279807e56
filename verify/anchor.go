package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// ErrAnchor tells that what was given as an anchor is none of the forms that
// ParseAnchor reads.
var ErrAnchor = errors.New("no checkpoint, no receipt and no size with head")

// Anchor is what a caller knows of a ledger from elsewhere, where the
// ledger's owner couldn't change it since.
type Anchor struct {
	Name string // where it came from, for messages
	Size uint64 // number of events that it speaks of, from 1

	// Exactly one of the two is set.
	Checkpoint *receipt.Checkpoint
	Head       *chain.Hash // hash of event Size

	note *receipt.Note // the checkpoint's signatures; nil for bare lines
}

// ParseAnchor reads an anchor: a checkpoint as a signed note or as its three
// lines alone, a receipt (its checkpoint counts), or {"size":n,"head":hash}.
// name is used in messages.
func ParseAnchor(name string, b []byte) (Anchor, error) {
	a, err := parseAnchor(b)
	if err != nil {
		return Anchor{}, fmt.Errorf("read anchor %s: %w: %w", name, ErrAnchor, err)
	}
	a.Name = name
	return a, nil
}

func parseAnchor(b []byte) (Anchor, error) {
	if bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) {
		return parseObjectAnchor(b)
	}
	text := string(b)
	if !strings.Contains(text, "\n\n") {
		c, err := receipt.ParseCheckpoint(text)
		return Anchor{Size: c.Size, Checkpoint: &c}, err
	}
	c, err := receipt.ParseSignedCheckpoint(text)
	if err != nil {
		return Anchor{}, err
	}
	return Anchor{Size: c.Size, Checkpoint: &c.Checkpoint, note: c.Note}, nil
}

func parseObjectAnchor(b []byte) (Anchor, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return Anchor{}, fmt.Errorf("decode: %w", err)
	}
	if raw, ok := members["checkpoint"]; ok {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return Anchor{}, fmt.Errorf("decode checkpoint: %w", err)
		}
		c, err := receipt.ParseSignedCheckpoint(text)
		if err != nil {
			return Anchor{}, err
		}
		return Anchor{Size: c.Size, Checkpoint: &c.Checkpoint, note: c.Note}, nil
	}
	var size uint64
	var head string
	if err := errors.Join(decodeMember(members, "size", &size), decodeMember(members, "head", &head)); err != nil {
		return Anchor{}, err
	}
	h, err := chain.ParseHash(head)
	if err != nil {
		return Anchor{}, fmt.Errorf("decode head: %w", err)
	}
	if size == 0 || size > chain.MaxInt || len(members) != 2 {
		return Anchor{}, errors.New("size is not 1 to 2^53-1, or there are other members than size and head")
	}
	return Anchor{Size: size, Head: &h}, nil
}

func decodeMember(members map[string]json.RawMessage, name string, v any) error {
	raw, ok := members[name]
	if !ok {
		return fmt.Errorf("no member %s", name)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}
