package verify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
	"github.com/docket-audit/docket/verify"
)

// TestShuffled verifies an export whose lines stand in any order, with a plan
// that needs many windows: the first fault is the lowest number that comes
// late, every other event is found, and nothing is missing.
func TestShuffled(t *testing.T) {
	all := lines(export(t, 6, 200))
	rnd := rand.New(rand.NewPCG(6, 6))
	for _, window := range []int{1 << 18, 50, 7} {
		verify.SetMaxStretches(t, window)
		for range 2 {
			mixed := slices.Clone(all)
			rnd.Shuffle(200, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			b := bytes.Join(mixed, nil)
			first, highest := uint64(0), uint64(0)
			for _, l := range mixed[:200] {
				n := numberOf(t, l)
				if n < highest && (first == 0 || n < first) {
					first = n
				}
				highest = max(highest, n)
			}
			r := verifyBytes(t, b, verify.Options{})
			want(t, r, verify.Reordered, first)
			if r.Events != 200 || r.Root == nil || r.Checks["link"].Result != verify.Pass || r.Checks["header_hash"].Result != verify.Pass {
				t.Errorf("window %d: %d events, root %v, checks %v", window, r.Events, r.Root, r.Checks)
			}
			want(t, verifyBytes(t, compress(t, b), verify.Options{}), verify.Reordered, first)
		}
	}
}

func numberOf(t testing.TB, line []byte) uint64 {
	t.Helper()
	l, err := chain.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := chain.ParseHeader(l.Event.Header)
	if err != nil {
		t.Fatal(err)
	}
	return h.Seq
}

// TestTwins repeats one event more often than lines are judged one by one.
func TestTwins(t *testing.T) {
	verify.SetMaxStretches(t, 500)
	all := lines(export(t, 6, 30))
	b := bytes.Join(slices.Insert(slices.Clone(all), 20, slices.Repeat([][]byte{all[9]}, 3000)...), nil)
	r := verifyBytes(t, b, verify.Options{})
	want(t, r, verify.Reordered, 10)
	if !strings.Contains(strings.Join(r.Notes, "\n"), "not judged one by one") {
		t.Errorf("notes %q", r.Notes)
	}
	if len(r.Faults) > verify.MaxFaults || r.FaultsFound < uint64(len(r.Faults)) {
		t.Errorf("%d faults listed, %d found", len(r.Faults), r.FaultsFound)
	}
}

// TestManyFaults: the list of faults is bounded, and the verdict is right all
// the same where the fault that gives it stands behind the bound.
func TestManyFaults(t *testing.T) {
	all := lines(export(t, 8, 3000))
	for i := 100; i < 2000; i++ {
		all[i] = bytes.Replace(all[i], []byte(`,"hash":`), []byte(`, "hash":`), 1) // malformed
	}
	all[2500] = bytes.Replace(all[2500], []byte(`"pass":"p-1"`), []byte(`"pass":"p-2"`), 1)
	r := verifyBytes(t, bytes.Join(all, nil), verify.Options{})
	want(t, r, verify.Altered, 2501)
	if len(r.Faults) != verify.MaxFaults || r.FaultsFound < 1901 || r.Faults[0].Seq != 101 {
		t.Errorf("%d faults listed, %d found, the first at %d", len(r.Faults), r.FaultsFound, r.Faults[0].Seq)
	}
}

// TestGarbageLines: lines that give no number count as the number that would
// have come, wherever they stand.
func TestGarbageLines(t *testing.T) {
	all := lines(export(t, 9, 40))
	for name, garbage := range map[string]string{
		"text": "garbage\n", "empty": "\n", "long": strings.Repeat("x", 1<<20) + "\n", "too long": strings.Repeat("x", 5<<20) + "\n", "too long and JSON": `{"a":"` + strings.Repeat("x", 3<<20) + "\"}\n",
	} {
		for _, i := range []int{0, 1, 17, 39, 40} {
			b := bytes.Join(slices.Insert(slices.Clone(all), i, []byte(garbage)), nil)
			if i == 0 && name == "too long" {
				continue // no line of an export begins where one would have to
			}
			r := verifyBytes(t, b, verify.Options{})
			want(t, r, verify.Malformed, uint64(i+1))
			if r.Events < 40 {
				t.Errorf("%s at %d: %d events", name, i, r.Events)
			}
		}
		replaced := slices.Clone(all)
		replaced[20] = []byte(garbage)
		want(t, verifyBytes(t, bytes.Join(replaced, nil), verify.Options{}), verify.Malformed, 21)
	}
}

// TestRangeFirstLineGarbage: in a range the trailer says which number would
// have come first.
func TestRangeFirstLineGarbage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(vectorDir, "range.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := lines(b)
	all[0] = []byte("garbage\n")
	want(t, verifyBytes(t, bytes.Join(all, nil), verify.Options{}), verify.Malformed, 9)
}

// lagged is an export whose checkpoints lie n events behind.
func lagged(t testing.TB, n, lag int, wrong bool) []byte {
	t.Helper()
	l := newLedger(t, 10)
	l.every = 1 << 40
	var roots []chain.TreeHash
	var b []byte
	due := 2500
	for i := 1; i <= n; i++ {
		var e *chain.Event
		if i > lag && i >= due && l.open == 0 {
			due = i + 2500
			size := uint64(i - lag)
			root := roots[size-1]
			if wrong {
				root[3] ^= 1
			}
			h := chain.Header{Type: chain.TypeCheckpoint}
			h.Note, _ = receipt.SignCheckpoint(l.signer, l.id, size, root)
			run := l.run
			l.run = ""
			e = l.seal(&h, []byte(`{}`))
			l.run = run
		} else {
			e = l.next()
		}
		roots = append(roots, l.frontier.Root())
		b = append(e.AppendLine(b), '\n')
	}
	root := l.frontier.Root()
	trailer := chain.Trailer{Events: uint64(n), First: 1, Last: uint64(n), Head: l.prev, Root: &root}
	return append(trailer.AppendLine(b), '\n')
}

// TestOldCheckpoints: a checkpoint may be of a size that was passed long ago;
// its root is compared all the same.
func TestOldCheckpoints(t *testing.T) {
	for _, lag := range []int{1, 2400} {
		for _, workers := range []int{1, 2} {
			o := verify.Options{Workers: workers}
			good := lagged(t, 6_000, lag*2, false)
			r := verifyBytes(t, good, o)
			want(t, r, verify.Intact, 0)
			if r.Checks["checkpoint_signatures"].Result != verify.Pass {
				t.Errorf("checks %v", r.Checks)
			}
			bad := verifyBytes(t, lagged(t, 6_000, lag*2, true), o)
			if d := bad.Deciding(); d == nil || d.Verdict != verify.Forked {
				t.Errorf("lag %d: %v", lag*2, d)
			}
			want(t, verifyBytes(t, compress(t, good), o), verify.Intact, 0)
		}
	}
}

// withBody is an export with one event that carries a body.
func withBody(t testing.TB, body []byte, change func(lines [][]byte) [][]byte) []byte {
	t.Helper()
	l := newLedger(t, 11)
	first := l.next()
	salt := chain.Salt{7}
	commit := chain.PartCommit(salt, body)
	h := chain.Header{Type: "tool.call", Parts: map[string]chain.Part{"out": {Bytes: uint64(len(body)), Commit: commit, Media: "text/plain"}}}
	e := l.seal(&h, []byte(`{}`))
	e.PartSalts = map[string]chain.Salt{"out": salt}
	list := [][]byte{append(first.AppendLine(nil), '\n')}
	for at := 0; at < len(body); at += chain.MaxBodyChunk {
		part := chain.Body{At: uint64(at), Commit: commit, Data: body[at:min(len(body), at+chain.MaxBodyChunk)]}
		list = append(list, append(part.AppendLine(nil), '\n'))
	}
	list = append(list, append(e.AppendLine(nil), '\n'))
	root := l.frontier.Root()
	trailer := chain.Trailer{Bodies: 1, Events: 2, First: 1, Last: 2, Head: l.prev, Root: &root}
	list = append(list, append(trailer.AppendLine(nil), '\n'))
	return bytes.Join(change(list), nil)
}

// TestLargeBody carries a body that is too large to be kept, as a file and in
// a compressed stream, which has to be read again.
func TestLargeBody(t *testing.T) {
	verify.SetMaxKeptBody(t, 1<<20)
	body := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	same := func(l [][]byte) [][]byte { return l }
	edited := func(l [][]byte) [][]byte {
		l[3] = bytes.Replace(l[3], []byte(base64.StdEncoding.EncodeToString(body[:12])), []byte(base64.StdEncoding.EncodeToString([]byte("0123456789aX"))), 1)
		return l
	}
	for _, pack := range []func(testing.TB, []byte) []byte{func(_ testing.TB, b []byte) []byte { return b }, compress} {
		want(t, verifyBytes(t, pack(t, withBody(t, body, same)), verify.Options{}), verify.Intact, 0)
		want(t, verifyBytes(t, pack(t, withBody(t, body, edited)), verify.Options{}), verify.Altered, 2)
		want(t, verifyBytes(t, pack(t, withBody(t, body, func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) })), verify.Options{}), verify.Malformed, 2)
	}
}

