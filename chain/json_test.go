package chain_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/docket-audit/docket/chain"
)

// jsonTable says what becomes of a JSON text on its two ways in: handed over
// for an append (docs/format.md, section 2), and found in a file. A refusal is
// written "path: reason"; "" is the path of the whole.
var jsonTable = []struct {
	what, src string
	stored    string // what an append keeps; "" where it refuses
	refused   string // why it refuses
	malformed string // why a file with src in it is malformed; "" where it is fine
}{
	{"member twice", `{"a":1,"a":2}`, "", "/a: member twice", "/a: member twice"},
	{"member twice, deep", `{"a":{"b":[1,{"c":1,"c":2}]}}`, "", "/a/b/1/c: member twice", "/a/b/1/c: member twice"},
	{"member twice after escapes", `{"\u0061":1,"a":2}`, "", "/a: member twice", ": an escape that canonical JSON does not have"},
	{"member twice after escapes, swapped", `{"a":1,"\u0061":2}`, "", "/a: member twice", ": an escape that canonical JSON does not have"},
	{"names that differ in case", `{"Seq":1,"seq":2}`, `{"Seq":1,"seq":2}`, "", ""},

	{"lone high surrogate", `{"a":"\ud800"}`, "", "/a: invalid surrogate pair…", "/a: an escape that canonical JSON does not have"},
	{"lone low surrogate", `{"a":"\udc00x"}`, "", "/a: invalid surrogate pair…", "/a: an escape that canonical JSON does not have"},
	{"surrogates swapped", `{"a":"\ude00\ud83d"}`, "", "/a: invalid surrogate pair…", "/a: an escape that canonical JSON does not have"},
	{"surrogate in a name", `{"\ud800":1}`, "", ": invalid surrogate pair…", ": an escape that canonical JSON does not have"},
	{"surrogate as bytes", "{\"a\":\"\xed\xa0\x80\"}", "", "/a: invalid UTF-8", "/a: invalid UTF-8"},
	{"surrogate pair", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`, "", "/a: an escape that canonical JSON does not have"},
	{"no UTF-8", "{\"a\":\"\xff\"}", "", "/a: invalid UTF-8", "/a: invalid UTF-8"},
	{"no UTF-8 in a name", "{\"\xff\":1}", "", ": invalid UTF-8", ": invalid UTF-8"},
	{"overlong UTF-8", "{\"a\":\"\xc0\xaf\"}", "", "/a: invalid UTF-8", "/a: invalid UTF-8"},
	{"UTF-8 cut short", "{\"a\":\"\xf0\x9f\x98\"}", "", "/a: invalid UTF-8", "/a: invalid UTF-8"},
	{"U+FFFD itself", `{"a":"` + "\ufffd" + `"}`, `{"a":"` + "\ufffd" + `"}`, "", ""},
	{"byte order mark", "\ufeff{}", "", ": invalid character '\\ufeff' at start of value", ": not an object"},

	{"2^53 and 1", `{"a":9007199254740993}`, "", "/a: a number that a double does not hold exactly; send it as a string", "/a: a number that a double does not hold exactly; send it as a string"},
	{"deep number", `{"a":[0,{"b":9007199254740993}]}`, "", "/a/1/b: a number that a double does not hold exactly; send it as a string", "/a/1/b: a number that a double does not hold exactly; send it as a string"},
	{"1e400", `{"a":1e400}`, "", "/a: a number beyond what a double holds; send it as a string", "/a: a number beyond what a double holds; send it as a string"},
	{"-1e400", `{"a":-1e400}`, "", "/a: a number beyond what a double holds; send it as a string", "/a: a number beyond what a double holds; send it as a string"},
	{"1e-400", `{"a":1e-400}`, "", "/a: a number that a double does not hold exactly; send it as a string", "/a: a number that a double does not hold exactly; send it as a string"},
	{"exponent beyond int64", `{"a":1e99999999999999999999}`, "", "/a: a number beyond what a double holds; send it as a string", "/a: a number beyond what a double holds; send it as a string"},
	{"negative exponent beyond int64", `{"a":10.1e-99999999999999999999}`, "", "/a: a number that a double does not hold exactly; send it as a string", "/a: a number that a double does not hold exactly; send it as a string"},
	{"many digits", `{"a":0.10000000000000000001}`, "", "/a: a number that a double does not hold exactly; send it as a string", "/a: a number that a double does not hold exactly; send it as a string"},
	{"value kept", `{"a":[9007199254740992,0.1,2.5,5e-324,-1.5,0]}`, `{"a":[9007199254740992,0.1,2.5,5e-324,-1.5,0]}`, "", ""},
	{"zeros and exponents", `{"a":[1.0,1e2,1E21,0.70,0e5,0.0e-9,100e-2]}`, `{"a":[1,100,1e+21,0.7,0,0,1]}`, "", "/a/0: a number that canonical JSON spells 1"},
	{"1e2 in a file", `{"a":1e2}`, `{"a":100}`, "", "/a: a number that canonical JSON spells 100"},
	{"1E21 in a file", `{"a":1E21}`, `{"a":1e+21}`, "", "/a: a number that canonical JSON spells 1e+21"},
	{"edges of ECMAScript's spelling", `{"a":[1e20,123456789012345680000,1e-6,0.000001,1e-7]}`, `{"a":[100000000000000000000,123456789012345680000,0.000001,0.000001,1e-7]}`, "", "/a/0: a number that canonical JSON spells 100000000000000000000"},
	{"-0", `{"a":-0}`, "", "/a: a negative zero", "/a: a negative zero"},
	{"-0.0", `{"a":-0.0}`, "", "/a: a negative zero", "/a: a negative zero"},
	{"-0e5", `{"a":-0e5}`, "", "/a: a negative zero", "/a: a negative zero"},

	{"01", `{"a":01}`, "", ": invalid character '1' after object value (expecting ',' or '}')", "/a: not a number of JSON"},
	{"+1", `{"a":+1}`, "", "/a: invalid character '+' at start of value", "/a: not canonical JSON"},
	{".5", `{"a":.5}`, "", "/a: invalid character '.' at start of value", "/a: not canonical JSON"},
	{"1.", `{"a":1.}`, "", "/a: invalid character '}' in number (expecting digit)", "/a: not a number of JSON"},
	{"1e", `{"a":1e}`, "", "/a: invalid character '}' in number (expecting digit)", "/a: not a number of JSON"},
	{"a lone minus", `{"a":-}`, "", "/a: invalid character '}' in number (expecting digit)", "/a: not a number of JSON"},
	{"NaN", `{"a":NaN}`, "", "/a: invalid character 'N' at start of value", "/a: not canonical JSON"},
	{"Infinity", `{"a":Infinity}`, "", "/a: invalid character 'I' at start of value", "/a: not canonical JSON"},
	{"block comment", `{"a":1/*c*/}`, "", ": invalid character '/' after object value (expecting ',' or '}')", ": not canonical JSON"},
	{"line comment", "{\"a\":1}//c", "", ": bytes after the value", ": bytes after the value"},
	{"trailing comma", `{"a":1,}`, "", ": invalid character ',' at start of value", ": not a string"},
	{"trailing comma in a list", `{"a":[1,]}`, "", "/a: invalid character ',' at start of value", "/a/1: not canonical JSON"},
	{"second value", `{} {}`, "", ": bytes after the value", ": bytes after the value"},
	{"single quotes", `{'a':1}`, "", ": invalid character '\\'' at start of value", ": not a string"},
	{"no end", `{"a":`, "", "/a: JSON without end", "/a: not canonical JSON"},
	{"string without end", `{"a":"x`, "", "/a: JSON without end", "/a: string without end"},
	{"nothing", ``, "", ": empty input", ": not an object"},
	{"white space alone", " \n", "", ": empty input", ": not an object"},
	{"no object", `[{}]`, "", ": not an object", ": not an object"},
	{"no object, and more that is wrong", `[-0]`, "", ": not an object", ": not an object"},
	{"null", `null`, "", ": not an object", ": not an object"},

	{"escaped slash", `{"a":"\/"}`, `{"a":"/"}`, "", "/a: an escape that canonical JSON does not have"},
	{"needless escape", `{"a":"\u0061\u00e9"}`, `{"a":"aé"}`, "", "/a: an escape that canonical JSON does not have"},
	{"escape in capitals", `{"a":"\u001F"}`, `{"a":"\u001f"}`, "", "/a: an escape that canonical JSON does not have"},
	{"long form of a short escape", `{"a":"\u000a"}`, `{"a":"\n"}`, "", "/a: an escape that canonical JSON does not have"},
	{"the escapes of RFC 8785", `{"a":"\"\\\b\f\n\r\t\u0000\u001f"}`, `{"a":"\"\\\b\f\n\r\t\u0000\u001f"}`, "", ""},
	{"what other encoders escape", "{\"a\":\"<>&\u2028\u2029\u007f\"}", "{\"a\":\"<>&\u2028\u2029\u007f\"}", "", ""},
	{"control character", "{\"a\":\"\x01\"}", "", "/a: invalid character '\\x01' in string (expecting non-control character)", "/a: control character in a string"},
	{"short unicode escape", `{"a":"\u12"}`, "", "/a: invalid escape sequence…", "/a: an escape that canonical JSON does not have"},
	{"white space", "{ \"a\" : [ 1 ,\t2 ] }\r\n", `{"a":[1,2]}`, "", ": not a string"},
	{"space after a comma", `{"a":[1, 2]}`, `{"a":[1,2]}`, "", "/a/1: not canonical JSON"},
	{"other order", `{"b":1,"a":2}`, `{"a":2,"b":1}`, "", "/a: member out of canonical order"},
	{"other order, deep", `{"x":[{"b":1,"a":2}]}`, `{"x":[{"a":2,"b":1}]}`, "", "/x/0/a: member out of canonical order"},
	{"empty name", `{"":1,"a":2}`, `{"":1,"a":2}`, "", ""},
	{"U+10000 before U+E000", "{\"\U00010000\":1,\"\ue000\":2}", "{\"\U00010000\":1,\"\ue000\":2}", "", ""},
	{"U+E000 before U+10000", "{\"\ue000\":2,\"\U00010000\":1}", "{\"\U00010000\":1,\"\ue000\":2}", "", "/\U00010000: member out of canonical order"},
	{"é as one and as two characters", "{\"e\u0301\":1,\"\u00e9\":\"e\u0301\"}", "{\"e\u0301\":1,\"\u00e9\":\"e\u0301\"}", "", ""},
}

func TestJSONTable(t *testing.T) {
	for _, c := range jsonTable {
		src := []byte(c.src)
		kept := bytes.Clone(src)
		got, err := chain.CanonicalContent(src)
		if !bytes.Equal(src, kept) {
			t.Errorf("%s: the input was changed", c.what)
		}
		if c.refused != "" {
			path, reason, _ := strings.Cut(c.refused, ": ")
			mustRefuse(t, c.what+" on append", err, path, reason)
			if got != nil {
				t.Errorf("%s: refused, and yet %s came back", c.what, got)
			}
		} else if err != nil || string(got) != c.stored {
			t.Errorf("%s on append: %s, %v, not %s", c.what, got, err, c.stored)
		}
		err = chain.CheckContent(src)
		path, reason, _ := strings.Cut(c.malformed, ": ")
		_, lineErr := chain.ParseLine(fmt.Appendf(nil, `{"content":%s,"hash":"%s","header":{},"salt":"%s"}`, c.src, hexA, hexA[:32]))
		if (lineErr == nil) != (c.malformed == "") {
			t.Errorf("%s in a line: %v", c.what, lineErr)
		}
		if c.malformed != "" {
			mustRefuse(t, c.what+" in a file", err, path, reason)
		} else if err != nil {
			t.Errorf("%s in a file: %v", c.what, err)
		}
	}
}

// TestJSONInHeader is the part of the table that is about headers: one that
// is read from a file has the canonical form and the exact names.
func TestJSONInHeader(t *testing.T) {
	full := fullHeaders(t)
	mustRefuse(t, "Seq", parseHeader(strings.Replace(bare, `"seq"`, `"Seq"`, 1)), "/Seq", "member out of canonical order")
	mustRefuse(t, "Seq at its place", parseHeader(edit(t, edit(t, bare, "/seq", ""), "/Seq", "9")), "/Seq", "unknown member")
	mustRefuse(t, "escaped name", parseHeader(strings.Replace(bare, `"seq"`, `"s\u0065q"`, 1)), "", "an escape that canonical JSON does not have")
	mustRefuse(t, "escaped value", parseHeader(strings.Replace(bare, `"tool.call"`, `"tool\u002ecall"`, 1)), "/type", "an escape that canonical JSON does not have")
	mustRefuse(t, "byte order mark", parseHeader("\ufeff"+bare), "", "not an object")
	for _, p := range []string{"/actor/role", "/run", "/parts/request/media"} {
		mustRefuse(t, "no UTF-8 in "+p, parseHeader(edit(t, full["tool.call"], p, "\"\xff\"")), p, "invalid UTF-8")
	}
	for _, money := range []string{"1.50", "01", ".5", "1e3", "-1", "", "1.", "+1", " 1", "1 ", "1,5", "NaN", "Infinity", "0x1", "1_000", "1٣", `3\n`, "00", "-0", "0.0"} {
		for header, pointer := range map[string]string{"model.response": "/meter/prices/input", "run.closed": "/totals/cost_usd", "cap.set": "/cap/limit_usd", "cap.exceeded": "/cap/spent_usd"} {
			err := parseHeader(edit(t, full[header], pointer, `"`+money+`"`))
			mustRefuse(t, money+" at "+pointer, err, pointer, `"…`)
		}
	}
}

// TestNumbersAgainstOracle spells random doubles as two other encoders do and
// wants the second library's canonical form of each.
func TestNumbersAgainstOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 10_000 {
		f := math.Float64frombits(r.Uint64())
		switch i % 4 {
		case 1: // near the integers that a double holds
			f = float64(r.Int64N(1<<54)) - 1<<53
		case 2: // few digits, as people write
			f = float64(r.Int64N(2e6)-1e6) / math.Pow10(r.IntN(8))
		case 3: // powers of ten, where the spelling changes
			f = math.Pow10(r.IntN(60)-30) * float64(1+r.IntN(9))
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			continue
		}
		for _, format := range []byte{'e', 'g'} {
			text := strconv.FormatFloat(f, format, -1, 64)
			want, err := jcs.NumberToJSON(f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := chain.CanonicalContent([]byte(`{"a":` + text + `}`))
			if err != nil || string(got) != `{"a":`+want+`}` {
				t.Fatalf("%s: %s, %v, not %s", text, got, err, want)
			}
			if err := chain.CheckContent(got); err != nil {
				t.Fatalf("%s: %v", got, err)
			}
		}
	}
}

// TestNumberNeighbours changes the last digit of what a double needs 17
// digits for: the text is no longer its value and has to be refused, or its
// value is another double and comes out as that.
func TestNumberNeighbours(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	refused := 0
	for range 10_000 {
		f := r.Float64() * math.Pow10(r.IntN(40)-20)
		text := strconv.FormatFloat(f, 'e', 20, 64)
		got, err := chain.CanonicalContent([]byte(`{"a":` + text + `}`))
		if err != nil {
			refused++
			mustRefuse(t, text, err, "/a", "a number that a double does not hold exactly; send it as a string")
			continue
		}
		back, err := strconv.ParseFloat(string(got[5:len(got)-1]), 64)
		if err != nil || strconv.FormatFloat(back, 'e', 20, 64) != text {
			t.Fatalf("%s became %s", text, got)
		}
	}
	if refused < 8_000 {
		t.Errorf("only %d of 10000 refused", refused)
	}
}

// TestOrderOfNames sorts pairs of names as UTF-16 does, by the second library.
func TestOrderOfNames(t *testing.T) {
	runes := []rune{'a', 0x7f, 0x80, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10400, 0x10ffff}
	var names []string
	for _, a := range runes {
		names = append(names, string(a))
		for _, b := range runes {
			names = append(names, string(a)+string(b))
		}
	}
	for _, a := range names {
		for _, b := range names {
			if a == b {
				continue
			}
			qa, _ := chain.AppendString(nil, a)
			qb, _ := chain.AppendString(nil, b)
			src := fmt.Appendf(nil, `{%s:1,%s:2}`, qa, qb)
			want, err := jcs.Transform(src)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := chain.CanonicalContent(src); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q: %q, %v, not %q", src, got, err, want)
			}
			if err := chain.CheckContent(src); (err == nil) != bytes.Equal(src, want) {
				t.Fatalf("%q in a file: %v", src, err)
			}
		}
	}
}

func TestAppendString(t *testing.T) {
	for c := range 0x180 {
		s := "a" + string(rune(c)) + "b"
		got, err := chain.AppendString([]byte(`{"x":`), s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform(append(bytes.Clone(got), '}'))
		if err != nil || string(want) != string(got)+"}" {
			t.Errorf("%q: %s, not %s (%v)", s, got, want, err)
		}
	}
	got, err := chain.AppendString([]byte("x"), "\xff")
	mustRefuse(t, "no UTF-8", err, "", "invalid UTF-8")
	if string(got) != "x" {
		t.Errorf("refused, and yet appended: %q", got)
	}
}
