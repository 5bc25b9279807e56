package chain_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// TestVectorsRoundTrip re-encodes each line of the intact vectors.
func TestVectorsRoundTrip(t *testing.T) {
	if err := chain.SelfTest(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usual", "intact", "strings", "numbers", "cost-long", "range", "bodies", "rotation", "cap-exceeded", "erased", "continued", "levels-128", "header-64k"} {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var f chain.Frontier
		for i, l := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
			line, err := chain.ParseLine(l)
			if err != nil {
				t.Errorf("%s:%d: %v", name, i+1, err)
				continue
			}
			var again []byte
			switch {
			case line.Event != nil:
				e := line.Event
				again = e.AppendLine(nil)
				h, err := chain.ParseHeader(e.Header)
				if err != nil {
					t.Errorf("%s:%d: %v", name, i+1, err)
					continue
				}
				if got := h.Append(nil); !bytes.Equal(got, e.Header) {
					t.Errorf("%s:%d: header\n%s\nnot\n%s", name, i+1, got, e.Header)
				}
				if got := chain.EventHash(e.Header); got != e.Hash {
					t.Errorf("%s:%d: hash %s", name, i+1, got)
				}
				if e.Content != nil && chain.ContentCommit(e.Salt, e.Content) != h.Content {
					t.Errorf("%s:%d: content", name, i+1)
				}
				if h.Seq == 1 {
					c, err := chain.ParseCreated(e.Content)
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if chain.LedgerID(c.Keys, c.Nonce) != c.Ledger || chain.Genesis(c.Ledger) != h.Prev {
						t.Errorf("%s: id or genesis", name)
					} else if name != "range" && !bytes.Equal(c.Append(nil), e.Content) {
						t.Errorf("%s: created %s", name, c.Append(nil))
					}
				}
				f.Add(e.Hash)
				rec := chain.EncodeEvent(nil, e)
				d, err := chain.DecodeEvent(rec)
				if err != nil || !bytes.Equal(d.AppendLine(nil), l) {
					t.Errorf("%s:%d: record: %v", name, i+1, err)
				}
			case line.Body != nil:
				again = line.Body.AppendLine(nil)
			case line.Trailer != nil:
				again = line.Trailer.AppendLine(nil)
				if line.Trailer.First == 1 && f.Root() != *line.Trailer.Root {
					t.Errorf("%s: root", name)
				}
			}
			if !bytes.Equal(again, l) {
				t.Errorf("%s:%d:\n%s\nnot\n%s", name, i+1, again, l)
			}
		}
	}
}