// TestCompressedDamage: a compressed stream that ends early is torn, one that
// can't be read on is malformed; what came before is judged.
func TestCompressedDamage(t *testing.T) {
	b := compress(t, export(t, 12, 3000))
	for _, n := range []int{5, len(b) / 3, len(b) / 2, len(b) - 1} {
		r := verifyBytes(t, b[:n], verify.Options{})
		if r.Verdict != verify.Torn {
			t.Errorf("cut at %d of %d: %s", n, len(b), r.Verdict)
		}
	}
	for i := 40; i < len(b); i += len(b) / 37 {
		c := bytes.Clone(b)
		c[i] ^= 0x10
		if r := verifyBytes(t, c, verify.Options{}); r.Verdict == verify.Intact {
			t.Errorf("byte %d changed: intact", i)
		}
	}
	want(t, verifyBytes(t, append(bytes.Clone(b), "trailing"...), verify.Options{}), verify.Malformed, 3001)
}

// TestProgressAndCancel: progress ends at the total, and a cancelled context
// ends the work with its error and no goroutine left.
func TestProgressAndCancel(t *testing.T) {
	b := export(t, 13, many)
	path := writeFile(t, "x.jsonl", b)
	for _, workers := range []int{1, 2} {
		var last, total uint64
		verifyFile(t, path, verify.Options{Workers: workers, Progress: func(d, n uint64) { last, total = d, n }})
		if last != uint64(len(b)) || total != last {
			t.Errorf("progress ended at %d of %d, not %d", last, total, len(b))
		}
		ctx, cancel := context.WithCancel(context.Background())
		_, err := verify.File(ctx, path, verify.Options{Workers: workers, Progress: func(d, n uint64) { cancel() }})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

// TestReadError: an input that can't be read is an error, not a verdict.
func TestReadError(t *testing.T) {
	broken := errors.New("cable cut")
	r, err := verify.Reader(context.Background(), io.MultiReader(strings.NewReader(`{"content"`), errReader{broken}), verify.Options{})
	if !errors.Is(err, broken) || r != nil {
		t.Errorf("%v, %v", r, err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestFileChanges: a file that changes while it is read is torn.
func TestFileChanges(t *testing.T) {
	path := writeFile(t, "x.jsonl", export(t, 14, many))
	grown := false
	r := verifyFile(t, path, verify.Options{Progress: func(done, total uint64) {
		if !grown {
			grown = true
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			f.WriteString("x")
			f.Close()
			os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
		}
	}})
	want(t, r, verify.Torn, 1)
}

func TestParseAnchor(t *testing.T) {
	l := newLedger(t, 15)
	l.take(9)
	note, err := receipt.SignCheckpoint(l.signer, l.id, 9, l.frontier.Root())
	if err != nil {
		t.Fatal(err)
	}
	bare, _, _ := strings.Cut(note, "\n\n")
	for name, text := range map[string]string{
		"note": note, "bare": bare + "\n", "head": fmt.Sprintf(`{"size":9,"head":"%s"}`, l.prev),
	} {
		a, err := verify.ParseAnchor(name, []byte(text))
		if err != nil || a.Size != 9 || a.Name != name || (a.Head == nil) == (a.Checkpoint == nil) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	for _, text := range []string{
		"", "x", bare, "{}", `{"size":9}`, `{"size":0,"head":"` + l.prev.String() + `"}`, `{"size":9,"head":"zz"}`,
		`{"size":9,"head":"` + l.prev.String() + `","more":1}`, `{"checkpoint":null}`, `{"checkpoint":"x"}`,
		strings.Replace(note, "\n9\n", "\n09\n", 1), note + "x", strings.TrimSuffix(note, "\n"),
	} {
		if a, err := verify.ParseAnchor("kept.note", []byte(text)); !errors.Is(err, verify.ErrAnchor) || !strings.Contains(err.Error(), "kept.note") {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

// TestDetailsAreShort: what a detail repeats of an input is bounded.
func TestDetailsAreShort(t *testing.T) {
	all := lines(export(t, 16, 5))
	all[3] = []byte(`{"` + strings.Repeat("é", 500_000) + `":1,"hash":2}` + "\n")
	r := verifyBytes(t, bytes.Join(all, nil), verify.Options{})
	want(t, r, verify.Malformed, 4)
	if d := r.Deciding().Detail; len(d) > 1100 || !utf8.ValidString(d) {
		t.Errorf("a detail of %d bytes", len(d))
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []verify.Options{{Workers: -1}, {VKeys: []string{"no key"}}, {VKeys: []string{"a+00000000+AA=="}}} {
		if _, err := verify.Reader(context.Background(), strings.NewReader(""), o); !errors.Is(err, verify.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
