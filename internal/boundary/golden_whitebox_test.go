package boundary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
)

const (
	goldenFile = "../../testdata/billing/cases.json"
	// sharedFile is where the cases come from; it stands beside the project
	// on the machines that have it.
	sharedFile = "../../../shared/billing/cases.json"
)

// goldenEndpoints are the endpoints whose cases have to come out exact.
var goldenEndpoints = []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"}

type goldenCase struct {
	ID         string
	Provider   string
	Endpoint   string
	Method     string
	Request    json.RawMessage
	Status     int
	Headers    map[string]string
	Body       string
	End        string
	PriceModel string                       `json:"price_model"`
	Aliases    []string                     `json:"price_aliases"`
	Price      map[string]string            `json:"price"`
	Long       map[string]string            `json:"prices_long"`
	Tiers      map[string]map[string]string `json:"prices_tier"`
	Factors    map[string]string            `json:"multiplier"`
	Threshold  struct {
		Tokens uint64
		Rule   string
	}
	Want struct {
		Model    string
		Usage    map[string]uint64
		Cost     *string `json:"cost_usd"`
		Source   string
		Unpriced bool
	}
}

func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []goldenCase }
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	cases := slices.DeleteFunc(doc.Cases, func(c goldenCase) bool { return !slices.Contains(goldenEndpoints, c.Endpoint) })
	if len(cases) < 63 {
		t.Fatalf("%d golden cases for %v, want 63 at least", len(cases), goldenEndpoints)
	}
	return cases
}

// table is the price table of a case: its one row, written as a price file.
func (c goldenCase) table(t *testing.T) *meter.Table {
	t.Helper()
	if c.PriceModel == "" {
		table, err := meter.NewTable()
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[[row]]\nprovider = %q\nmodel = %q\nfrom = 2026-01-01\nsource = \"the case\"\nchecked = 2026-11-30\n", c.Provider, c.PriceModel)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "aliases = [%q]\n", strings.Join(c.Aliases, `", "`))
	}
	fmt.Fprintf(&b, "prices = %s\n", inline(c.Price))
	if c.Long != nil {
		fmt.Fprintf(&b, "long = [{tokens = %d, rule = %q, prices = %s}]\n", c.Threshold.Tokens, c.Threshold.Rule, inline(c.Long))
	}
	if c.Factors != nil {
		fmt.Fprintf(&b, "factors = %s\n", inline(c.Factors))
	}
	for tier, prices := range c.Tiers {
		fmt.Fprintf(&b, "tiers.%s.prices = %s\n", tier, inline(prices))
	}
	f, err := meter.LoadFile("case.toml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	table, err := meter.NewTable([]*meter.File{f})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func inline(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%q = %q", k, m[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (c goldenCase) call() meter.Call {
	dialect := meter.DialectOpenAI
	if c.Provider == "anthropic" {
		dialect = meter.DialectAnthropic
	}
	method := c.Method
	if method == "" {
		method = http.MethodPost
	}
	return meter.Call{Provider: c.Provider, Dialect: dialect, Method: method, Path: c.Endpoint, Body: c.Request}
}

func (c goldenCase) header() http.Header {
	h := http.Header{}
	for k, v := range c.Headers {
		h.Set(k, v)
	}
	return h
}

// feed gives body to o in pieces of size bytes; 0 is all at once.
func feed(o *observer, body []byte, size int) {
	if size == 0 {
		size = max(len(body), 1)
	}
	for piece := range slices.Chunk(body, size) {
		_, _ = o.Write(piece)
	}
}

var requested = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// check compares what a reading of c's answer comes to with what it has to.
func (c goldenCase) check(table *meter.Table, r meter.Reading) error {
	bill := table.Price(c.Provider, r, requested)
	m := bill.Meter
	cost := "unpriced"
	if m.Cost != nil {
		cost = m.Cost.String()
	}
	want := "unpriced"
	if c.Want.Cost != nil {
		want = *c.Want.Cost
	}
	usage := maps.Clone(c.Want.Usage)
	maps.DeleteFunc(usage, func(_ string, n uint64) bool { return n == 0 })
	switch {
	case m.Model != c.Want.Model:
		return fmt.Errorf("model %s, want %s", m.Model, c.Want.Model)
	case m.Source != c.Want.Source:
		return fmt.Errorf("source %s (%s), want %s", m.Source, r.Note, c.Want.Source)
	case !maps.Equal(m.Usage, usage):
		return fmt.Errorf("usage %v, want %v", m.Usage, usage)
	case cost != want:
		return fmt.Errorf("cost %s (%s), want %s", cost, bill.Why, want)
	case (m.Cost == nil) != c.Want.Unpriced:
		return fmt.Errorf("unpriced %t, want %t", m.Cost == nil, c.Want.Unpriced)
	case (bill.Why == "") != (m.Cost != nil):
		return fmt.Errorf("cost %s with reason %q", cost, bill.Why)
	}
	return recompute(m)
}

// recompute makes the cost from the meter alone, as a checker does.
func recompute(m chain.Meter) error {
	var sum chain.Decimal
	priced := m.Source != chain.SourceNone
	for class, n := range m.Usage {
		p, ok := m.Prices[class]
		priced = priced && ok
		sum = sum.Add(p.TimesUnits(n))
	}
	if priced != (m.Cost != nil) || priced && sum.Cmp(*m.Cost) != 0 {
		return fmt.Errorf("the meter's rows give %s (%t), it says %v", sum, priced, m.Cost)
	}
	return nil
}

// TestGolden runs every worked case of the endpoints through the observer, the
// answer whole and cut into pieces of every size.
func TestGolden(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, c := range goldenCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			table := c.table(t)
			body := []byte(c.Body)
			sizes := []int{0}
			for size := 1; size <= min(len(body), 4096); size += SweepStride {
				sizes = append(sizes, size)
			}
			if len(body) > 4096 {
				// One long event: each size reads it once more.
				sizes = sizes[:64/SweepStride+1]
				for range 64 / SweepStride {
					sizes = append(sizes, 1+rnd.IntN(len(body)))
				}
			}
			for _, size := range sizes {
				o := newObserver(c.call(), c.Status, c.header())
				feed(o, body, size)
				if err := c.check(table, o.Finish()); err != nil {
					t.Fatalf("in pieces of %d: %v", size, err)
				}
			}
		})
	}
}

// TestGoldenIsShared compares the cases with where they come from.
func TestGoldenIsShared(t *testing.T) {
	shared, err := os.ReadFile(sharedFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no shared cases beside the project")
	}
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(own, shared) {
		t.Errorf("%s differs from %s", goldenFile, sharedFile)
	}
}
