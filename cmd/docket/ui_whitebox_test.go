package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"unicode"

	"github.com/docket-audit/docket/internal/api"
	"github.com/docket-audit/docket/internal/client"
	"github.com/docket-audit/docket/verify"
)

// TestExitCodes walks the API's list of codes: the exit code of a command that
// meets one is the one that the list names, and the command line's own codes
// are none of them.
func TestExitCodes(t *testing.T) {
	own := map[string]bool{codeUsage: true, codeFailed: true, codeNoService: true, codeBroken: true, codeExists: true, codeInterrupted: true}
	for _, c := range api.Codes() {
		x := explain(t.Context(), fmt.Errorf("wrapped: %w", &client.Error{Status: c.Status, Code: c.Name, Message: "m", Hint: "h"}))
		if x.exit != c.Exit || x.code != c.Name || x.hint != "h" {
			t.Errorf("%s: %+v, want exit code %d", c.Name, x, c.Exit)
		}
		if own[c.Name] {
			t.Errorf("%s has two meanings", c.Name)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		ctx  context.Context
		err  error
		exit int
		code string
	}{
		{t.Context(), usage("x"), 2, codeUsage},
		{t.Context(), fmt.Errorf("x: %w", fs.ErrExist), 1, codeExists},
		{t.Context(), fmt.Errorf("x: %w", client.ErrNoService), 1, codeNoService},
		{t.Context(), fmt.Errorf("x: %w", client.ErrBroken), 1, codeBroken},
		{t.Context(), errors.New("x"), 1, codeFailed},
		{done, sourceError("f", context.Canceled), 130, codeInterrupted},
		{done, errors.New("x"), 130, codeInterrupted},
		{t.Context(), unknownOutcome(fmt.Errorf("x: %w", client.ErrBroken), "k"), 1, codeBroken},
		{t.Context(), unknownOutcome(&client.Error{Code: "outcome-unknown"}, ""), 1, "outcome-unknown"},
	} {
		if got := explain(x.ctx, x.err); got.exit != x.exit || got.code != x.code {
			t.Errorf("%v: %d %s, want %d %s", x.err, got.exit, got.code, x.exit, x.code)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 漢":              "plain é 漢",
		"a\x1b]8;;http://x\x07b": `a\x1b]8;;http://x\x07b`,
		"\x1b]52;c;eA==\x1b\\":   `\x1b]52;c;eA==\x1b\`,
		"a\rb\nc\td":             `a\rb\nc\td`,
		"\u202egnp.exe":          `\u202egnp.exe`,
		"\u2066\u2069\u200b":     `\u2066\u2069\u200b`,
		"\u009b2J\x7f":           `\u009b2J\x7f`,
		"\xff\xfe":               `\xff\xfe`,
		"\u2028\u00a0":           `\u2028\u00a0`,
		"\U000e0001":             `\U000e0001`,
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for r := rune(0); r < 0x20000; r++ {
		for _, c := range clean(string(r)) {
			if c != ' ' && !unicode.IsGraphic(c) || unicode.Is(unicode.Cf, c) {
				t.Fatalf("%U is printed as %q", r, clean(string(r)))
			}
		}
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "äöüß": "äöü…"} {
		if got := clip(in, 3); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestTrailerWatch cuts an export at every byte and hands it over in pieces of
// every size: only the whole one ends with its trailer.
func TestTrailerWatch(t *testing.T) {
	full := "{\"hash\":1}\n{\"trailer\":{}}\n"
	for n := range len(full) + 1 {
		for step := 1; step <= len(full); step++ {
			w := trailerWatch{progress: &progress{}}
			for i := 0; i < n; i += step {
				w.Write([]byte(full[i:min(i+step, n)]))
			}
			if w.complete() != (n == len(full)) || w.lines != uint64(strings.Count(full[:n], "\n")) {
				t.Fatalf("%q in steps of %d: complete %v, %d lines", full[:n], step, w.complete(), w.lines)
			}
		}
	}
	w := trailerWatch{progress: &progress{}}
	io.WriteString(&w, full+"{\"hash\":2}\n")
	if w.complete() {
		t.Error("a line behind the trailer")
	}
}

// TestLines: a line that is too long, or without its end, is an error and not a
// short history.
func TestLines(t *testing.T) {
	for in, want := range map[string]string{"a\nb\n": "a b", "": "", "a\nb": "a !", "\n": ""} {
		var got []string
		for line, err := range lines(strings.NewReader(in)) {
			if err != nil {
				line = []byte("!")
			}
			got = append(got, string(line))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	long := bytes.Repeat([]byte("x"), 3<<20)
	for _, err := range lines(bytes.NewReader(long)) {
		if err == nil {
			t.Error("a line of 3 MiB was taken")
		}
	}
}

// TestReport: every verdict is said first, with its place, and a check that was
// not made is never among those that were.
func TestReport(t *testing.T) {
	r := &verify.Report{
		Verdict: verify.Intact, Kind: verify.KindExport, Ledger: "l", Events: 3, First: 1, CostUSD: "0.5",
		Checks: map[string]verify.Check{
			"link":    {Result: verify.Pass},
			"content": {Result: verify.Pass, Reason: "1 bodies\x1b[2J were not given"},
			"anchors": {Result: verify.Skip, Reason: "no anchor was given"},
			"trailer": {Result: verify.Fail},
		},
		Consistent: [][2]uint64{{1, 1}, {3, 9}}, Notes: make([]string, 25),
	}
	var b bytes.Buffer
	if err := printReport(&b, r, false); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{
		"intact: consistent with itself; no anchor", "checked      content, link\n", "failed       trailer\n",
		`not checked  content: 1 bodies\x1b[2J were not given`, "not checked  anchors: no anchor was given\n",
		"consistent   1, 3 to 9\n", "proven       none\n", "and 5 more; --json has all\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Each check in turn is not made, and is gone from those that were.
	for name := range r.Checks {
		was := r.Checks[name]
		r.Checks[name] = verify.Check{Result: verify.Skip, Reason: "not made"}
		b.Reset()
		if err := printReport(&b, r, false); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(strings.TrimSpace(line), "checked ") && strings.Contains(line, name) {
				t.Errorf("%s was not made, and is said to be: %s", name, line)
			}
		}
		if !strings.Contains(b.String(), "not checked  "+name+": not made") {
			t.Errorf("%s was not made, and that is not said", name)
		}
		r.Checks[name] = was
	}
	b.Reset()
	r.Anchored = true
	if err := printReport(&b, r, true); err != nil || b.String() != "intact: all that was given holds, and fits what was expected\n" {
		t.Errorf("%q %v", b.String(), err)
	}
}

// TestNoProgressIntoPipes: a bar is for terminals alone.
func TestNoProgressIntoPipes(t *testing.T) {
	var b bytes.Buffer
	e := &env{stderr: &b}
	p := e.progress("bytes")
	p.began = p.began.Add(-2 * patience)
	p.show(1, 2)
	p.end()
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
	p = &progress{wanted: true, what: "bytes", env: e}
	p.show(1, 2)
	p.end()
	if !strings.Contains(b.String(), "bytes") {
		t.Errorf("no bar after a second: %q", b.String())
	}
}
