package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

var (
	saltA = hexA[:32]
	saltB = hexB[:32]
	node1 = "mhvTuKkbfl5c8cCi9vptM6PJpKj9M/bLXBueC7KwqdE=" // base64 of hexA
)

// fullLines are good lines that together have every member of an export line.
func fullLines() map[string]string {
	return map[string]string{
		"event":    `{"content":{"a":1},"hash":"` + hexA + `","header":` + bare + `,"parts":{"request":{"salt":"` + saltA + `"},"response":{"salt":"` + saltB + `"}},"salt":"` + saltA + `"}`,
		"withheld": `{"hash":"` + hexA + `","header":` + bare + `}`,
		"body":     `{"body":{"at":0,"commit":"` + hexA + `","data":"AAEC"}}`,
		"whole":    `{"trailer":{"bodies":0,"erased":0,"events":3,"first":1,"head":"` + hexA + `","last":3,"root":"` + hexB + `","withheld":0}}`,
		"range":    `{"trailer":{"bodies":0,"erased":0,"events":3,"first":4,"head":"` + hexA + `","last":6,"peaks":["` + node1 + `","` + node1 + `"],"root":"` + hexB + `","withheld":0}}`,
		"run":      `{"trailer":{"bodies":0,"erased":0,"events":3,"first":4,"head":"` + hexA + `","last":9,"run":"run-1","withheld":0}}`,
	}
}

func parseLine(text string) error {
	_, err := chain.ParseLine([]byte(text))
	return err
}

