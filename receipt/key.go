package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/docket-audit/docket/chain"
)

// Errors of reading key files.
var (
	// ErrKeyFile tells that a text is no private key of a ledger.
	ErrKeyFile = errors.New("not a private key of a ledger")
	// ErrVerifierKey tells that a text is no public key in the form of
	// signed notes.
	ErrVerifierKey = errors.New("not a public key of signed notes")
)

// Types of keys in signed notes, as the first byte of the key data.
const (
	algEd25519     = 0x01
	algCosignature = 0x04
)

const privatePrefix = "PRIVATE+KEY+"

// Signer holds the private key of a ledger. It is safe for concurrent use.
// Its name in notes is the origin of the ledger that it signs for, so one
// Signer is made before the ledger has its id.
type Signer struct{ priv ed25519.PrivateKey }

// GenerateKey makes a key from rand, which has to be the system's random
// source in a program.
func GenerateKey(rand io.Reader) (*Signer, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return nil, fmt.Errorf("read random seed: %w", err)
	}
	return &Signer{ed25519.NewKeyFromSeed(seed)}, nil
}

// ParseSigner reads the text of docketd.key and says for which ledger it
// signs. One newline at the end is accepted.
func ParseSigner(text string) (s *Signer, ledger string, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), privatePrefix)
	if !ok {
		return nil, "", fmt.Errorf("no %s in front: %w", privatePrefix, ErrKeyFile)
	}
	name, id, data, err := splitKey(rest)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", err, ErrKeyFile)
	}
	if len(data) != 1+ed25519.SeedSize || data[0] != algEd25519 {
		return nil, "", fmt.Errorf("no Ed25519 seed: %w", ErrKeyFile)
	}
	s = &Signer{ed25519.NewKeyFromSeed(data[1:])}
	if id != KeyID(name, s.Key()) {
		return nil, "", fmt.Errorf("key id that does not follow from name and key: %w", ErrKeyFile)
	}
	if ledger, err = ParseOrigin(name); err != nil {
		return nil, "", fmt.Errorf("key name: %w: %w", err, ErrKeyFile)
	}
	return s, ledger, nil
}

// Key is the public key.
func (s *Signer) Key() chain.Key { return chain.Key(s.priv.Public().(ed25519.PublicKey)) }

// PrivateKey is the text of docketd.key for the given ledger, with a newline:
// the private form of signed notes. Whoever reads it can sign in the ledger's
// name.
func (s *Signer) PrivateKey(ledger string) string {
	name := Origin(ledger)
	data := append([]byte{algEd25519}, s.priv.Seed()...)
	return fmt.Sprintf("%s%s+%08x+%s\n", privatePrefix, name, KeyID(name, s.Key()), base64.StdEncoding.EncodeToString(data))
}

// sign returns text as a note signed by the given keys under the ledger's
// name, in that order.
func sign(text, ledger string, signers ...*Signer) (string, error) {
	var b strings.Builder
	b.WriteString(text)
	b.WriteString("\n")
	name := Origin(ledger)
	for _, s := range signers {
		sig, err := s.priv.Sign(nil, []byte(text), &ed25519.Options{})
		if err != nil {
			return "", fmt.Errorf("sign note: %w", err)
		}
		line := binary.BigEndian.AppendUint32(nil, KeyID(name, s.Key()))
		b.WriteString(signaturePrefix + name + " " + base64.StdEncoding.EncodeToString(append(line, sig...)) + "\n")
	}
	return b.String(), nil
}

// KeyID is the key id of an Ed25519 key of the given name: the first 4 bytes
// of SHA-256 over name, newline, type byte and key.
func KeyID(name string, k chain.Key) uint32 { return keyID(name, append([]byte{algEd25519}, k[:]...)) }

func keyID(name string, data []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), data...))
	return binary.BigEndian.Uint32(sum[:])
}

// VerifierKey is the text of docketd.vkey, with a newline: the public form of
// signed notes, which may be handed to anyone.
func VerifierKey(ledger string, k chain.Key) string {
	name := Origin(ledger)
	return fmt.Sprintf("%s+%08x+%s\n", name, KeyID(name, k), k)
}

// Verifier is a public key with its name, as a note.Verifier. Its zero value
// verifies nothing.
type Verifier struct {
	name string
	id   uint32
	alg  byte
	key  chain.Key
}

var _ note.Verifier = (*Verifier)(nil)

// NewVerifier is the verifier of a ledger's own key.
func NewVerifier(ledger string, k chain.Key) *Verifier {
	name := Origin(ledger)
	return &Verifier{name: name, id: KeyID(name, k), alg: algEd25519, key: k}
}

// ParseVerifier reads a public key in the form of signed notes: a ledger's
// own, or a witness's, whose cosignatures have a type of their own. One
// newline at the end is accepted.
func ParseVerifier(text string) (*Verifier, error) {
	name, id, data, err := splitKey(strings.TrimSuffix(text, "\n"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrVerifierKey)
	}
	if len(data) != 1+ed25519.PublicKeySize || data[0] != algEd25519 && data[0] != algCosignature {
		return nil, fmt.Errorf("no Ed25519 key: %w", ErrVerifierKey)
	}
	if id != keyID(name, data) {
		return nil, fmt.Errorf("key id that does not follow from name and key: %w", ErrVerifierKey)
	}
	return &Verifier{name: name, id: id, alg: data[0], key: chain.Key(data[1:])}, nil
}

// Name is the key's name.
func (v *Verifier) Name() string { return v.name }

// KeyHash is the key's id.
func (v *Verifier) KeyHash() uint32 { return v.id }

// Key is the bare public key.
func (v *Verifier) Key() chain.Key { return v.key }

// OfLedger says whether the key has a ledger's name, so that it is one of
// the ledger's own and no witness's.
func (v *Verifier) OfLedger() bool {
	_, err := ParseOrigin(v.name)
	return err == nil && v.alg == algEd25519
}

// Verify says whether sig is the key's signature of a note's text. A witness
// of type 4 signs a time stamp in front of it (C2SP tlog-cosignature).
func (v *Verifier) Verify(text, sig []byte) bool {
	switch v.alg {
	case algEd25519:
		return ed25519.Verify(v.key[:], text, sig)
	case algCosignature:
		if len(sig) != 8+ed25519.SignatureSize {
			return false
		}
		signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), text)
		return ed25519.Verify(v.key[:], signed, sig[8:])
	}
	return false
}

// splitKey takes name+id+data apart.
func splitKey(s string) (name string, id uint32, data []byte, err error) {
	name, rest, _ := strings.Cut(s, "+")
	hexID, b64, ok := strings.Cut(rest, "+")
	if !ok || !validKeyName(name) {
		return "", 0, nil, errors.New("not NAME+ID+KEY")
	}
	if _, err := fmt.Sscanf(hexID, "%08x", &id); err != nil || fmt.Sprintf("%08x", id) != hexID {
		return "", 0, nil, errors.New("key id is not 8 hex digits")
	}
	if data, err = chain.ParseBase64(b64); err != nil {
		return "", 0, nil, fmt.Errorf("read key: %w", err)
	}
	return name, id, data, nil
}
