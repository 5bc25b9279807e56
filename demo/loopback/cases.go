package loopback

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Case is a golden case: a request, the provider's answer, the price row, and
// the meter that must come out. The file's own schema says what each member
// means.
type Case struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Provider string            `json:"provider"`
	Method   string            `json:"method"` // "" is POST
	Endpoint string            `json:"endpoint"`
	Stream   bool              `json:"stream"`
	Why      string            `json:"why"`
	Source   string            `json:"source"`
	Request  json.RawMessage   `json:"request"`
	Status   int               `json:"status"` // 0: no answer at all
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
	End      string            `json:"end"` // "", EndCut or EndClient
	Pending  []string          `json:"pending"`
	Want     Want              `json:"want"`
	PriceRow
}

// PriceRow is the price row of a case. Prices are decimal strings in USD per
// million units, by class.
type PriceRow struct {
	Model      string                       `json:"price_model"`
	Aliases    []string                     `json:"price_aliases"`
	Prices     map[string]string            `json:"price"`
	Long       map[string]string            `json:"prices_long"`
	Threshold  *Threshold                   `json:"threshold"` // of Long
	Tiers      map[string]map[string]string `json:"prices_tier"`
	Multiplier map[string]string            `json:"multiplier"` // "name=value" of a modifier
}

// Threshold is the length of the prompt from which on the long prices hold.
type Threshold struct {
	Tokens uint64 `json:"tokens"`
	Rule   string `json:"rule"` // ">=" or ">"
}

// Want is what has to come out of a case.
type Want struct {
	Model    string            `json:"model"`
	Usage    map[string]uint64 `json:"usage"`
	CostUSD  *string           `json:"cost_usd"` // nil: unpriced
	Source   string            `json:"source"`   // reported, estimated, none
	Unpriced bool              `json:"unpriced"`
	Outcome  string            `json:"outcome"`
}

// Endpoints that Load keeps.
const (
	EndpointMessages = "/v1/messages"
	EndpointChat     = "/v1/chat/completions"
)

// Load reads the golden cases of the two endpoints above in which the provider
// answers. An unknown member is an error: a case that is half understood would
// be served wrongly.
func Load(path string) ([]Case, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read golden cases: %w", err)
	}
	var file struct {
		Schema json.RawMessage `json:"schema"`
		Cases  []Case          `json:"cases"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("read golden cases %s: %w", path, err)
	}
	var cases []Case
	for _, c := range file.Cases {
		if (c.Endpoint == EndpointMessages || c.Endpoint == EndpointChat) && c.Method == "" && c.Status != 0 {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("read golden cases %s: none for %s or %s", path, EndpointMessages, EndpointChat)
	}
	return cases, nil
}
