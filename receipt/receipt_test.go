package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

const vectorDir = "../testdata/vectors"

func signer(t testing.TB, seed byte) *receipt.Signer {
	t.Helper()
	s, err := receipt.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ledgerOf(s *receipt.Signer) string { return chain.LedgerID([]chain.Key{s.Key()}, chain.Salt{1}) }

// TestKeysAgreeWithNote compares our keys and signatures with those of the
// package that the note format comes from, in both directions.
func TestKeysAgreeWithNote(t *testing.T) {
	s := signer(t, 1)
	id := ledgerOf(s)
	theirs, err := note.NewSigner(strings.TrimSpace(s.PrivateKey(id)))
	if err != nil {
		t.Fatal(err)
	}
	their, err := note.NewVerifier(strings.TrimSpace(receipt.VerifierKey(id, s.Key())))
	if err != nil {
		t.Fatal(err)
	}
	c := receipt.Checkpoint{Ledger: id, Size: 7, Root: chain.TreeHash{9}}
	ours, err := receipt.SignCheckpoint(s, id, 7, c.Root)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, theirs)
	if err != nil || string(signed) != ours {
		t.Errorf("they sign %q (%v), we sign %q", signed, err, ours)
	}
	if n, err := note.Open([]byte(ours), note.VerifierList(their)); err != nil || n.Text != c.Text() {
		t.Errorf("they read %v, %v", n, err)
	}
	parsed, err := receipt.ParseSignedCheckpoint(ours)
	if err != nil || parsed.Checkpoint != c {
		t.Errorf("we read %+v, %v", parsed, err)
	}
	if good, tried := parsed.Note.VerifiedBy(their); !good || !tried {
		t.Errorf("their verifier says %t, %t", good, tried)
	}
}

func TestSignerFile(t *testing.T) {
	s := signer(t, 2)
	id := ledgerOf(s)
	text := s.PrivateKey(id)
	again, ledger, err := receipt.ParseSigner(text)
	if err != nil || ledger != id || again.Key() != s.Key() {
		t.Fatalf("%v, %q, %v", again, ledger, err)
	}
	for i := range len(text) - 1 {
		b := []byte(text)
		b[i] ^= 1
		if got, l, err := receipt.ParseSigner(string(b)); err == nil {
			t.Errorf("byte %d changed: read as a key of %s, %s", i, l, got.Key())
		} else if !errors.Is(err, receipt.ErrKeyFile) {
			t.Errorf("byte %d: %v", i, err)
		}
		if strings.Contains(text[:i], "+AQ") {
			continue
		}
		if _, _, err := receipt.ParseSigner(text[:i]); !errors.Is(err, receipt.ErrKeyFile) {
			t.Errorf("prefix of %d: %v", i, err)
		}
	}
	if _, err := receipt.GenerateKey(strings.NewReader("short")); err == nil {
		t.Error("a short random source made a key")
	}
}

func TestVerifierFile(t *testing.T) {
	s := signer(t, 3)
	id := ledgerOf(s)
	text := receipt.VerifierKey(id, s.Key())
	v, err := receipt.ParseVerifier(text)
	if err != nil || v.Key() != s.Key() || v.Name() != receipt.Origin(id) || !v.OfLedger() {
		t.Fatalf("%+v, %v", v, err)
	}
	for i := range len(text) - 1 {
		b := []byte(text)
		b[i] ^= 1
		if _, err := receipt.ParseVerifier(string(b)); !errors.Is(err, receipt.ErrVerifierKey) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

// TestCosignature checks a witness's signature of the kind that has a time in
// front of what is signed.
func TestCosignature(t *testing.T) {
	priv := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{4}, 32))
	pub := append([]byte{4}, priv.Public().(ed25519.PublicKey)...)
	v, err := receipt.ParseVerifier(witnessKey("witness.example/w", pub))
	if err != nil || v.OfLedger() {
		t.Fatalf("%v, %v", v, err)
	}
	text := "docketd.ledger/1/00000000000000000000000000000000\n1\nAAAA\n"
	sig := append([]byte{0, 0, 0, 0, 0, 0, 1, 2}, ed25519.Sign(priv, []byte("cosignature/v1\ntime 258\n"+text))...)
	if !v.Verify([]byte(text), sig) {
		t.Error("a good cosignature is refused")
	}
	for i := range sig {
		b := bytes.Clone(sig)
		b[i] ^= 1
		if v.Verify([]byte(text), b) {
			t.Errorf("byte %d changed and accepted", i)
		}
	}
	if v.Verify([]byte(text), sig[:70]) || (&receipt.Verifier{}).Verify([]byte(text), sig) {
		t.Error("a short signature or no key is accepted")
	}
}

