package meter_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
)

const row = `[[row]]
provider = "p"
model = "m"
aliases = ["m-latest"]
from = "2026-01-01"
until = "2026-07-01"
source = "https://example.com/prices"
checked = "2026-06-30"
prices = {input = "2", cache_read = "0.5", output = "10", web_search = "10000", "tools.map_tokens" = "3", "tools.maps" = "4"}
long = [
  {tokens = 100, rule = ">", prices = {input = "4", cache_read = "1", output = "20", "tools.map_tokens" = "3", web_search = "10000"}},
  {tokens = 200, rule = ">=", prices = {input = "8", cache_read = "2", output = "40", "tools.map_tokens" = "3"}},
]
factors = {"speed=fast" = "2", "inference_geo=us" = "1.1", "service_tier=batch" = "0.5"}
[row.tiers.priority]
prices = {input = "3", cache_read = "0.75", output = "15", "tools.map_tokens" = "3"}
long = [{tokens = 50, rule = ">=", prices = {input = "5", cache_read = "1.25", output = "25", "tools.map_tokens" = "3"}}]
`

func table(t testing.TB, files ...string) *meter.Table {
	t.Helper()
	var loaded []*meter.File
	for i, text := range files {
		f, err := meter.LoadFile(fmt.Sprintf("file%d.toml", i), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, f)
	}
	tb, err := meter.NewTable(loaded)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func day(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

// TestPrice: which prices are in force, and what makes a call unpriced.
func TestPrice(t *testing.T) {
	tb := table(t, row)
	type mods = map[string]string
	for _, c := range []struct {
		name   string
		usage  use
		prompt uint64
		mods   mods
		cost   string // "" is unpriced
		prices string // of the meter, sorted
		why    string
	}{
		{"plain", use{"input": 100, "output": 10}, 100, nil, "0.0003", "map[input:2 output:10]", ""},
		{"classes of 0 units need no price", use{"input": 100, "video_input": 0}, 100, nil, "0.0002", "map[input:2]", ""},
		{"nothing used", use{}, 0, mods{"service_tier": "unheard-of"}, "0", "map[]", ""},
		{"at a step that says above", use{"input": 50, "cache_read": 50}, 100, nil, "0.000125", "map[cache_read:0.5 input:2]", ""},
		{"above it, every class", use{"input": 51, "cache_read": 50, "output": 1}, 101, nil, "0.000274", "map[cache_read:1 input:4 output:20]", ""},
		{"below the next step", use{"input": 199}, 199, nil, "0.000796", "map[input:4]", ""},
		{"at the next step", use{"input": 200}, 200, nil, "0.0016", "map[input:8]", ""},
		{"a fee that the long prices leave out", use{"input": 200, "web_search": 1}, 200, nil, "", "map[input:8]", "web_search"},
		{"plain words", use{"input": 10}, 10, mods{"service_tier": "default", "speed": "standard", "inference_geo": "not_available"}, "0.00002", "map[input:2]", ""},
		{"more plain words", use{"input": 10}, 10, mods{"service_tier": "auto", "inference_geo": "global"}, "0.00002", "map[input:2]", ""},
		{"what an Anthropic request calls plain", use{"input": 10}, 10, mods{"service_tier": "standard_only"}, "0.00002", "map[input:2]", ""},
		{"a tier's prices", use{"input": 10, "output": 1}, 10, mods{"service_tier": "priority"}, "0.000045", "map[input:3 output:15]", ""},
		{"a tier's own long prices", use{"input": 50}, 50, mods{"service_tier": "priority"}, "0.00025", "map[input:5]", ""},
		{"a tier of long prompts has no other step", use{"input": 300}, 300, mods{"service_tier": "priority"}, "0.0015", "map[input:5]", ""},
		{"a fee that the tier leaves out", use{"web_search": 1}, 0, mods{"service_tier": "priority"}, "", "map[]", "web_search"},
		{"a factor leaves fees alone", use{"input": 10, "web_search": 1}, 10, mods{"speed": "fast"}, "0.01004", "map[input:4 web_search:10000]", ""},
		{"factors multiply, and a tier with them", use{"input": 10, "cache_read": 10}, 20, mods{"speed": "fast", "inference_geo": "us", "service_tier": "priority"}, "0.0000825", "map[cache_read:1.65 input:6.6]", ""},
		{"factors on long prices", use{"input": 200}, 200, mods{"speed": "fast", "service_tier": "batch"}, "0.0016", "map[input:8]", ""},
		{"a factor and counters that docket does not know", use{"tools.map_tokens": 10, "tools.maps": 10}, 0, mods{"speed": "fast"}, "0.0001", "map[tools.map_tokens:6 tools.maps:4]", ""},
		{"a tier without a price", use{"input": 10}, 10, mods{"service_tier": "scale"}, "", "map[]", `service_tier "scale"`},
		{"a speed without a price", use{"input": 10}, 10, mods{"speed": "turbo"}, "", "map[]", "turbo"},
		{"a region without a price", use{"input": 10}, 10, mods{"inference_geo": "eu"}, "", "map[]", "eu"},
		{"a tier's name is no speed", use{"input": 10}, 10, mods{"speed": "priority"}, "", "map[]", "priority"},
		{"a class without a price", use{"input": 10, "video_input": 1}, 11, nil, "", "map[input:2]", "video_input"},
		{"a total that does not add up", use{"unresolved_input": 10, "output": 1}, 10, nil, "", "map[output:10]", "unresolved_input"},
	} {
		r := meter.Reading{Model: "m", Usage: c.usage, Source: chain.SourceReported, Prompt: c.prompt, Modifiers: c.mods}
		b := tb.Price("p", r, day("2026-03-01"))
		got := ""
		if b.Meter.Cost != nil {
			got = b.Meter.Cost.String()
		}
		if prices := fmt.Sprint(b.Meter.Prices); got != c.cost || prices != c.prices {
			t.Errorf("%s: cost %q, prices %s (%s); want %q, %s", c.name, got, prices, b.Why, c.cost, c.prices)
		}
		if (got == "") != (b.Why != "") || !strings.Contains(b.Why, c.why) {
			t.Errorf("%s: why %q, want it to name %q", c.name, b.Why, c.why)
		}
	}
}

// TestPriceUnknown: without a row, and with nothing known, no call is free.
func TestPriceUnknown(t *testing.T) {
	tb := table(t, row)
	at := day("2026-03-01")
	r := meter.Reading{Model: "other model", Usage: use{"input": 1}, Source: chain.SourceEstimated}
	b := tb.Price("p", r, at)
	if b.Meter.Cost != nil || b.Row != nil || len(b.Meter.Prices) != 0 || b.Meter.Model != "other%20model" || !maps.Equal(b.Meter.Usage, r.Usage) {
		t.Errorf("no row: %+v", b)
	}
	r = meter.Reading{Model: "m", Source: chain.SourceNone, Usage: use{}, Note: "nothing known"}
	b = tb.Price("p", r, at)
	if b.Meter.Cost != nil || b.Why != "nothing known" || b.Meter.Usage == nil || b.Meter.Prices == nil {
		t.Errorf("source none: %+v", b)
	}
	b = tb.Price("p", meter.Reading{Model: "m", Source: chain.SourceReported, Usage: use{"input": 1}}, at)
	want := meter.RowRef{
		Provider: "p", Model: "m", From: "2026-01-01", Source: "https://example.com/prices", Checked: "2026-06-30",
		File: "file0.toml", SHA256: tb.Files()[0].SHA256,
	}
	if b.Row == nil || b.Row.Ref() != want || len(want.SHA256) != 64 {
		t.Errorf("row in force: %+v, want %+v", b.Row, want)
	}
}

// TestPriceRandom: whatever a row says, the meter alone gives the cost, and a
// header takes it.
func TestPriceRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	decimal := func(decimals int) string {
		s := fmt.Sprintf("%d.%0*d1", rnd.IntN(1000), decimals, rnd.Int64N(1000))
		return s
	}
	classes := []string{"input", "output", "cache_read", "cache_write_5m", "web_search"}
	priced := 0
	for range 300 {
		var prices []string
		for _, c := range classes {
			prices = append(prices, fmt.Sprintf("%s = %q", c, decimal(3+rnd.IntN(7))))
		}
		tb := table(t, "[[row]]\nprovider = 'p'\nmodel = 'm'\nfrom = 2026-01-01\nsource = 's'\nchecked = 2026-01-01\nprices = {"+
			strings.Join(prices, ", ")+"}\nfactors = {'speed=fast' = '"+decimal(3)+"', 'inference_geo=us' = '1.1'}\n")
		r := meter.Reading{Model: "m", Source: chain.SourceReported, Usage: use{}, Modifiers: map[string]string{"speed": "fast", "inference_geo": "us"}}
		for _, c := range classes {
			r.Usage[c] = rnd.Uint64N(chain.MaxInt + 1)
		}
		m := tb.Price("p", r, day("2026-02-01")).Meter
		var sum chain.Decimal
		for c, n := range m.Usage {
			if _, err := chain.ParsePrice(m.Prices[c].String()); err != nil {
				t.Fatalf("price of %s: %v", c, err)
			}
			sum = sum.Add(m.Prices[c].TimesUnits(n))
		}
		if m.Cost == nil || sum.Cmp(*m.Cost) != 0 {
			t.Fatalf("cost %v, rows give %s", m.Cost, sum)
		}
		if _, err := chain.ParseAmount(m.Cost.String()); err != nil {
			t.Fatal(err)
		}
		priced++
	}
	if priced == 0 {
		t.Error("no call was priced")
	}
}

func TestLookup(t *testing.T) {
	tb := table(t, row, strings.NewReplacer(`from = "2026-01-01"`, `from = 2026-07-01`, `until = "2026-07-01"`, "", `input = "2"`, `input = "7"`).Replace(row),
		strings.NewReplacer(`provider = "p"`, `provider = "q"`, `["m-latest"]`, `["m-20260102", "vendor/m"]`).Replace(row))
	for _, c := range []struct {
		provider, model string
		at              time.Time
		want            string // price of input, "" for none
	}{
		{"p", "m", day("2026-01-01"), "2"},
		{"p", "m", day("2026-01-01").Add(-1), ""},
		{"p", "m", day("2026-07-01").Add(-1), "2"},
		{"p", "m", day("2026-07-01"), "7"},
		{"p", "m", day("2026-06-30").In(time.FixedZone("", -3600*10)), "2"},
		{"p", "m-latest", day("2026-02-01"), "2"},
		{"p", "m-20260715", day("2026-02-01"), "2"},
		{"p", "m-2026-07-15", day("2026-02-01"), "2"},
		{"p", "m-latest-2026-07-15", day("2026-02-01"), "2"},
		{"p", "m-20261315", day("2026-02-01"), ""},
		{"p", "m-2026-02-30", day("2026-02-01"), ""},
		{"p", "m-20260715-20260715", day("2026-02-01"), ""},
		{"p", "m20260715", day("2026-02-01"), ""},
		{"p", "m-2026-7-15", day("2026-02-01"), ""},
		{"p", "m-5", day("2026-02-01"), ""},
		{"p", "m-", day("2026-02-01"), ""},
		{"p", "M", day("2026-02-01"), ""},
		{"p", "", day("2026-02-01"), ""},
		{"p", "-20260715", day("2026-02-01"), ""},
		{"p", "vendor/m", day("2026-02-01"), ""},
		{"q", "vendor/m", day("2026-02-01"), "2"},
		{"q", "m-20260102", day("2026-02-01"), "2"},
		{"", "m", day("2026-02-01"), ""},
	} {
		r, ok := tb.Lookup(c.provider, c.model, c.at)
		got := ""
		if ok {
			got = r.Prices["input"].String()
		}
		if got != c.want {
			t.Errorf("%s %q at %s: price %q, want %q", c.provider, c.model, c.at, got, c.want)
		}
	}
}

// TestRanks: a user's row stands before the built-in one, also where the
// built-in one would fit the name more closely.
func TestRanks(t *testing.T) {
	mine := `[[row]]
provider = "anthropic"
model = "claude-opus-5"
from = "2026-01-01"
source = "contract"
checked = "2026-06-30"
prices = {input = "1", output = "2"}
`
	f, err := meter.LoadFile("mine.toml", []byte(mine))
	if err != nil {
		t.Fatal(err)
	}
	tb, err := meter.LoadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{"claude-opus-5": "1", "claude-opus-5-20260724": "1", "claude-sonnet-5": "2", "gpt-5.5": ""} {
		r, ok := tb.Lookup("anthropic", model, day("2026-11-30"))
		if got := ok && r.Prices["input"].String() == want; got != (want != "") {
			t.Errorf("%s: %+v", model, r)
		}
	}
	if files := tb.Files(); len(files) != 2 || files[0] != f || files[1] != meter.Builtin() {
		t.Errorf("files %v", files)
	}
	if _, err := meter.LoadTable(f, f); !errors.Is(err, meter.ErrPrices) || !strings.Contains(err.Error(), "mine.toml") {
		t.Errorf("one row in two files: %v", err)
	}
}

// TestBuiltin: the rows that docket carries are there, and none is older than
// the model it prices.
func TestBuiltin(t *testing.T) {
	f := meter.Builtin()
	if len(f.Rows) < 10 {
		t.Errorf("%d rows", len(f.Rows))
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		if !strings.HasPrefix(r.Source, "https://") || r.Checked.Before(r.From) {
			t.Errorf("%s/%s: source %s, checked %s, from %s", r.Provider, r.Model, r.Source, r.Checked, r.From)
		}
		for _, class := range []string{"input", "output", "cache_read"} {
			if _, ok := r.Prices[class]; !ok {
				t.Errorf("%s/%s: no price for %s", r.Provider, r.Model, class)
			}
		}
	}
	tb, err := meter.LoadTable()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tb.Lookup("anthropic", "claude-sonnet-5-5-5", day("2026-11-30")); ok {
		t.Error("a look-alike has a row")
	}
}
