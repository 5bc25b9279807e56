package verify_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

// small is an export with every kind of event, and of few bytes.
func small(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, "intact.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEveryByte changes every byte of a small export: no change may pass.
// Nothing in an export is without meaning. TestLongSweeps does the same with an
// export that holds every kind of event, of which this takes samples.
func TestEveryByte(t *testing.T) {
	l := newLedger(t, 2)
	l.every = 5
	var b bytes.Buffer
	l.writeExport(t, &b, 8)
	flips(t, b.Bytes(), sweep(1), 0, 0)
	flips(t, small(t), sweep(13), 0, 0)
}

// flips changes every stride-th byte but those between two offsets.
func flips(t *testing.T, b []byte, stride, from, to int) {
	t.Helper()
	want(t, verifyBytes(t, b, verify.Options{}), verify.Intact, 0)
	masks := []byte{0x01, 0x20, 0x80, 0xff}
	for i := 0; i < len(b); i += stride {
		if i >= from && i < to {
			continue
		}
		mask := masks[i%len(masks)]
		c := bytes.Clone(b)
		c[i] ^= mask
		if r := verifyBytes(t, c, verify.Options{Workers: 1}); r.Verdict == verify.Intact {
			t.Fatalf("byte %d with mask %#x: intact (…%s…)", i, mask, c[max(0, i-40):min(len(c), i+40)])
		}
	}
}

// TestReceiptBytes changes bytes of receipts.
func TestReceiptBytes(t *testing.T) { receiptFlips(t, sweep(17)) }

// receiptFlips leaves out who issued a receipt and when: the one part that
// nothing vouches for.
func receiptFlips(t *testing.T, stride int) {
	for _, name := range []string{"receipt", "receipt-rotated", "receipt-erased"} {
		b, err := os.ReadFile(filepath.Join(vectorDir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		from := bytes.Index(b, []byte(`"issued":{`))
		flips(t, b, stride, from, from+bytes.IndexByte(b[from:], '}'))
	}
}

// TestPrefixes cuts an export: it is torn, at the number that would have come,
// and never accused of anything worse.
func TestPrefixes(t *testing.T) { prefixes(t, sweep(29)) }

func prefixes(t *testing.T, stride int) {
	b := small(t)
	for i := 0; i < len(b); i += stride {
		r := verifyBytes(t, b[:i], verify.Options{Workers: 1})
		next := uint64(1)
		for _, l := range lines(b[:i]) {
			if bytes.HasSuffix(l, []byte("\n")) && !bytes.HasPrefix(l, []byte(`{"body"`)) {
				next++
			}
		}
		if want(t, r, verify.Torn, next); t.Failed() {
			t.Fatalf("cut at %d", i)
		}
	}
}

// TestEveryLine drops, doubles and swaps every line.
func TestEveryLine(t *testing.T) {
	all := lines(export(t, 3, 32))
	n := len(all) - 1 // events
	for i := range n {
		seq := uint64(i + 1)
		r := verifyBytes(t, bytes.Join(slices.Delete(slices.Clone(all), i, i+1), nil), verify.Options{})
		if i < n-1 {
			want(t, r, verify.Missing, seq)
		} else {
			want(t, r, verify.Cut, seq-1)
		}
		r = verifyBytes(t, bytes.Join(slices.Insert(slices.Clone(all), i, all[i]), nil), verify.Options{})
		want(t, r, verify.Reordered, seq)
		for j := i + 1; j < n; j++ {
			swapped := slices.Clone(all)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			// The events between the two, and the lower one, come late.
			want(t, verifyBytes(t, bytes.Join(swapped, nil), verify.Options{}), verify.Reordered, seq)
		}
	}
	if t.Failed() {
		return
	}
	// A gap of k neighbours at every place has both ends.
	for k := 2; k < 6; k++ {
		for i := 0; i+k < n; i++ {
			r := verifyBytes(t, bytes.Join(slices.Delete(slices.Clone(all), i, i+k), nil), verify.Options{})
			want(t, r, verify.Missing, uint64(i+1))
			if d := r.Deciding(); d != nil && d.To != uint64(i+k) {
				t.Errorf("%d from %d: the range ends at %d", k, i+1, d.To)
			}
		}
	}
}

// TestTailCut cuts the last k events, with the trailer kept and made anew, with
// and without an anchor.
func TestTailCut(t *testing.T) {
	const n = 60
	l := newLedger(t, 4)
	events := l.take(n)
	anchor, err := verify.ParseAnchor("kept", fmt.Appendf(nil, `{"head":"%s","size":%d}`, events[n-1].Hash, n))
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k < n; k++ {
		var b []byte
		var f chain.Frontier
		for _, e := range events[:n-k] {
			b = append(e.AppendLine(b), '\n')
			f.Add(e.Hash)
		}
		root := f.Root()
		made := chain.Trailer{Events: uint64(n - k), First: 1, Last: uint64(n - k), Head: events[n-k-1].Hash, Root: &root}
		anew := append(made.AppendLine(bytes.Clone(b)), '\n')
		want(t, verifyBytes(t, anew, verify.Options{}), verify.Intact, 0)
		want(t, verifyBytes(t, anew, verify.Options{Expect: []verify.Anchor{anchor}}), verify.Cut, uint64(n-k))
		kept := made
		kept.Last, kept.Events = n, n
		want(t, verifyBytes(t, append(kept.AppendLine(bytes.Clone(b)), '\n'), verify.Options{}), verify.Cut, uint64(n-k))
	}
}

// many is an export of several chunks.
const many = 3_000

// TestSeams tampers with events all over an export of several chunks, so also
// where two chunks meet, and demands one report for all numbers of workers.
func TestSeams(t *testing.T) {
	all := lines(export(t, 5, many))
	tamper := map[string]func(i int) [][]byte{
		"drop":  func(i int) [][]byte { return slices.Delete(slices.Clone(all), i, i+1) },
		"twice": func(i int) [][]byte { return slices.Insert(slices.Clone(all), i+700, all[i]) },
		"altered": func(i int) [][]byte {
			c := slices.Clone(all)
			c[i] = bytes.Replace(c[i], []byte(`"pass":"p-1"`), []byte(`"pass":"p-2"`), 1)
			return c
		},
		"swap": func(i int) [][]byte {
			c := slices.Clone(all)
			c[i], c[i+1] = c[i+1], c[i]
			return c
		},
	}
	verdicts := map[string]verify.Verdict{"drop": verify.Missing, "twice": verify.Reordered, "altered": verify.Altered, "swap": verify.Reordered}
	for i := 1; i < many-800; i += sweep(833) {
		for name, change := range tamper {
			b := bytes.Join(change(i), nil)
			if name == "altered" && bytes.Equal(all[i], change(i)[i]) {
				continue // a checkpoint has no actor
			}
			var first []byte
			for _, workers := range []int{1, 3} {
				r := verifyBytes(t, b, verify.Options{Workers: workers})
				want(t, r, verdicts[name], uint64(i+1))
				got, err := r.JSON()
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = got
				}
				if !bytes.Equal(first, got) {
					t.Errorf("%s at %d: another report with %d workers", name, i+1, workers)
				}
			}
		}
	}
}
