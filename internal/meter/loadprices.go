package meter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docket-audit/docket/chain"
)

// set reads the prices of a row or of one of its tiers; at is "" or the path
// of the tier with its point. A tier has to name the token classes of base,
// the row's own prices.
func (c *checker) set(at string, in fileSet, base map[string]chain.Decimal) PriceSet {
	s := PriceSet{Prices: c.prices(at+"prices", in.Prices)}
	c.covers(at+"prices", s.Prices, base)
	last := uint64(0)
	for i, step := range in.Long {
		where := fmt.Sprintf("%slong[%d]", at, i)
		l := LongStep{Prices: c.prices(where+".prices", step.Prices)}
		c.covers(where+".prices", l.Prices, s.Prices)
		switch step.Rule {
		case ">=":
		case ">":
			l.Above = true
		default:
			c.fault(`%s: rule is %q, not ">=" or ">"`, where, clip(step.Rule))
		}
		if step.Tokens < 1 || step.Tokens > chain.MaxInt {
			c.fault("%s: tokens is %d, not from 1 to 2^53 − 1", where, step.Tokens)
		} else if l.Tokens = uint64(step.Tokens); l.Tokens <= last {
			c.fault("%s: tokens is %d, not above the step before", where, step.Tokens)
		}
		last = max(last, l.Tokens)
		s.Long = append(s.Long, l)
	}
	return s
}

func (c *checker) prices(at string, in map[string]string) map[string]chain.Decimal {
	if len(in) == 0 {
		c.fault("%s: no price", at)
	}
	out := map[string]chain.Decimal{}
	for _, class := range slices.Sorted(maps.Keys(in)) {
		if fault := classFault(class); fault != "" {
			c.fault("%s.%s: %s", at, clip(class), fault)
		}
		p, err := chain.ParsePrice(in[class])
		switch {
		case err != nil:
			c.fault("%s.%s: %v", at, class, err)
		case p.IsZero() && !c.free:
			c.fault("%s.%s is 0 in a row that does not say free = true", at, class)
		}
		out[class] = p
	}
	return out
}

// classFault says why a class can't have a price, or "". What docket does not
// know has to be a dotted path: a single word is more likely a slip.
func classFault(class string) string {
	_, known := classes[class]
	switch {
	case known:
		return ""
	case strings.HasPrefix(class, "unresolved_"):
		return "a total that does not add up never has a price"
	case !strings.Contains(class, "."):
		return "not a class that docket counts"
	case !validClass(class):
		return "not a class name: letters, digits and _.:- only, 64 at most"
	}
	return ""
}

// covers makes sure that a set that takes the place of base prices the same
// tokens: a class left out would make calls unpriced only now and then, which
// is a slip nobody sees.
func (c *checker) covers(at string, prices, base map[string]chain.Decimal) {
	for _, class := range slices.Sorted(maps.Keys(base)) {
		if _, ok := prices[class]; !ok && isToken(class) {
			c.fault("%s: no price for %s, which the row's prices have", at, class)
		}
	}
}

// factor reads one factor, by "name=value" of a modifier.
func (c *checker) factor(key, value string) chain.Decimal {
	name, served, ok := strings.Cut(key, "=")
	if _, known := plain[name]; !ok || !known {
		c.fault("factors: %q is not service_tier=…, speed=… or inference_geo=…", clip(key))
	} else if isPlain(name, served) {
		c.fault("factors: %q is plain and changes no price", clip(key))
	}
	f, err := chain.ParsePrice(value)
	switch {
	case err != nil:
		c.fault("factors.%s: %v", clip(key), err)
	case f.IsZero():
		c.fault("factors.%s is 0: a price of 0 is said by free = true", clip(key))
	}
	return f
}

// digits makes sure that every price that can come out of the row has a
// spelling that a header takes: whoever bills a call must not find out then.
// Decimals add up in a product, so the longest and the largest factor of each
// modifier bound whatever is served.
func (c *checker) digits(r Row) {
	decimals, largest := map[string]int{}, map[string]chain.Decimal{}
	for key, f := range r.Factors {
		name, _, _ := strings.Cut(key, "=")
		decimals[name] = max(decimals[name], decimalsOf(f))
		if f.Cmp(largest[name]) > 0 {
			largest[name] = f
		}
	}
	sets := slices.Collect(maps.Values(r.Tiers))
	for _, set := range append(sets, r.PriceSet) {
		all := []map[string]chain.Decimal{set.Prices}
		for _, step := range set.Long {
			all = append(all, step.Prices)
		}
		for _, prices := range all {
			c.fits(prices, decimals, largest)
		}
	}
}

func (c *checker) fits(prices map[string]chain.Decimal, decimals map[string]int, largest map[string]chain.Decimal) {
	one, _ := chain.ParsePrice("1")
	for class, p := range prices {
		if !isToken(class) {
			continue
		}
		places := decimalsOf(p)
		for name, f := range largest {
			places += decimals[name]
			if f.Cmp(one) > 0 {
				p = p.Mul(f)
			}
		}
		whole, _, _ := strings.Cut(p.String(), ".")
		if places > chain.MaxPriceDigits || len(whole) > chain.MaxPriceDigits {
			c.fault("price of %s times the factors has more than %d digits before or after the point", class, chain.MaxPriceDigits)
		}
	}
}

// decimalsOf is the number of digits after the point.
func decimalsOf(d chain.Decimal) int {
	_, fraction, _ := strings.Cut(d.String(), ".")
	return len(fraction)
}
