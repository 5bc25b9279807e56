package chain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-audit/docket/chain"
)

var vectorDir = filepath.Join("..", "testdata", "vectors")

// A verdict is what verdicts.json says of one worked case, as far as it
// concerns the bytes.
type verdict struct {
	Verdict string
	Fault   *place
	Seen    []place `json:"faults_seen"`

	Events                                uint64
	Head, Root                            string
	Cost                                  string `json:"cost_usd"`
	Unpriced, Estimated, Withheld, Erased uint64
	OpenCalls                             uint64 `json:"open_calls"`
}

type place struct {
	Verdict string
	Seq     uint64
}

// malformed says whether any fault of the case is one of form.
func (v verdict) malformed() bool {
	return slices.ContainsFunc(v.Seen, func(p place) bool { return p.Verdict == "malformed" })
}

// eachVector runs f for every worked case, with the complete lines of its
// file. It fails where a case has no verdict or a verdict no case.
func eachVector(t testing.TB, f func(name string, v verdict, lines [][]byte)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectorDir, "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]verdict{}
	if err := json.Unmarshal(text, &verdicts); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.jsonl"))
	if err != nil || len(files) == 0 || len(files) != len(verdicts) {
		t.Fatalf("%d cases and %d verdicts: %v", len(files), len(verdicts), err)
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		b, err := os.ReadFile(filepath.Join(vectorDir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if verdicts[name].Verdict == "" {
			t.Fatalf("%s has no verdict", name)
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		var whole [][]byte
		for _, l := range lines {
			if l, ok := bytes.CutSuffix(l, []byte("\n")); ok {
				whole = append(whole, l)
			}
		}
		f(name, verdicts[name], whole)
	}
}

func isReceipt(lines [][]byte) bool {
	return len(lines) > 0 && bytes.HasPrefix(lines[0], []byte(`{"anchors":`))
}

// TestVectors takes every line of every export apart and puts it together
// again. Only a case that has a fault of form may have a line that is refused.
// What the report of an intact case says of bytes is computed from them.
func TestVectors(t *testing.T) {
	intact := 0
	eachVector(t, func(name string, v verdict, lines [][]byte) {
		if isReceipt(lines) || v.malformed() {
			return
		}
		r := roundTrip{t: t, name: name}
		for _, l := range lines {
			r.line(l)
		}
		if v.Verdict == "intact" {
			intact++
			r.report(v)
		}
	})
	if intact < 50 {
		t.Errorf("only %d intact exports among the cases", intact)
	}
}

// roundTrip gathers what the lines of one export say.
type roundTrip struct {
	t        *testing.T
	name     string
	hashes   []chain.Hash
	totals   chain.Totals
	events   uint64
	head     chain.Hash
	withheld uint64
	unknown  bool // a format version that this package doesn't know
	trailer  *chain.Trailer
}

func (r *roundTrip) line(l []byte) {
	line, err := chain.ParseLine(l)
	if err != nil {
		r.t.Errorf("%s: %v in %.200s", r.name, err, l)
		return
	}
	var again []byte
	switch {
	case line.Event != nil:
		again = line.Event.AppendLine(nil)
		r.event(line.Event)
	case line.Body != nil:
		again = line.Body.AppendLine(nil)
	case line.Trailer != nil:
		again = line.Trailer.AppendLine(nil)
		r.trailer = line.Trailer
	}
	if !bytes.Equal(again, l) {
		r.t.Errorf("%s: re-encoded as\n%s\nnot\n%s", r.name, again, l)
	}
}

func (r *roundTrip) event(e *chain.Event) {
	h, err := chain.ParseHeader(e.Header)
	if err != nil {
		r.t.Errorf("%s: %v in %s", r.name, err, e.Header)
		return
	}
	if got := h.Append(nil); !bytes.Equal(got, e.Header) {
		r.t.Errorf("%s: header re-encoded as\n%s\nnot\n%s", r.name, got, e.Header)
	}
	if err := h.Check(); err != nil {
		r.t.Errorf("%s: Check of %s: %v", r.name, e.Header, err)
	}
	if h.Seq == 1 && e.Content != nil {
		r.created(e.Content)
	}
	stored, err := chain.DecodeEvent(chain.EncodeEvent(nil, e))
	if err != nil || !bytes.Equal(stored.AppendLine(nil), e.AppendLine(nil)) {
		r.t.Errorf("%s: event %d is not what was stored: %v", r.name, h.Seq, err)
	}
	r.events++
	r.head = e.Hash
	r.hashes = append(r.hashes, e.Hash)
	r.totals.Add(h)
	if e.Content == nil {
		r.withheld++
	}
}

func (r *roundTrip) created(content []byte) {
	c, err := chain.ParseCreated(content)
	if errors.Is(err, chain.ErrFormatVersion) {
		r.unknown = true
		return
	}
	if err != nil {
		r.t.Errorf("%s: %v", r.name, err)
		return
	}
	// Members beyond those of the format pass, and are not written again.
	if got := c.Append(nil); len(got) >= len(content) && !bytes.Equal(got, content) {
		r.t.Errorf("%s: created re-encoded as\n%s\nnot\n%s", r.name, got, content)
	}
}

func (r *roundTrip) report(v verdict) {
	if r.trailer == nil || r.unknown {
		r.t.Errorf("%s: intact without a trailer, or of an unknown version", r.name)
		return
	}
	root := ""
	if tr := r.trailer; tr.Run == "" {
		tree, err := chain.NewFrontier(tr.First-1, tr.Peaks)
		if err != nil {
			r.t.Errorf("%s: %v", r.name, err)
			return
		}
		for _, h := range r.hashes {
			tree.Add(h)
		}
		root = chain.Hash(tree.Root()).String()
		if *tr.Root != tree.Root() {
			r.t.Errorf("%s: root %s, and the trailer says %s", r.name, root, chain.Hash(*tr.Root))
		}
	}
	if root != v.Root {
		r.t.Errorf("%s: root %q, not %q", r.name, root, v.Root)
	}
	if r.events != v.Events || r.head.String() != v.Head {
		r.t.Errorf("%s: %d events to %s, not %d to %s", r.name, r.events, r.head, v.Events, v.Head)
	}
	if r.withheld != v.Withheld+v.Erased {
		r.t.Errorf("%s: %d without content, not %d withheld and %d erased", r.name, r.withheld, v.Withheld, v.Erased)
	}
	if c := r.totals; c.Cost.String() != v.Cost || c.Unpriced != v.Unpriced || c.Estimated != v.Estimated {
		r.t.Errorf("%s: %+v, not %+v", r.name, c, v)
	}
}

// TestVectorsRefused: of a case whose fault is one of form, a line is refused
// at the place of that fault or nowhere: there are faults of form that no
// single line shows.
func TestVectorsRefused(t *testing.T) {
	refused, other := 0, 0
	eachVector(t, func(name string, v verdict, lines [][]byte) {
		if isReceipt(lines) || !v.malformed() {
			return
		}
		var faults []uint64
		for _, p := range v.Seen {
			if p.Verdict == "malformed" {
				faults = append(faults, p.Seq)
			}
		}
		seq, found := firstRefused(lines)
		switch {
		case !found:
			other++
		case !slices.Contains(faults, seq):
			t.Errorf("%s: refused at %d, and the faults of form are at %v", name, seq, faults)
		default:
			refused++
		}
	})
	t.Logf("%d refused by their bytes, %d by what several lines say", refused, other)
	if refused < 100 {
		t.Errorf("only %d cases refused", refused)
	}
}

// firstRefused finds the first line that is refused, and the number of its
// event: of a trailer the last event, else the one that would have come, since
// a line that can't be read gives none.
func firstRefused(lines [][]byte) (uint64, bool) {
	next := uint64(1)
	for _, l := range lines {
		line, err := chain.ParseLine(l)
		if err == nil && line.Event != nil {
			var h *chain.Header
			if h, err = chain.ParseHeader(line.Event.Header); err == nil {
				if h.Seq == 1 {
					if _, err := chain.ParseCreated(line.Event.Content); errors.Is(err, chain.ErrForm) {
						return 1, true
					}
				}
				next = h.Seq + 1
			}
		}
		switch {
		case err != nil && bytes.HasPrefix(l, []byte(`{"trailer":`)):
			return next - 1, true
		case err != nil:
			return next, true
		}
	}
	return 0, false
}
