package meter_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/internal/meter"
)

// TestLoadRefuses: every check at load, by one change of a good file. The
// message names file, row and member.
func TestLoadRefuses(t *testing.T) {
	good := `[[row]]
provider = "p"
model = "m"
aliases = ["a"]
from = "2026-01-01"
until = "2026-07-01"
source = "https://example.com/prices"
checked = "2026-06-30"
unverified = false
free = false
prices = {input = "2", output = "10", web_search = "10000"}
long = [{tokens = 100, rule = ">", prices = {input = "4", output = "20"}}, {tokens = 200, rule = ">=", prices = {input = "8", output = "40"}}]
factors = {"speed=fast" = "2"}
[row.tiers.flex]
prices = {input = "1", output = "5"}
long = [{tokens = 100, rule = ">", prices = {input = "2", output = "10"}}]
`
	if _, err := meter.LoadFile("good.toml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	second := strings.Replace(good, `from = "2026-01-01"`, `from = "2026-06-30"`, 1)
	second = strings.Replace(second, `until = "2026-07-01"`+"\n", "", 1)
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "free = false", "gratis = false", "line 10: unknown key row.gratis"},
		{"unknown key in a step", "tokens = 100", "token = 100", "line 12: unknown key row.token"},
		{"unknown key in a tier", "[row.tiers.flex]\n", "[row.tiers.flex]\nfactors = {}\n", "unknown key row.tiers.flex.factors"},
		{"unknown table", "[[row]]", "[[rows]]", "unknown key rows"},
		{"not TOML", "[[row]]", "[[row", "line 1"},
		{"a key twice", `model = "m"`, "model = \"m\"\nmodel = \"n\"", "already defined"},
		{"number for a price", `input = "2"`, `input = 2`, "quotes"},
		{"float for a price", `input = "2"`, `input = 2.5`, "quotes"},
		{"number for a factor", `"speed=fast" = "2"`, `"speed=fast" = 2`, "quotes"},
		{"exponent", `input = "2"`, `input = "2e-6"`, "prices.input"},
		{"trailing zero", `input = "2"`, `input = "2.50"`, "trailing zero"},
		{"leading zero", `input = "2"`, `input = "02"`, "leading zero"},
		{"sign", `input = "2"`, `input = "-2"`, "prices.input"},
		{"no text", `input = "2"`, `input = ""`, "prices.input"},
		{"word", `input = "2"`, `input = "NaN"`, "prices.input"},
		{"19 decimals", `input = "2"`, `input = "0.0000000000000000001"`, "prices.input"},
		{"zero, and not free", `input = "2"`, `input = "0"`, "free = true"},
		{"zero in a step", `input = "4"`, `input = "0"`, "long[0].prices.input is 0"},
		{"zero in a tier", `input = "1"`, `input = "0"`, "tiers.flex.prices.input is 0"},
		{"unknown class", "output = \"10\", web_search", "outptu = \"10\", output = \"10\", web_search", "prices.outptu: not a class"},
		{"unresolved class", "output = \"10\", web_search", "unresolved_input = \"10\", output = \"10\", web_search", "never has a price"},
		{"bad path", "output = \"10\", web_search", "\"a.ü\" = \"10\", output = \"10\", web_search", "not a class name"},
		{"no prices", `prices = {input = "2", output = "10", web_search = "10000"}`, `prices = {}`, "prices: no price"},
		{"step without prices", `{input = "4", output = "20"}`, `{}`, "long[0].prices: no price"},
		{"step without a token class", `{input = "4", output = "20"}`, `{input = "4"}`, "long[0].prices: no price for output"},
		{"tier without a token class", `{input = "1", output = "5"}`, `{input = "1"}`, "tiers.flex.prices: no price for output"},
		{"tier's step without a token class", `{input = "2", output = "10"}}]` + "\n", `{input = "2"}}]` + "\n", "tiers.flex.long[0].prices: no price for output"},
		{"no rule", `rule = ">="`, `rule = ""`, "long[1]: rule is"},
		{"another rule", `rule = ">="`, `rule = "<"`, "long[1]: rule is"},
		{"no tokens", "tokens = 200, ", "", "long[1]: tokens is 0"},
		{"negative tokens", "tokens = 200", "tokens = -1", "long[1]: tokens is -1"},
		{"tokens of another type", "tokens = 200", `tokens = "200"`, "line 12, column 86: cannot decode TOML string into row.long"},
		{"steps not rising", "tokens = 200", "tokens = 100", "not above the step before"},
		{"no provider", `provider = "p"`, "", "provider is not"},
		{"provider with a space", `provider = "p"`, `provider = "p q"`, "provider is not"},
		{"no model", `model = "m"`, "", "model is not"},
		{"model over 128 bytes", `model = "m"`, `model = "` + strings.Repeat("m", 129) + `"`, "model is not"},
		{"bad alias", `["a"]`, `["a", ""]`, `alias "" is not`},
		{"alias twice", `["a"]`, `["a", "a"]`, `alias "a" stands twice`},
		{"alias is the model", `["a"]`, `["m"]`, `alias "m" stands twice`},
		{"no from", `from = "2026-01-01"`, "", "no from"},
		{"no such day", `from = "2026-01-01"`, `from = "2026-02-30"`, `from: "2026-02-30"`},
		{"a moment, not a day", `from = "2026-01-01"`, `from = 2026-01-01T00:00:00Z`, "from:"},
		{"a number for a day", `from = "2026-01-01"`, `from = 20260101`, "from:"},
		{"until at from", `until = "2026-07-01"`, `until = "2026-01-01"`, "until 2026-01-01 is not after"},
		{"bad until", `until = "2026-07-01"`, `until = "soon"`, `until: "soon"`},
		{"no checked", `checked = "2026-06-30"`, "", "no checked"},
		{"no source", `source = "https://example.com/prices"`, "", "no source"},
		{"blank source", `source = "https://example.com/prices"`, `source = " "`, "no source"},
		{"a plain tier", "tiers.flex", "tiers.default", "tiers.default: this tier is plain"},
		{"tier and factor", `"speed=fast" = "2"`, `"service_tier=flex" = "2"`, "tiers.flex has prices and a factor"},
		{"factor of nothing", `"speed=fast"`, `"speed"`, `factors: "speed" is not`},
		{"factor of another modifier", `"speed=fast"`, `"mood=good"`, `factors: "mood=good" is not`},
		{"factor of a plain value", `"speed=fast"`, `"speed=standard"`, "is plain"},
		{"factor without a value", `"speed=fast"`, `"speed="`, "is plain"},
		{"factor of 0", `"speed=fast" = "2"`, `"speed=fast" = "0"`, "factors.speed=fast is 0"},
		{"factor that is no decimal", `"speed=fast" = "2"`, `"speed=fast" = "x2"`, "factors.speed=fast"},
		{"factors that make too many decimals", `"speed=fast" = "2"`, `"speed=fast" = "1.000000000000000001", "inference_geo=us" = "1.1"`, "digits"},
		{"factors that make too large a price", `"speed=fast" = "2"`, `"speed=fast" = "999999999999999999"`, "digits"},
		{"two rows in force", "long = [{tokens = 100, rule = \">\", prices = {input = \"2\", output = \"10\"}}]\n", second, "both in force for"},
	} {
		if strings.Count(good, c.old) == 0 {
			t.Fatalf("%s: nothing to change", c.name)
		}
		text := strings.Replace(good, c.old, c.new, 1)
		if c.name == "tier's step without a token class" {
			i := strings.LastIndex(good, c.old)
			text = good[:i] + c.new + good[i+len(c.old):]
		}
		f, err := meter.LoadFile("some/prices.toml", []byte(text))
		switch {
		case err == nil || f != nil:
			t.Errorf("%s: accepted", c.name)
		case !errors.Is(err, meter.ErrPrices) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "some/prices.toml"):
			t.Errorf("%s: %v, want it to name %q", c.name, err, c.want)
		case strings.Contains(err.Error(), "meter."):
			t.Errorf("%s: %v names a Go type", c.name, err)
		}
	}
}

