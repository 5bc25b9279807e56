package loopback

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Upstream is a name under which docketd reaches the provider, with the price
// rows of the cases that go through it.
type Upstream struct {
	Name     string // in the boundary's path
	Dialect  string // "anthropic" or "openai": whose API it speaks
	Vendor   string // the provider that the cases name
	Provider string // the name in meters and price rows
	Rows     []PriceRow
}

// Arrangement says through which upstream each case goes.
type Arrangement struct {
	Upstreams []Upstream
	ByCase    map[string]string // case id → upstream name
}

// Arrange puts each case under the first upstream of its provider whose rows
// agree with the case's own. An upstream is named after its provider or, where
// the rows of those before contradict, after the first case that needs it.
func Arrange(cases []Case) Arrangement {
	a := Arrangement{ByCase: map[string]string{}}
	for _, c := range cases {
		i := slices.IndexFunc(a.Upstreams, func(u Upstream) bool { return u.Vendor == c.Provider && u.agrees(c) })
		if i < 0 {
			a.Upstreams = append(a.Upstreams, newUpstream(a.Upstreams, c))
			i = len(a.Upstreams) - 1
		}
		u := &a.Upstreams[i]
		if _, there := u.row(c.Model); !there && c.Model != "" {
			u.Rows = append(u.Rows, c.PriceRow)
		}
		a.ByCase[c.ID] = u.Name
	}
	return a
}

func newUpstream(before []Upstream, c Case) Upstream {
	u := Upstream{Name: c.Provider, Dialect: "openai", Vendor: c.Provider}
	if slices.ContainsFunc(before, func(o Upstream) bool { return o.Vendor == c.Provider }) {
		u.Name = c.ID
	}
	if c.Endpoint == EndpointMessages {
		u.Dialect = "anthropic"
	}
	// docket carries prices of its own for the vendors' models, and some cases
	// are about a model without any. A provider of another name keeps them apart.
	u.Provider = "loopback-" + u.Name
	return u
}

func (u Upstream) row(model string) (PriceRow, bool) {
	i := slices.IndexFunc(u.Rows, func(r PriceRow) bool { return r.Model == model })
	if i < 0 {
		return PriceRow{}, false
	}
	return u.Rows[i], true
}

// agrees says whether c may go through u: its row is there as it is, or is not
// there and takes no name that another row has. A case whose model has no row
// needs that none comes from elsewhere.
func (u Upstream) agrees(c Case) bool {
	for _, r := range u.Rows {
		if r.Model == c.Model {
			if !reflect.DeepEqual(r, c.PriceRow) {
				return false
			}
			continue
		}
		names := append([]string{r.Model}, r.Aliases...)
		own := append([]string{c.Model, c.Want.Model}, c.Aliases...)
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(own, n) }) {
			return false
		}
	}
	return true
}

// PriceFile is the rows of all upstreams in docket's own form. day is the one
// on which the rows were compared with the cases.
func (a Arrangement) PriceFile(day time.Time) []byte {
	var b bytes.Buffer
	b.WriteString("# The prices that the golden cases state. They are examples, not any vendor's list.\n")
	for _, u := range a.Upstreams {
		for _, r := range u.Rows {
			fmt.Fprintf(&b, "\n[[row]]\nprovider = %q\nmodel = %q\n", u.Provider, r.Model)
			if len(r.Aliases) > 0 {
				fmt.Fprintf(&b, "aliases = [%s]\n", quoted(r.Aliases))
			}
			fmt.Fprintf(&b, "from = \"2026-01-01\"\nsource = \"testdata/billing/cases.json\"\nchecked = %q\n", day.UTC().Format(time.DateOnly))
			r.write(&b)
		}
	}
	return b.Bytes()
}

func (r PriceRow) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "prices = %s\n", inline(r.Prices))
	if r.Long != nil {
		fmt.Fprintf(b, "long = [{ tokens = %d, rule = %q, prices = %s }]\n", r.Threshold.Tokens, r.Threshold.Rule, inline(r.Long))
	}
	if len(r.Tiers) > 0 {
		var tiers []string
		for _, name := range slices.Sorted(maps.Keys(r.Tiers)) {
			tiers = append(tiers, fmt.Sprintf("%q = { prices = %s }", name, inline(r.Tiers[name])))
		}
		fmt.Fprintf(b, "tiers = { %s }\n", strings.Join(tiers, ", "))
	}
	if len(r.Multiplier) > 0 {
		fmt.Fprintf(b, "factors = %s\n", inline(r.Multiplier))
	}
}

// inline is a TOML inline table. Names and values of the cases are printable
// ASCII, in which Go's quoting and TOML's are the same.
func inline(m map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, fmt.Sprintf("%q = %q", k, m[k]))
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, strconv.Quote(s))
	}
	return strings.Join(q, ", ")
}
