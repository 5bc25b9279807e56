package receipt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/docket-audit/docket/chain"
)

// Errors of reading a note. Each wraps ErrForm.
var (
	// ErrForm tells that a text is not in the one form that docs/format.md,
	// section 5 allows.
	ErrForm = errors.New("wrong form")
	// ErrNoteForm tells that a text is no signed note.
	ErrNoteForm = fmt.Errorf("not a signed note: %w", ErrForm)
	// ErrTextForm tells that a note's text is not the one expected.
	ErrTextForm = fmt.Errorf("not the text expected: %w", ErrForm)
)

const (
	// maxNote bounds a note: 16 signatures and the longest text are below
	// 8 KiB, and a header, which holds the largest, ends at 64 KiB.
	maxNote = chain.MaxHeader
	// maxSignatures is the ledger's own signature and 15 of witnesses.
	maxSignatures = 16
	// signaturePrefix begins each signature line: an em dash and a space.
	signaturePrefix = "\u2014 "
)

// Note is a C2SP signed note, taken apart but not yet believed.
type Note struct {
	Text       string // what was signed, with its last newline
	Signatures []Signature
}

// Signature is one signature line of a note.
type Signature struct {
	Name  string // of the key
	KeyID uint32 // 4 bytes that tell keys of one name apart
	Bytes []byte // at least one
}

// ParseNote takes a signed note apart: at least one signature and at most 16,
// canonical base64, no control character but newline. It verifies nothing.
func ParseNote(s string) (*Note, error) {
	if len(s) > maxNote || !utf8.ValidString(s) {
		return nil, fmt.Errorf("longer than %d bytes or not UTF-8: %w", maxNote, ErrNoteForm)
	}
	for _, r := range s {
		if r < 0x20 && r != '\n' {
			return nil, fmt.Errorf("a control character: %w", ErrNoteForm)
		}
	}
	i := strings.LastIndex(s, "\n\n")
	if i < 0 {
		return nil, fmt.Errorf("no empty line in front of signatures: %w", ErrNoteForm)
	}
	n := Note{Text: s[:i+1]}
	block, ended := strings.CutSuffix(s[i+2:], "\n")
	if !ended {
		return nil, fmt.Errorf("no newline at the end: %w", ErrNoteForm)
	}
	for line := range strings.SplitSeq(block, "\n") {
		if len(n.Signatures) == maxSignatures {
			return nil, fmt.Errorf("more than %d signatures: %w", maxSignatures, ErrNoteForm)
		}
		sig, err := parseSignature(line)
		if err != nil {
			return nil, fmt.Errorf("signature %d: %w", len(n.Signatures)+1, err)
		}
		n.Signatures = append(n.Signatures, sig)
	}
	return &n, nil
}

func parseSignature(line string) (Signature, error) {
	rest, ok := strings.CutPrefix(line, signaturePrefix)
	if !ok {
		return Signature{}, fmt.Errorf("no em dash in front: %w", ErrNoteForm)
	}
	name, b64, ok := strings.Cut(rest, " ")
	if !ok || !validKeyName(name) {
		return Signature{}, fmt.Errorf("no key name: %w", ErrNoteForm)
	}
	b, err := chain.ParseBase64(b64)
	if err != nil || len(b) < 5 {
		return Signature{}, fmt.Errorf("no key id and signature in canonical base64: %w", ErrNoteForm)
	}
	return Signature{Name: name, KeyID: binary.BigEndian.Uint32(b), Bytes: b[4:]}, nil
}

// validKeyName is the rule of signed notes: not empty, no space, no plus.
func validKeyName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, unicode.IsSpace) && !strings.Contains(name, "+")
}

// VerifiedBy says whether v's key signed the note. tried is false where no
// signature names that key, so that nothing was shown either way.
func (n *Note) VerifiedBy(v note.Verifier) (good, tried bool) {
	for _, s := range n.Signatures {
		if s.Name == v.Name() && s.KeyID == v.KeyHash() {
			return v.Verify([]byte(n.Text), s.Bytes), true
		}
	}
	return false, false
}
