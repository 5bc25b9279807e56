package loopback

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// Total is the sum of a list of served calls.
type Total struct {
	Calls     int
	Unpriced  int // calls whose case has no cost
	Estimated int // calls whose case is an estimate
	CostUSD   string
}

// Bill adds up what the provider served. The sum is exact, and spelled without
// trailing zeros.
func Bill(served []Served) (Total, error) {
	t := Total{Calls: len(served)}
	var costs []string
	for _, s := range served {
		w := s.Call.Case.Want
		if w.Source == "estimated" {
			t.Estimated++
		}
		if w.CostUSD == nil {
			t.Unpriced++
			continue
		}
		costs = append(costs, *w.CostUSD)
	}
	var err error
	t.CostUSD, err = Sum(costs)
	return t, err
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// Sum adds decimal strings exactly.
func Sum(amounts []string) (string, error) {
	sum, places := new(big.Rat), 0
	for _, a := range amounts {
		if !decimal.MatchString(a) {
			return "", fmt.Errorf("add costs: %q is no decimal", a)
		}
		r, _ := new(big.Rat).SetString(a) // can't fail: the form was checked
		sum.Add(sum, r)
		if _, fraction, ok := strings.Cut(a, "."); ok {
			places = max(places, len(fraction))
		}
	}
	text := sum.FloatString(places) // exact: no summand has more places
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text, nil
}
