package meter

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docket-audit/docket/chain"
)

// Bill is what a call cost.
type Bill struct {
	// Meter is what goes into the event's header. Its prices are those of
	// the classes that have units, after tier, long context and factors, so
	// that the cost follows from the header alone.
	Meter chain.Meter
	// Row is the row in force for the model; nil: there is none, or the call
	// needed none because nothing was used.
	Row *Row
	// Why says why the call is unpriced; "" where it has a cost.
	Why string
}

// plain are the modifier values that change no price. standard_only is what an
// Anthropic request says to be served the standard tier and no other.
var plain = map[string][]string{
	"service_tier":  {"auto", "default", "standard", "standard_only"},
	"speed":         {"standard"},
	"inference_geo": {"global", "not_available"},
}

// isPlain says whether a served modifier leaves the prices as they are.
func isPlain(name, value string) bool { return value == "" || slices.Contains(plain[name], value) }

// Price bills r by the row in force at the moment at of the request. Nothing
// is rounded, and an unpriced call is never free: it has no cost at all.
func (t *Table) Price(provider string, r Reading, at time.Time) Bill {
	b := Bill{Meter: chain.Meter{
		Model: HeaderName(r.Model), Provider: HeaderName(provider), Source: r.Source,
		Usage: map[string]uint64{}, Prices: map[string]chain.Decimal{},
	}}
	if r.Source == chain.SourceNone {
		b.Why = r.Note
		return b
	}
	for class, n := range r.Usage {
		if n > 0 {
			b.Meter.Usage[class] = n
		}
	}
	if len(b.Meter.Usage) == 0 {
		b.Meter.Cost = &chain.Decimal{} // nothing used costs nothing, at any price
		return b
	}
	row, ok := t.Lookup(provider, r.Model, at)
	if !ok {
		b.Why = fmt.Sprintf("no price row for model %q of %s", clip(r.Model), provider)
		return b
	}
	b.Row = row
	b.charge(r)
	return b
}

// charge puts prices, and where all are known the cost, into the meter.
func (b *Bill) charge(r Reading) {
	prices, factors, why := b.Row.pricesFor(r)
	if why != "" {
		// Prices must not stand here: with them the row would have a cost.
		b.Why = why
		return
	}
	var cost chain.Decimal
	for _, class := range slices.Sorted(maps.Keys(b.Meter.Usage)) {
		price, ok := prices[class]
		if !ok {
			b.Why = "the price row has no price for " + class
			continue
		}
		if isToken(class) {
			for _, f := range factors {
				price = price.Mul(f)
			}
		}
		b.Meter.Prices[class] = price
		cost = cost.Add(price.TimesUnits(b.Meter.Usage[class]))
	}
	if b.Why == "" {
		b.Meter.Cost = &cost
	}
}

// pricesFor gives the prices that the served modifiers choose, and the factors
// on every token class. why is not "" where a modifier has no price.
func (row *Row) pricesFor(r Reading) (prices map[string]chain.Decimal, factors []chain.Decimal, why string) {
	set := row.PriceSet
	for _, name := range slices.Sorted(maps.Keys(r.Modifiers)) {
		value := r.Modifiers[name]
		if isPlain(name, value) {
			continue
		}
		factor, multiplies := row.Factors[name+"="+value]
		tier, replaces := row.Tiers[value]
		switch {
		case name == "service_tier" && replaces:
			set = tier
		case multiplies:
			factors = append(factors, factor)
		default:
			return nil, nil, fmt.Sprintf("the price row has no price for %s %q", name, clip(value))
		}
	}
	return set.at(r.Prompt), factors, ""
}