func TestLoadAccepts(t *testing.T) {
	f, err := meter.LoadFile("x", []byte(`
[[row]]
provider = "ollama"
model = "local"
from = 2026-01-01
source = "own machine"
checked = 2026-06-30
free = true
prices = {input = "0", output = "0", "server_tool_use.map_requests" = "0.5"}
`))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Rows[0]
	if !r.Free || !r.Prices["input"].IsZero() || !r.From.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || !r.Until.IsZero() {
		t.Errorf("row %+v", r)
	}
	if f, err := meter.LoadFile("empty", nil); err != nil || len(f.Rows) != 0 {
		t.Errorf("empty file: %v, %v", f, err)
	}
	if _, err := meter.LoadFile("huge", bytes.Repeat([]byte("#"), meter.MaxPriceFile+1)); !errors.Is(err, meter.ErrPrices) {
		t.Errorf("huge file: %v", err)
	}
	// All faults of a file are told at once.
	_, err = meter.LoadFile("x", []byte("[[row]]\nmodel = \"m\"\n[[row]]\nprovider = \"p\"\n"))
	if err == nil || !strings.Contains(err.Error(), "row 1 (/m)") || !strings.Contains(err.Error(), "row 2 (p/)") {
		t.Errorf("two broken rows: %v", err)
	}
}

// FuzzLoadFile: a price file is refused or makes a table, and what is accepted
// bills a call without a panic.
func FuzzLoadFile(f *testing.F) {
	f.Add([]byte(row))
	f.Add([]byte("[[row]]\nfrom = 2026-01-01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := meter.LoadFile("fuzz", data)
		if err != nil {
			if !errors.Is(err, meter.ErrPrices) {
				t.Fatalf("%v is not %v", err, meter.ErrPrices)
			}
			return
		}
		tb, err := meter.NewTable([]*meter.File{file})
		if err != nil {
			t.Fatal(err)
		}
		for i := range file.Rows {
			r := &file.Rows[i]
			if got, ok := tb.Lookup(r.Provider, r.Model, r.From); !ok || got != r {
				t.Fatalf("row %d is not found on its first day", i)
			}
		}
	})
}
