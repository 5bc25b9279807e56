package chain

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/apd/v3"
)

// Decimal is an exact, non-negative decimal: a price, a cost or a sum of
// costs in USD. The zero value is 0. A Decimal is immutable and safe for
// concurrent use; every operation is exact, nothing is ever rounded.
type Decimal struct{ d apd.Decimal }

// ErrDecimal is wrapped by every refusal of a decimal's spelling.
var ErrDecimal = errors.New("not a decimal of the ledger")

// exact is apd with precision 0: add, multiply and compare never round.
// Quo is never used, so there is nothing that could need rounding.
var exact = apd.BaseContext

// ParsePrice reads a price or another plain amount: at most MaxPriceDigits
// digits before and after the point, spelled as docs/format.md, section 2 says
// (no sign, no exponent, no leading or trailing zero, no bare point).
func ParsePrice(s string) (Decimal, error) {
	return parseDecimal(s, MaxPriceDigits, MaxPriceDigits)
}

// ParseAmount reads a cost or a sum: the same spelling with at most
// MaxAmountDigits digits before and MaxAmountDecimals after the point.
func ParseAmount(s string) (Decimal, error) {
	return parseDecimal(s, MaxAmountDigits, MaxAmountDecimals)
}

// parseDecimal checks the grammar before apd sees the text, since apd also
// takes NaN, exponents, signs and other spellings of one value.
func parseDecimal(s string, digits, decimals int) (Decimal, error) {
	if reason := decimalFault(s, digits, decimals); reason != "" {
		return Decimal{}, fmt.Errorf("%q: %s: %w", clip(s), reason, ErrDecimal)
	}
	var v Decimal
	if _, _, err := v.d.SetString(s); err != nil {
		return Decimal{}, fmt.Errorf("%q: %w: %w", clip(s), err, ErrDecimal)
	}
	return v, nil
}

// decimalFault says what is wrong with the spelling of s, or "".
func decimalFault(s string, digits, decimals int) string {
	whole := 0
	for whole < len(s) && s[whole] >= '0' && s[whole] <= '9' {
		whole++
	}
	switch {
	case whole == 0:
		return "does not begin with a digit"
	case whole > 1 && s[0] == '0':
		return "leading zero"
	case whole > digits:
		return fmt.Sprintf("more than %d digits before the point", digits)
	case whole == len(s):
		return ""
	case s[whole] != '.':
		return "a character that is no digit"
	}
	frac := s[whole+1:]
	for i := range len(frac) {
		if frac[i] < '0' || frac[i] > '9' {
			return "a character that is no digit"
		}
	}
	switch {
	case frac == "":
		return "no digit after the point"
	case len(frac) > decimals:
		return fmt.Sprintf("more than %d digits after the point", decimals)
	case frac[len(frac)-1] == '0':
		return "trailing zero"
	}
	return ""
}

// clip keeps foreign text in an error message short.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// String spells d in the one form that the ledger accepts.
func (d Decimal) String() string {
	var r apd.Decimal
	r.Reduce(&d.d)
	return r.Text('f')
}

// Add returns d + o.
func (d Decimal) Add(o Decimal) Decimal {
	var r Decimal
	mustExact(exact.Add(&r.d, &d.d, &o.d))
	return r
}

// Sub returns d − o and whether the result is not negative; where it would
// be negative the result is 0 and false.
func (d Decimal) Sub(o Decimal) (Decimal, bool) {
	if d.Cmp(o) < 0 {
		return Decimal{}, false
	}
	var r Decimal
	mustExact(exact.Sub(&r.d, &d.d, &o.d))
	return r, true
}

// Mul returns d × o, as for a price and a factor.
func (d Decimal) Mul(o Decimal) Decimal {
	var r Decimal
	mustExact(exact.Mul(&r.d, &d.d, &o.d))
	return r
}

// TimesUnits returns d × n ÷ 1,000,000: the cost of n units at the price d,
// which is per million.
func (d Decimal) TimesUnits(n uint64) Decimal {
	var units apd.Decimal
	units.Coeff.SetUint64(n)
	var r Decimal
	mustExact(exact.Mul(&r.d, &d.d, &units))
	r.d.Exponent -= 6
	return r
}

// Cmp compares the values: −1, 0 or +1.
func (d Decimal) Cmp(o Decimal) int { return d.d.Cmp(&o.d) }

// IsZero says whether the value is 0.
func (d Decimal) IsZero() bool { return d.d.IsZero() }

// mustExact panics where apd could not give the exact result, which at
// precision 0 happens only when an exponent leaves apd's range of ±100,000:
// the parsers' limits keep every value of the ledger far below that.
func mustExact(_ apd.Condition, err error) {
	if err != nil {
		panic("chain: decimal out of range: " + err.Error())
	}
}