func TestFullLinesAreAccepted(t *testing.T) {
	for name, text := range fullLines() {
		l, err := chain.ParseLine([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var again []byte
		switch {
		case l.Event != nil && l.Body == nil && l.Trailer == nil:
			again = l.Event.AppendLine(nil)
		case l.Body != nil && l.Event == nil && l.Trailer == nil:
			again = l.Body.AppendLine(nil)
		case l.Trailer != nil && l.Event == nil && l.Body == nil:
			again = l.Trailer.AppendLine(nil)
		}
		if string(again) != text {
			t.Errorf("%s: re-encoded as\n%s\nnot\n%s", name, again, text)
		}
	}
}

// TestLineForms changes every value of every full line to every other JSON
// type, takes every member away and adds one to every object. The header is
// ParseHeader's, and content is open: their insides are left alone.
func TestLineForms(t *testing.T) {
	values := map[byte]string{'n': `null`, '"': `"x"`, '0': `7`, 't': `true`, '[': `[]`, '{': `{}`}
	reasons := map[byte]string{'"': "not a string", '0': "not an integer from 0 to 2^53-1", '[': "not an array", '{': "not an object"}
	absent := map[string][2]string{
		"/content":        {"/salt", "content and salt stand together"},
		"/salt":           {"/salt", "content and salt stand together"},
		"/body":           {"/body", "missing"},
		"/trailer":        {"/hash", "missing"}, // {} begins like an event's line
		"/trailer/run":    {"/trailer/root", "missing"},
		"/parts/request":  {},
		"/parts/response": {},
		"/parts":          {},
	}
	inside := func(path string) bool {
		return strings.HasPrefix(path, "/header/") || strings.HasPrefix(path, "/content/")
	}
	for name, text := range fullLines() {
		root := parseNode(t, text)
		object := func(path string, v *node) {
			if v.kind != '{' || path == "/header" || path == "/content" {
				return
			}
			p, reason := path+"/zz", "unknown member"
			if path == "/parts" {
				reason = "not an object"
			}
			mustRefuse(t, name+" with "+p, parseLine(replace(root, path, parseNode(t, v.edit("zz", `true`).String()))), p, reason)
		}
		object("", root)
		root.walk("", func(path string, v *node) {
			if inside(path) {
				return
			}
			object(path, v)
			for kind, wrong := range values {
				if kind != v.kind && path != "/header" {
					mustRefuse(t, name+" with "+wrong+" at "+path, parseLine(root.edit(path, wrong).String()), path, reasons[v.kind])
				}
			}
			err := parseLine(root.edit(path, "").String())
			want, ok := absent[path]
			switch {
			case path == "/body":
				// {} begins like an event's line.
				mustRefuse(t, name+" without "+path, err, "/hash", "missing")
			case strings.HasPrefix(path, "/trailer/peaks/"):
				mustRefuse(t, name+" without "+path, err, "/trailer/peaks", "size 3 has 2 peaks, not 1…")
			case ok && want[0] == "":
				if err != nil {
					t.Errorf("%s without %s: %v", name, path, err)
				}
			case ok:
				mustRefuse(t, name+" without "+path, err, want[0], want[1])
			default:
				mustRefuse(t, name+" without "+path, err, path, "missing")
			}
		})
	}
}

func TestLineRules(t *testing.T) {
	l := fullLines()
	for _, c := range []struct{ line, pointer, text, path, reason string }{
		{"event", "/parts", `{}`, "/parts", "empty"},
		{"event", "/parts/a b", `{"salt":"` + saltA + `"}`, "/parts/a b", "a character outside printable ASCII"},
		{"event", "/parts/request/salt", `""`, "/parts/request/salt", "not 32 hex digits"},
		{"event", "/salt", `"` + strings.ToUpper(saltA) + `"`, "/salt", "not 32 lower-case hex digits"},
		{"event", "/hash", `"` + strings.ToUpper(hexA) + `"`, "/hash", "not 64 lower-case hex digits"},
		{"event", "/content", `[]`, "/content", "not an object"},
		{"body", "/body/data", `"AAEC\n"`, "/body/data", "not canonical base64"},
		{"body", "/body/data", `"AAED=="`, "/body/data", "not canonical base64"},
		{"body", "/body/data", `"AB=="`, "/body/data", "not canonical base64"},
		{"body", "/body/at", `-1`, "/body/at", "not an integer from 0 to 2^53-1"},
		{"whole", "/trailer/first", `0`, "/trailer/first", "0, and it begins at 1"},
		{"whole", "/trailer/last", `0`, "/trailer/last", "0, and it begins at 1"},
		{"whole", "/trailer/peaks", `[]`, "/trailer/peaks", "has no place in an export from 1"},
		{"whole", "/trailer/run", `"r"`, "/trailer/root", "has no place in an export of one run"},
		{"run", "/trailer/root", `"` + hexA + `"`, "/trailer/root", "has no place in an export of one run"},
		{"run", "/trailer/peaks", `[]`, "/trailer/peaks", "has no place in an export of one run"},
		{"run", "/trailer/run", `"a b"`, "/trailer/run", "a character outside printable ASCII"},
		{"range", "/trailer/peaks/0", `"AAEC"`, "/trailer/peaks/0", "not 32 bytes"},
		{"range", "/trailer/peaks/1", `"_w=="`, "/trailer/peaks/1", "not canonical base64"},
		{"range", "/trailer/first", `5`, "/trailer/peaks", "size 4 has 1 peaks, not 2…"},
	} {
		mustRefuse(t, c.line+" "+c.pointer+c.text, parseLine(edit(t, l[c.line], c.pointer, c.text)), c.path, c.reason)
	}
	for what, text := range map[string]string{
		"a newline":         l["event"] + "\n",
		"a carriage return": l["event"] + "\r",
		"a space":           l["body"] + " ",
		"another trailer":   l["whole"] + l["whole"],
	} {
		mustRefuse(t, what, parseLine(text), "", "bytes after the value")
	}
	mustRefuse(t, "nothing", parseLine(""), "", "not an object")
	// Bodies and trailers stand alone.
	both := strings.TrimSuffix(l["body"], "}") + `,"trailer":{}}`
	mustRefuse(t, "body and trailer", parseLine(both), "/trailer", "unknown member")
	for name, text := range l {
		for i := range text {
			if parseLine(text[:i]) == nil {
				t.Errorf("%s: accepted its first %d bytes", name, i)
			}
		}
	}
}

const createdText = `{"continues":{"checkpoint":"a note\n","gaps":[[3,4],[9,9]],"head":"` + hexA + `","ledger":"0123456789abcdef0123456789abcdef","root":"` + hexB + `","size":12,"why":"salvage"},` +
	`"created_by":"docketd 1","format":"docketd.ledger/1","keys":["` + key1 + `","` + key2 + `"],"ledger":"abcdef0123456789abcdef0123456789","nonce":"00112233445566778899aabbccddeeff"}`

func TestCreated(t *testing.T) {
	for _, text := range []string{
		createdText,
		edit(t, createdText, "/continues/checkpoint", "null"),
		edit(t, createdText, "/continues/gaps", "[]"),
		edit(t, createdText, "/continues", ""),
		edit(t, createdText, "/continues", "", "/keys", "[]", "/created_by", `""`),
	} {
		c, err := chain.ParseCreated([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := string(c.Append(nil)); got != text {
			t.Errorf("re-encoded as\n%s\nnot\n%s", got, text)
		}
	}
	// Content is open.
	c, err := chain.ParseCreated([]byte(edit(t, createdText, "/purpose", `{"x":[1,{}]}`)))
	if err != nil || string(c.Append(nil)) != createdText {
		t.Errorf("with a member more: %v", err)
	}
}

func TestCreatedForms(t *testing.T) {
	values := map[byte]string{'n': `null`, '"': `"x"`, '0': `7`, 't': `true`, '[': `[]`, '{': `{}`}
	reasons := map[byte]string{'"': "not a string", '0': "not an integer from 0 to 2^53-1", '[': "not an array", '{': "not an object"}
	parse := func(text string) error {
		c, err := chain.ParseCreated([]byte(text))
		if err != nil && c != nil {
			t.Errorf("refused, and yet %+v came back", c)
		}
		return err
	}
	root := parseNode(t, createdText)
	root.walk("", func(path string, v *node) {
		for kind, wrong := range values {
			if kind == v.kind || kind == 'n' && path == "/continues/checkpoint" {
				continue
			}
			mustRefuse(t, wrong+" at "+path, parse(root.edit(path, wrong).String()), path, reasons[v.kind])
		}
		err := parse(root.edit(path, "").String())
		switch {
		case path == "/continues" || strings.HasPrefix(path, "/keys/") || path == "/continues/gaps/0" || path == "/continues/gaps/1":
			if err != nil {
				t.Errorf("without %s: %v", path, err)
			}
		case strings.HasPrefix(path, "/continues/gaps/"):
			mustRefuse(t, "without "+path, err, path[:len("/continues/gaps/0")], "not two numbers")
		default:
			mustRefuse(t, "without "+path, err, path, "missing")
		}
	})
	for _, c := range []struct{ pointer, text, path, reason string }{
		{"/continues/zz", `1`, "/continues/zz", "unknown member"},
		{"/continues/why", `"whim"`, "/continues/why", "not segment, salvage, version, key_lost or algorithm"},
		{"/continues/checkpoint", `""`, "/continues/checkpoint", "empty"},
		{"/continues/gaps/0", `[1,2,3]`, "/continues/gaps/0", "not two numbers"},
		{"/continues/ledger", `"` + hexA + `"`, "/continues/ledger", "not 32 hex digits"},
		{"/ledger", `"` + strings.ToUpper(saltA) + `"`, "/ledger", "not 32 lower-case hex digits"},
		{"/nonce", `"` + saltA[1:] + `"`, "/nonce", "not 32 hex digits"},
		{"/keys/1", `"` + key1 + `"`, "/keys/1", "a key twice"},
		{"/zz", `-0`, "/zz", "a negative zero"},
	} {
		mustRefuse(t, c.pointer+c.text, parse(edit(t, createdText, c.pointer, c.text)), c.path, c.reason)
	}
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprintf("%q", chain.Key{byte(i)}.String()))
	}
	mustRefuse(t, "five keys", parse(edit(t, createdText, "/keys", "["+strings.Join(keys, ",")+"]")), "/keys", "not 0 to 4 keys")
	mustRefuse(t, "white space", parse(" "+createdText), "", "not an object")
}

// TestUnknownFormat: of a version that the program does not know nothing else
// is judged.
func TestUnknownFormat(t *testing.T) {
	for _, text := range []string{
		edit(t, createdText, "/format", `"docketd.ledger/2"`),
		`{"format":"docketd.ledger/2"}`,
		`{"format":"docketd.ledger/10","keys":7}`,
	} {
		if c, err := chain.ParseCreated([]byte(text)); !errors.Is(err, chain.ErrFormatVersion) || c != nil {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	for _, other := range []string{"docketd.diary/1", "docketd.ledger/", "docketd.ledger/0", "docketd.ledger/01", "docketd.ledger/1a", "docketd.ledger/-2", "Docketd.ledger/2", "docketd.receipt/1"} {
		_, err := chain.ParseCreated([]byte(edit(t, createdText, "/format", `"`+other+`"`)))
		mustRefuse(t, other, err, "/format", "not docketd.ledger/1")
	}
	_, err := chain.ParseCreated([]byte(`{"format":"docketd.ledger/` + strings.Repeat("2", 1000) + `"}`))
	if !errors.Is(err, chain.ErrFormatVersion) || len(err.Error()) > 250 {
		t.Errorf("a long name is repeated whole: %v", err)
	}
}

// TestCheck: what Append would write and ParseHeader would not read is
// refused before it is written.
func TestCheck(t *testing.T) {
	fresh := func() *chain.Header {
		h, err := chain.ParseHeader([]byte(fullHeaders(t)["tool.call"]))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, c := range []struct {
		what, path, reason string
		change             func(*chain.Header)
	}{
		{"run_seq without run", "/run", "missing beside run_seq", func(h *chain.Header) { h.Run = "" }},
		{"run without run_seq", "/run_seq", "0, and it begins at 1", func(h *chain.Header) { h.RunSeq = 0 }},
		{"no seq", "/seq", "0, and it begins at 1", func(h *chain.Header) { h.Seq = 0 }},
		{"seq 2^53", "/seq", "not an integer from 0 to 2^53-1", func(h *chain.Header) { h.Seq = 1 << 53 }},
		{"no ts", "/ts", "not spelled YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ", func(h *chain.Header) { h.TS = "" }},
		{"no type", "/type", "not a type such as tool.call", func(h *chain.Header) { h.Type = "" }},
		{"a meter", "/meter", "has no place on tool.call", func(h *chain.Header) {
			h.Meter = &chain.Meter{Model: "m", Provider: "p", Source: chain.SourceNone}
		}},
		{"no UTF-8", "/actor/role", "invalid UTF-8", func(h *chain.Header) { h.Actor.Role = "a\xff" }},
		{"no role", "/actor/role", "empty", func(h *chain.Header) { h.Actor.Role = "" }},
		{"no part", "/parts", "empty", func(h *chain.Header) { h.Parts = map[string]chain.Part{} }},
		{"a part's name", "/parts/é", "a character outside printable ASCII", func(h *chain.Header) {
			h.Parts = map[string]chain.Part{"é": {Media: "m"}}
		}},
		{"a key with a newline", "/key", "a character outside printable ASCII", func(h *chain.Header) { h.Key = "a\nb" }},
	} {
		h := fresh()
		c.change(h)
		mustRefuse(t, c.what, h.Check(), c.path, c.reason)
	}
	if err := fresh().Check(); err != nil {
		t.Error(err)
	}
}

func TestFormErrorText(t *testing.T) {
	err := parseHeader(edit(t, bare, "/seq", "0"))
	if got := err.Error(); got != "/seq: 0, and it begins at 1" {
		t.Error(got)
	}
	if got := parseHeader("").Error(); got != "not an object" {
		t.Error(got)
	}
}
