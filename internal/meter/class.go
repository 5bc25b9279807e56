package meter

import (
	"fmt"
	"maps"
	"strings"

	"github.com/docket-audit/docket/chain"
)

// Classes that the families of this package count, and those that a price row
// may name: docs/design/metering.md, section 1. The value says whether the
// unit is a token; factors do not touch the others, which are fees per use.
var classes = map[string]bool{
	"input": true, "cache_read": true,
	"cache_write_5m": true, "cache_write_1h": true,
	"cache_write": true, "cache_write_12h": true,
	"output":      true,
	"audio_input": true, "image_input": true, "video_input": true,
	"audio_cache_read": true, "image_cache_read": true, "video_cache_read": true,
	"audio_output": true, "image_output": true, "video_output": true,
	"web_search": false, "x_search": false, "file_search": false,
	"grounded_prompt": false, "code_interpreter": false, "image_generation_call": false,
}

// Classes of a total whose split does not add up. They never have a price.
const (
	unresolvedInput      = "unresolved_input"
	unresolvedOutput     = "unresolved_output"
	unresolvedCacheWrite = "unresolved_cache_write"
)

// fallbackCredit is one unit where an Anthropic answer carries such a credit.
const fallbackCredit = "fallback_credit"

// reserved says whether a counter that docket does not know may not take the
// name, because the class means something else.
func reserved(name string) bool {
	_, known := classes[name]
	return known || strings.HasPrefix(name, "unresolved_") || name == fallbackCredit
}

// isToken says whether factors apply to a class. Of a counter that docket does
// not know the name has to tell.
func isToken(class string) bool {
	token, known := classes[class]
	return token || !known && strings.HasSuffix(class, "_tokens")
}

// validClass checks a name against docs/format.md, section 1.
func validClass(name string) bool {
	if name == "" || len(name) > chain.MaxClass {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("_.:-", rune(c)) {
			return false
		}
	}
	return true
}

// tally is what an answer's figures come to. The two sides are apart because
// one of them can be known while the other has to be estimated.
type tally struct {
	seen                    bool              // the answer had figures, final or not
	input, output, other    map[string]uint64 // units by class
	inputKnown, outputKnown bool
	leastOutput             uint64 // what an estimate of the output can't be below
	prompt                  uint64 // what the long-context threshold looks at
	raw                     []byte // the usage as it came
	note                    string // what raw leaves out
}

// units puts the sides together, without classes of 0 units, and holds the
// result to what a header takes.
func (t tally) units() (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, side := range []map[string]uint64{t.input, t.output, t.other} {
		maps.Copy(all, side)
	}
	maps.DeleteFunc(all, func(_ string, n uint64) bool { return n == 0 })
	if len(all) > chain.MaxClasses {
		return nil, fmt.Errorf("%d classes of usage, more than %d", len(all), chain.MaxClasses)
	}
	for class, n := range all {
		if !validClass(class) {
			return nil, fmt.Errorf("counter %q makes no class name", clip(class))
		}
		if n > chain.MaxInt {
			return nil, fmt.Errorf("%s: %d units, more than 2^53 − 1", class, n)
		}
	}
	return all, nil
}

// clip keeps foreign text in a note short.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
