package chain_test

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// The grammars of docs/format.md, section 2, as patterns.
var (
	priceForm  = regexp.MustCompile(`\A(0|[1-9][0-9]{0,17})(\.[0-9]{0,17}[1-9])?\z`)
	amountForm = regexp.MustCompile(`\A(0|[1-9][0-9]{0,47})(\.[0-9]{0,23}[1-9])?\z`)
)

// TestDecimalGrammar tries every text of up to four characters that matter,
// and the edges of the lengths.
func TestDecimalGrammar(t *testing.T) {
	var texts []string
	level := []string{""}
	for range 4 {
		var next []string
		for _, s := range level {
			for _, c := range "0190.-+e_ " {
				next = append(next, s+string(c))
			}
		}
		texts = append(texts, level...)
		level = next
	}
	texts = append(texts, level...)
	nines := strings.Repeat("9", 60)
	zeros := strings.Repeat("0", 60)
	for _, n := range []int{1, 17, 18, 19, 23, 24, 25, 47, 48, 49, 60} {
		texts = append(texts, nines[:n], "1"+zeros[:n-1], "0."+nines[:n], "0."+zeros[:n-1]+"1", nines[:n]+"."+nines[:n], nines[:n]+".1", "0."+nines[:n-1]+"0")
	}
	texts = append(texts, "NaN", "nan", "Inf", "Infinity", "1E5", "0x10", "1,5", "1٣", "٣", "1\n", "\n1", "1.5\x00", "\xff", "--1", "1..2", "1.2.3", "½")
	for _, s := range texts {
		for _, p := range []struct {
			name  string
			parse func(string) (chain.Decimal, error)
			form  *regexp.Regexp
		}{{"price", chain.ParsePrice, priceForm}, {"amount", chain.ParseAmount, amountForm}} {
			d, err := p.parse(s)
			switch {
			case (err == nil) != p.form.MatchString(s):
				t.Fatalf("%s %q: %v", p.name, s, err)
			case err == nil && d.String() != s:
				t.Fatalf("%s %q is spelled %q", p.name, s, d)
			case err != nil && !errors.Is(err, chain.ErrDecimal):
				t.Fatalf("%s %q: %v is no ErrDecimal", p.name, s, err)
			}
		}
	}
}

func TestDecimalReasons(t *testing.T) {
	for s, reason := range map[string]string{
		"": "does not begin with a digit", ".5": "does not begin with a digit", "-1": "does not begin with a digit", "NaN": "does not begin with a digit",
		"01": "leading zero", "00": "leading zero",
		"1e3": "a character that is no digit", "1.5x": "a character that is no digit", "1 ": "a character that is no digit",
		"1.": "no digit after the point", "1.50": "trailing zero", "0.0": "trailing zero",
		strings.Repeat("9", 19):              "more than 18 digits before the point",
		"0." + strings.Repeat("0", 18) + "1": "more than 18 digits after the point",
	} {
		_, err := chain.ParsePrice(s)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q: %s", s, reason)) {
			t.Errorf("%q: %v", s, err)
		}
	}
	_, err := chain.ParseAmount(strings.Repeat("9", 1000))
	if err == nil || len(err.Error()) > 250 {
		t.Errorf("a long text is repeated whole: %v", err)
	}
}

func randomDecimal(r *rand.Rand, digits, decimals int) string {
	s := "0"
	if n := r.IntN(digits + 1); n > 0 {
		s = string(rune('1' + r.IntN(9)))
		for range n - 1 {
			s += string(rune('0' + r.IntN(10)))
		}
	}
	if n := r.IntN(decimals + 1); n > 0 {
		s += "."
		for range n - 1 {
			s += string(rune('0' + r.IntN(10)))
		}
		s += string(rune('1' + r.IntN(9)))
	}
	return s
}

func rat(t *testing.T, s string) *big.Rat {
	t.Helper()
	v, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return v
}

// TestDecimalsAgainstRat computes random rows by the definition, in fractions.
func TestDecimalsAgainstRat(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	million := big.NewRat(1_000_000, 1)
	for range 500 {
		var sum chain.Decimal
		want := new(big.Rat)
		for range r.IntN(12) {
			text := randomDecimal(r, 18, 18)
			price, err := chain.ParsePrice(text)
			if err != nil {
				t.Fatal(err)
			}
			units := r.Uint64N(chain.MaxInt+1) >> r.IntN(54)
			cost := price.TimesUnits(units)
			wantCost := new(big.Rat).SetFrac(new(big.Int).SetUint64(units), big.NewInt(1))
			wantCost.Quo(wantCost.Mul(wantCost, rat(t, text)), million)
			if rat(t, cost.String()).Cmp(wantCost) != 0 {
				t.Fatalf("%d × %s = %s, not %s", units, text, cost, wantCost)
			}
			if parsed, err := chain.ParseAmount(cost.String()); err != nil || parsed.Cmp(cost) != 0 {
				t.Fatalf("%s, a cost, can't be written down: %v", cost, err)
			}
			sum, want = sum.Add(cost), want.Add(want, wantCost)
		}
		if rat(t, sum.String()).Cmp(want) != 0 {
			t.Fatalf("sum %s, not %s", sum, want)
		}
		testPair(t, r)
	}
}

func testPair(t *testing.T, r *rand.Rand) {
	t.Helper()
	x, y := randomDecimal(r, 48, 24), randomDecimal(r, 48, 24)
	if r.IntN(4) == 0 {
		y = x
	}
	a, errA := chain.ParseAmount(x)
	b, errB := chain.ParseAmount(y)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	ra, rb := rat(t, x), rat(t, y)
	if a.Cmp(b) != ra.Cmp(rb) || a.IsZero() != (ra.Sign() == 0) {
		t.Fatalf("%s, %s: compared as %d", x, y, a.Cmp(b))
	}
	if got := a.Mul(b); rat(t, got.String()).Cmp(new(big.Rat).Mul(ra, rb)) != 0 {
		t.Fatalf("%s × %s = %s", x, y, got)
	}
	if got := a.Add(b); rat(t, got.String()).Cmp(new(big.Rat).Add(ra, rb)) != 0 {
		t.Fatalf("%s + %s = %s", x, y, got)
	}
	diff, ok := a.Sub(b)
	switch {
	case ok != (ra.Cmp(rb) >= 0):
		t.Fatalf("%s − %s: %v", x, y, ok)
	case ok && rat(t, diff.String()).Cmp(new(big.Rat).Sub(ra, rb)) != 0:
		t.Fatalf("%s − %s = %s", x, y, diff)
	case !ok && !diff.IsZero():
		t.Fatalf("%s − %s = %s, and should be 0", x, y, diff)
	}
	if a.String() != x || b.String() != y {
		t.Fatalf("%s and %s were changed to %s and %s", x, y, a, b)
	}
}

func TestDecimalZero(t *testing.T) {
	var d chain.Decimal
	if d.String() != "0" || !d.IsZero() || d.Add(d).String() != "0" || d.TimesUnits(1<<53-1).String() != "0" {
		t.Errorf("the zero value is %s", d)
	}
	p, err := chain.ParsePrice("0.000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.TimesUnits(1).String(); got != "0.000000000000000000000001" {
		t.Errorf("the smallest cost is %s", got)
	}
}
