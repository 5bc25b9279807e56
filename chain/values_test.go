package chain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/docket-audit/docket/chain"
)

// TestNameRunes tries every character at the edge and in the middle of a name.
func TestNameRunes(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		inside := !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		edge := inside && !unicode.Is(unicode.Zs, r)
		c := string(r)
		for _, try := range []struct {
			s  string
			ok bool
		}{{"a" + c + "b", inside}, {c, edge}, {c + "a", edge}, {"a" + c, edge}} {
			if err := chain.CheckName(try.s); (err == nil) != try.ok {
				t.Fatalf("%U in %q: %v", r, try.s, err)
			}
		}
	}
}

// TestNames has the characters that people meet, by number, so that a wrong
// table of Unicode shows, and the lengths.
func TestNames(t *testing.T) {
	const hidden, space = "a control or format character", "begins or ends with a space"
	for _, c := range []struct{ name, reason string }{
		{"", "empty"},
		{" a", space}, {"a ", space}, {"\u00a0a", space}, {"a\u3000", space}, {"a\u2009", space}, {" ", space},
		{"a\tb", hidden}, {"a\nb", hidden}, {"a\x00b", hidden}, {"a\x7fb", hidden}, {"a\u0085b", hidden},
		{"a\u00adb", hidden}, {"a\u200bb", hidden}, {"a\u202eb", hidden}, {"a\u2066b", hidden}, {"\ufeffa", hidden}, {"a\U000e0001b", hidden},
		{"a\u2028b", hidden}, {"a\u2029b", hidden},
		{strings.Repeat("a", 257), "more than 256 bytes"},
		{strings.Repeat("é", 128) + "a", "more than 256 bytes"},
		{"a\xffb", "invalid UTF-8"},
	} {
		mustRefuse(t, fmt.Sprintf("%q", c.name), chain.CheckName(c.name), "", c.reason)
		if c.name == "" || strings.IndexByte(c.name, 0xff) >= 0 {
			continue
		}
		raw, err := chain.AppendString(nil, c.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range []string{"role", "context", "pass"} {
			p := "/actor/" + member
			mustRefuse(t, p+string(raw), parseHeader(edit(t, fullHeaders(t)["tool.call"], p, string(raw))), p, c.reason)
		}
	}
	for _, good := range []string{"a", "a b", "a\u00a0b", strings.Repeat("a", 256), strings.Repeat("é", 128), "é", "e\u0301", "評価者", "r\U0001f600", "\ufffd"} {
		if err := chain.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestTokens(t *testing.T) {
	for c := range 256 {
		want := c >= 0x21 && c <= 0x7e
		if err := chain.CheckToken("a" + string([]byte{byte(c)})); (err == nil) != want {
			t.Errorf("%#x: %v", c, err)
		}
	}
	const length = "not 1 to 128 characters"
	mustRefuse(t, "empty", chain.CheckToken(""), "", length)
	mustRefuse(t, "129", chain.CheckToken(strings.Repeat("k", 129)), "", length)
	if err := chain.CheckToken(strings.Repeat("k", 128)); err != nil {
		t.Error(err)
	}
	full := fullHeaders(t)
	for _, c := range []struct{ header, pointer string }{
		{"tool.call", "/run"}, {"tool.call", "/key"}, {"tool.call", "/parts/request/media"},
		{"model.response", "/meter/provider"}, {"model.response", "/meter/model"},
		{"cap.exceeded", "/cap/run"},
	} {
		mustRefuse(t, c.pointer, parseHeader(edit(t, full[c.header], c.pointer, `"a b"`)), c.pointer, "a character outside printable ASCII")
		mustRefuse(t, c.pointer, parseHeader(edit(t, full[c.header], c.pointer, `""`)), c.pointer, length)
		long := `"` + strings.Repeat("k", 129) + `"`
		mustRefuse(t, c.pointer, parseHeader(edit(t, full[c.header], c.pointer, long)), c.pointer, length)
		if err := parseHeader(edit(t, full[c.header], c.pointer, long[:129]+`"`)); err != nil {
			t.Errorf("%s of 128 characters: %v", c.pointer, err)
		}
	}
	part := `{"bytes":1,"commit":"` + hexA + `","media":"m"}`
	mustRefuse(t, "part", parseHeader(edit(t, full["tool.call"], "/parts/a b", part)), "/parts/a b", "a character outside printable ASCII")
	// A name with a slash or a tilde is escaped in the path (RFC 6901).
	header := strings.Replace(full["tool.call"], `"request":{"bytes":0`, `"a~b/c":{"bytes":-1`, 1)
	mustRefuse(t, "escaped path", parseHeader(header), "/parts/a~0b~1c/bytes", "not an integer from 0 to 2^53-1")
}

func TestClasses(t *testing.T) {
	for c := range 256 {
		b := byte(c)
		want := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("_.:-", b) >= 0
		if err := chain.CheckClass(string([]byte{b})); (err == nil) != want {
			t.Errorf("%#x: %v", c, err)
		}
	}
	mustRefuse(t, "empty", chain.CheckClass(""), "", "not 1 to 64 characters")
	mustRefuse(t, "65", chain.CheckClass(strings.Repeat("c", 65)), "", "not 1 to 64 characters")
	if err := chain.CheckClass(strings.Repeat("c", 64)); err != nil {
		t.Error(err)
	}
	for _, list := range []struct{ pointer, value string }{{"/meter/usage", "1"}, {"/meter/prices", `"1"`}} {
		for _, n := range []int{64, 65} {
			var members []string
			for i := range n {
				members = append(members, fmt.Sprintf(`"c%02d":%s`, i, list.value))
			}
			err := parseHeader(edit(t, fullHeaders(t)["model.response"], list.pointer, "{"+strings.Join(members, ",")+"}"))
			if n == 64 && err != nil {
				t.Errorf("%s of 64: %v", list.pointer, err)
			}
			if n == 65 {
				mustRefuse(t, "65 classes", err, list.pointer+"/c64", "more than 64 classes")
			}
		}
	}
}

func TestTypes(t *testing.T) {
	const shape = "not a type such as tool.call"
	for _, c := range []struct{ typ, reason string }{
		{"", shape}, {"tool", shape}, {"tool.", shape}, {".call", shape}, {"tool..call", shape}, {"Tool.call", shape}, {"tool.Call", shape},
		{"1tool.call", shape}, {"tool.1call", shape}, {"tool._call", shape}, {"tool.-call", shape}, {"_tool.call", shape}, {"tool.call\n", shape},
		{"tool call", shape}, {"tool.cäll", shape}, {"tool.call/x", shape}, {"tool", shape},
		{"t." + strings.Repeat("c", 63), "more than 64 bytes"},
		{"ledger.reopened", "no type of the closed prefix ledger."}, {"model.answer", "no type of the closed prefix model."},
		{"run.paused", "no type of the closed prefix run."}, {"lock.stolen", "no type of the closed prefix lock."},
		{"cap.raised", "no type of the closed prefix cap."}, {"key.lost", "no type of the closed prefix key."},
		{"ledger.created.twice", "no type of the closed prefix ledger."},
	} {
		mustRefuse(t, c.typ, chain.CheckType(c.typ), "", c.reason)
		raw, err := chain.AppendString(nil, c.typ)
		if err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, c.typ, parseHeader(edit(t, bare, "/type", string(raw))), "/type", c.reason)
	}
	for _, good := range []string{"t.c", "tool.call", "a1-_.b2-_.c3", "t." + strings.Repeat("c", 62), "service.anything", "ledgers.x", "keys.x", "model-x.y"} {
		if err := chain.CheckType(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, typ := range chain.ClosedTypes() {
		if err := chain.CheckType(typ); err != nil {
			t.Errorf("%q: %v", typ, err)
		}
	}
}

func TestTimestamps(t *testing.T) {
	const shape, moment = "not spelled YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ", "not a moment from 1970 to 9999 that exists"
	for _, c := range []struct{ ts, reason string }{
		{"", shape},
		{"2026-11-30T12:00:00.123Z", shape},
		{"2026-11-30T12:00:00Z", shape},
		{"2026-11-30T12:00:00.000000000+00:00", shape},
		{"2026-11-30T12:00:00.000000000z", shape},
		{"2026-11-30 12:00:00.000000000Z", shape},
		{"2026-11-30T12:00:00,000000000Z", shape},
		{"+026-11-30T12:00:00.000000000Z", shape},
		{"12026-11-30T12:00:00.00000000Z", shape},
		{"2026-11-3٠T12:00:00.00000000Z", shape},
		{"1969-12-31T23:59:59.999999999Z", moment},
		{"2026-02-30T12:00:00.000000000Z", moment},
		{"2026-02-29T12:00:00.000000000Z", moment},
		{"2100-02-29T12:00:00.000000000Z", moment},
		{"2026-04-31T12:00:00.000000000Z", moment},
		{"2026-00-30T12:00:00.000000000Z", moment},
		{"2026-13-30T12:00:00.000000000Z", moment},
		{"2026-11-00T12:00:00.000000000Z", moment},
		{"2026-11-30T24:00:00.000000000Z", moment},
		{"2026-11-30T12:60:00.000000000Z", moment},
		{"2026-12-31T23:59:60.000000000Z", moment},
	} {
		mustRefuse(t, c.ts, parseHeader(edit(t, bare, "/ts", `"`+c.ts+`"`)), "/ts", c.reason)
		mustRefuse(t, c.ts, chain.CheckTime(c.ts), "", c.reason)
	}
	for _, good := range []string{"1970-01-01T00:00:00.000000000Z", "9999-12-31T23:59:59.999999999Z", "2000-02-29T12:00:00.000000000Z", "2028-02-29T00:00:00.000000001Z"} {
		h, err := chain.ParseHeader([]byte(edit(t, bare, "/ts", `"`+good+`"`)))
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if err := chain.CheckTime(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
		if got := chain.FormatTime(h.Time()); got != good {
			t.Errorf("%s was read and spelled as %s", good, got)
		}
	}
}

// TestEveryDay compares the calendar of years of every kind with that of
// package time.
func TestEveryDay(t *testing.T) {
	for _, year := range []int{1600, 1900, 1968, 1969, 1970, 1972, 1999, 2000, 2026, 2027, 2028, 2100, 2400, 9999} {
		for month := range 14 {
			for day := range 33 {
				text := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
				_, err := time.Parse(time.DateOnly, text)
				got := parseHeader(strings.Replace(bare, "2026-11-30", text, 1))
				if want := err == nil && year >= 1970; (got == nil) != want {
					t.Fatalf("%s: %v", text, got)
				}
			}
		}
	}
}

func TestFormatTimeIsUTC(t *testing.T) {
	zone := time.FixedZone("", 5*3600)
	if got := chain.FormatTime(time.Date(2026, 12, 1, 4, 30, 0, 7, zone)); got != "2026-11-30T23:30:00.000000007Z" {
		t.Error(got)
	}
}

func TestIntegers(t *testing.T) {
	const reason = "not an integer from 0 to 2^53-1"
	tool, closed := fullHeaders(t)["tool.call"], fullHeaders(t)["run.closed"]
	for _, pointer := range []string{"/seq", "/run_seq", "/actor/fence", "/peer/uid", "/parts/request/bytes"} {
		for _, bad := range []string{"-1", "-0", "1.0", "1e2", "1E2", "01", "00", "+1", "9007199254740992", "18446744073709551616", "99999999999999999999999"} {
			mustRefuse(t, pointer+" "+bad, parseHeader(edit(t, tool, pointer, bad)), pointer, reason)
		}
		if err := parseHeader(edit(t, tool, pointer, "9007199254740991")); err != nil {
			t.Errorf("%s: %v", pointer, err)
		}
	}
	for _, pointer := range []string{"/seq", "/run_seq", "/actor/fence"} {
		mustRefuse(t, pointer, parseHeader(edit(t, tool, pointer, "0")), pointer, "0, and it begins at 1")
	}
	mustRefuse(t, "call", parseHeader(edit(t, fullHeaders(t)["model.failed"], "/call", "0")), "/call", "0, and it begins at 1")
	for header, pointers := range map[string][]string{tool: {"/peer/gid", "/peer/pid", "/peer/uid", "/parts/request/bytes"}, closed: {"/totals/calls", "/totals/failed", "/totals/unpriced"}} {
		for _, p := range pointers {
			if err := parseHeader(edit(t, header, p, "0")); err != nil {
				t.Errorf("%s: %v", p, err)
			}
		}
	}
}

func TestHexAndKeys(t *testing.T) {
	full := fullHeaders(t)
	for _, pointer := range []string{"/content", "/prev", "/parts/request/commit"} {
		for bad, reason := range map[string]string{
			strings.ToUpper(hexA): "not 64 lower-case hex digits",
			hexA[:63]:             "not 64 hex digits",
			hexA + "00":           "not 64 hex digits",
			"":                    "not 64 hex digits",
			"g" + hexA[1:]:        "not 64 lower-case hex digits",
			hexA[:62] + "é":       "not 64 lower-case hex digits",
		} {
			mustRefuse(t, bad, parseHeader(edit(t, full["tool.call"], pointer, `"`+bad+`"`)), pointer, reason)
		}
	}
	rotated := full["key.rotated"]
	const kind = "not an Ed25519 key (type byte 1 and 32 bytes)"
	list := func(keys ...string) string { return `["` + strings.Join(keys, `","`) + `"]` }
	for _, c := range []struct{ keys, path, reason string }{
		{`[]`, "/keys", "not 1 to 4 keys"},
		{list(key1, key1), "/keys/1", "a key twice"},
		{list("Ag" + key1[2:]), "/keys/0", kind},
		{list("AQ=="), "/keys/0", kind},
		{list(""), "/keys/0", kind},
		{list(key1[:len(key1)-1]), "/keys/0", "not canonical base64"},
		{list(strings.ReplaceAll(strings.ReplaceAll(key1, "/", "_"), "+", "-")), "/keys/0", "not canonical base64"},
		{list(key1[:40] + `\n` + key1[40:]), "/keys/0", "not canonical base64"},
		{list("AQ=" + "A"), "/keys/0", "not canonical base64"},
		{list("AR=="), "/keys/0", "not canonical base64"},
	} {
		mustRefuse(t, c.keys, parseHeader(edit(t, rotated, "/keys", c.keys)), c.path, c.reason)
	}
	var many []string
	for i := range 5 {
		many = append(many, chain.Key{byte(i)}.String())
	}
	mustRefuse(t, "five keys", parseHeader(edit(t, rotated, "/keys", list(many...))), "/keys", "not 1 to 4 keys")
	if err := parseHeader(edit(t, rotated, "/keys", list(many[:4]...))); err != nil {
		t.Error(err)
	}
	for _, s := range many {
		if k, err := chain.ParseKey(s); err != nil || k.String() != s {
			t.Errorf("%s: %v, %v", s, k, err)
		}
	}
}