// witnessKey spells a key of any type.
func witnessKey(name string, data []byte) string {
	return name + "+" + receipt.KeyIDHex(name, data) + "+" + base64.StdEncoding.EncodeToString(data)
}

// TestNoteForms refuses every form but one.
func TestNoteForms(t *testing.T) {
	s := signer(t, 5)
	id := ledgerOf(s)
	good, err := receipt.SignCheckpoint(s, id, 12, chain.TreeHash{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	line := good[strings.LastIndex(good, "\u2014"):]
	change := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, text := range map[string]string{
		"empty": "", "no newline": strings.TrimSuffix(good, "\n"), "unsigned": good[:strings.Index(good, "\n\n")+1],
		"fourth line": change("\n\n", "\nmore\n\n"), "leading zero": change("\n12\n", "\n012\n"), "plus": change("\n12\n", "\n+12\n"),
		"size 0": change("\n12\n", "\n0\n"), "size above 2^53-1": change("\n12\n", "\n9007199254740992\n"), "carriage return": change("\n12\n", "\n12\r\n"),
		"hyphen": change("\u2014", "-"), "other origin": change("docketd.ledger/1/", "docketd.ledger/2/"), "short id": change(id+"\n", id[1:]+"\n"),
		"17 signatures": good + strings.Repeat(line, 16), "other name first": change("\u2014 docketd.ledger", "\u2014 other.ledger"),
		"short root": change("AQID", "AQI="), "unused bits": change("=\n", "B\n"), "no key id": change(line, "\u2014 "+receipt.Origin(id)+" AAAA\n"),
		"invalid UTF-8": good + "\xff\n", "control character": change("\n12\n", "\n12\x00\n"), "too long": strings.Repeat("x", 70<<10) + good,
	} {
		if c, err := receipt.ParseSignedCheckpoint(text); !errors.Is(err, receipt.ErrForm) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if c, err := receipt.ParseSignedCheckpoint(good + strings.Repeat(line, 15)); err != nil || len(c.Note.Signatures) != 16 {
		t.Errorf("16 signatures: %v", err)
	}
	for _, c := range []struct {
		id   string
		size uint64
	}{{"x", 1}, {id, 0}, {id, chain.MaxInt + 1}} {
		if _, err := receipt.SignCheckpoint(s, c.id, c.size, chain.TreeHash{}); err == nil {
			t.Errorf("signed %+v", c)
		}
	}
}

// TestSignatureBits changes every byte of a checkpoint: it is refused, or by
// no known key, or does not verify.
func TestSignatureBits(t *testing.T) {
	s := signer(t, 6)
	id := ledgerOf(s)
	good, err := receipt.SignCheckpoint(s, id, 12, chain.TreeHash{1})
	if err != nil {
		t.Fatal(err)
	}
	v := receipt.NewVerifier(id, s.Key())
	for i := range len(good) {
		for bit := range 8 {
			b := []byte(good)
			b[i] ^= 1 << bit
			c, err := receipt.ParseSignedCheckpoint(string(b))
			if err != nil {
				continue
			}
			if ok, _ := c.Note.VerifiedBy(v); ok {
				t.Errorf("byte %d, bit %d: accepted", i, bit)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	a, b, c := signer(t, 7), signer(t, 8), signer(t, 9)
	id := ledgerOf(a)
	prev := chain.Hash{5}
	text, err := receipt.SignRotation(a, id, 9, prev, []*receipt.Signer{b, c})
	if err != nil {
		t.Fatal(err)
	}
	n, err := receipt.ParseNote(text)
	if err != nil || n.Text != receipt.RotationText(id, 9, prev, []chain.Key{b.Key(), c.Key()}) {
		t.Fatalf("%+v, %v", n, err)
	}
	for i, s := range []*receipt.Signer{a, b, c} {
		if good, _ := n.VerifiedBy(receipt.NewVerifier(id, s.Key())); !good {
			t.Errorf("signer %d has not signed", i)
		}
	}
	if _, tried := n.VerifiedBy(receipt.NewVerifier(id, signer(t, 10).Key())); tried {
		t.Error("a key that has not signed is found")
	}
}

// TestReceiptForms: what parses is written again to the same bytes, every
// member is demanded, and a changed path leads elsewhere.
func TestReceiptForms(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(vectorDir, "receipt*.jsonl"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d receipts, %v", len(names), err)
	}
	whole := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		line := bytes.TrimSuffix(b, []byte("\n"))
		r, err := receipt.Parse(line)
		if err != nil {
			if !errors.Is(err, receipt.ErrReceipt) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		whole++
		if got := r.Append(nil); !bytes.Equal(got, line) {
			t.Errorf("%s: written again:\n%s", name, got)
		}
	}
	if whole < 15 {
		t.Errorf("only %d receipts have the right form", whole)
	}
	b, err := os.ReadFile(filepath.Join(vectorDir, "receipt.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	line := string(bytes.TrimSuffix(b, []byte("\n")))
	for _, c := range []struct{ old, new string }{
		{`"complete":true,`, ``}, {`"complete":true`, `"complete":1`}, {`"findings":[]`, `"findings":null`}, {`"anchors":[]`, `"anchors":[{"data":"","kind":"x"}]`},
		{`"run":`, `"Run":`}, {`"limits":[`, `"limits": [`}, {`"rows":[`, `"rows":[],"rows":[`}, {`{"anchors"`, `{,"anchors"`},
		{`"calls":3`, `"calls":3.0`}, {`"calls":3`, `"calls":-3`}, {`"cost_usd":"0.4424775"`, `"cost_usd":"0.44247750"`}, {`"by":"vectors"`, `"by":"vectors","x":1`},
		{`"format":"docketd.receipt/1"`, `"format":"docketd.receipts/1"`},
	} {
		// The last place, for rows hold members of the same names.
		i := strings.LastIndex(line, c.old)
		if i < 0 {
			t.Fatalf("%q is not in the receipt", c.old)
		}
		changed := line[:i] + c.new + line[i+len(c.old):]
		if _, err := receipt.Parse([]byte(changed)); !errors.Is(err, receipt.ErrReceipt) {
			t.Errorf("%q for %q: %v", c.new, c.old, err)
		}
	}
	r, err := receipt.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	point, err := receipt.ParseSignedCheckpoint(r.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[2]
	h, err := chain.ParseHeader(row.Event.Header)
	if err != nil {
		t.Fatal(err)
	}
	if err := row.CheckProof(h.Seq, point.Size, point.Root); err != nil {
		t.Error(err)
	}
	for i := range row.Proof {
		row.Proof[i][0] ^= 1
		if err := row.CheckProof(h.Seq, point.Size, point.Root); !errors.Is(err, receipt.ErrProof) {
			t.Errorf("element %d changed: %v", i, err)
		}
		row.Proof[i][0] ^= 1
	}
	for _, bad := range []uint64{h.Seq - 1, h.Seq + 1, point.Size + 1, 0} {
		if err := row.CheckProof(bad, point.Size, point.Root); !errors.Is(err, receipt.ErrProof) {
			t.Errorf("as event %d: %v", bad, err)
		}
	}
}
