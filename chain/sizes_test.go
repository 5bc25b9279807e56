package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

func TestHeaderSize(t *testing.T) {
	empty := len(edit(t, fullHeaders(t)["ledger.checkpoint"], "/note", `""`))
	for _, over := range []int{0, 1} {
		note := strings.Repeat("n", chain.MaxHeader-empty+over)
		header := edit(t, fullHeaders(t)["ledger.checkpoint"], "/note", `"`+note+`"`)
		if len(header) != chain.MaxHeader+over {
			t.Fatalf("a header of %d bytes", len(header))
		}
		h, err := chain.ParseHeader([]byte(header))
		if over > 0 {
			mustRefuse(t, "64 KiB and 1", err, "", "more than 65536 bytes")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		h.Note += "n"
		mustRefuse(t, "Check of 64 KiB and 1", h.Check(), "", "more than 65536 bytes")
	}
}

func TestContentSize(t *testing.T) {
	for _, over := range []int{0, 1} {
		content := `{"a":"` + strings.Repeat("x", chain.MaxContent-8+over) + `"}`
		if len(content) != chain.MaxContent+over {
			t.Fatalf("content of %d bytes", len(content))
		}
		line := fmt.Sprintf(`{"content":%s,"hash":"%s","header":{},"salt":"%s"}`, content, hexA, hexA[:32])
		_, errLine := chain.ParseLine([]byte(line))
		// White space is not counted: what counts is the canonical form.
		got, errAppend := chain.CanonicalContent([]byte(" " + strings.Replace(content, ":", " : ", 1)))
		errFile := chain.CheckContent([]byte(content))
		if over == 0 {
			if errLine != nil || errAppend != nil || errFile != nil || string(got) != content {
				t.Errorf("1 MiB: %v, %v, %v", errLine, errAppend, errFile)
			}
			continue
		}
		const reason = "more than 1048576 bytes"
		mustRefuse(t, "line", errLine, "/content", reason)
		mustRefuse(t, "append", errAppend, "", reason)
		mustRefuse(t, "file", errFile, "", reason)
		if got != nil {
			t.Errorf("refused content came back all the same")
		}
	}
}

func TestDepth(t *testing.T) {
	shapes := map[string]func(levels int) string{
		"objects": func(n int) string {
			return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1)
		},
		"arrays": func(n int) string {
			return `{"a":` + strings.Repeat(`[`, n-1) + strings.Repeat(`]`, n-1) + `}`
		},
		"mixed": func(n int) string {
			return strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`[]`, n%2) + strings.Repeat(`]}`, n/2)
		},
	}
	for name, shape := range shapes {
		for _, n := range []int{1, 2, 127, 128} {
			if n < 2 && name != "objects" {
				continue
			}
			src := []byte(shape(n))
			if err := chain.CheckContent(src); err != nil {
				t.Errorf("%s, %d levels in a file: %v", name, n, err)
			}
			if _, err := chain.CanonicalContent(append([]byte(" "), src...)); err != nil {
				t.Errorf("%s, %d levels on append: %v", name, n, err)
			}
		}
		for _, n := range []int{129, 130, 5000, 20000} {
			src := shape(n)
			path := strings.Repeat("/a", 128)
			switch name {
			case "arrays":
				path = "/a" + strings.Repeat("/0", 127)
			case "mixed":
				path = strings.Repeat("/a/0", 64)
			}
			mustRefuse(t, fmt.Sprint(name, n, " in a file"), chain.CheckContent([]byte(src)), path, "more than 128 levels")
			_, err := chain.CanonicalContent([]byte(src))
			mustRefuse(t, fmt.Sprint(name, n, " on append"), err, path, "more than 128 levels")
		}
	}
	// A wide value is not a deep one.
	wide := `{"a":[` + strings.Repeat(`{},[],`, 5000) + `{}]}`
	if err := chain.CheckContent([]byte(wide)); err != nil {
		t.Error(err)
	}
	// A header in a line is bounded like content, before anything reads it.
	line := `{"hash":"` + hexA + `","header":` + shapes["objects"](129) + `}`
	_, err := chain.ParseLine([]byte(line))
	mustRefuse(t, "header of 129 levels", err, "/header"+strings.Repeat("/a", 128), "more than 128 levels")
	// What is deep and never ends is refused as well.
	_, err = chain.CanonicalContent([]byte(strings.Repeat(`{"a":`, 1<<16)))
	mustRefuse(t, "brackets without end", err, strings.Repeat("/a", 128), "more than 128 levels")
}

func TestLineSize(t *testing.T) {
	for _, n := range []int{chain.MaxLine, chain.MaxLine + 1} {
		_, err := chain.ParseLine([]byte(strings.Repeat("x", n)))
		reason := "not an object"
		if n > chain.MaxLine {
			reason = "a line of more than 2097152 bytes"
		}
		mustRefuse(t, fmt.Sprint(n), err, "", reason)
	}
	for _, over := range []int{0, 1} {
		b := chain.Body{Data: make([]byte, chain.MaxBodyChunk+over)}
		l, err := chain.ParseLine(b.AppendLine(nil))
		if over == 0 && (err != nil || len(l.Body.Data) != chain.MaxBodyChunk) {
			t.Errorf("body of 1 MiB: %v", err)
		}
		if over == 1 {
			mustRefuse(t, "body of 1 MiB and 1", err, "/body/data", "more than 1048576 bytes")
		}
	}
}
