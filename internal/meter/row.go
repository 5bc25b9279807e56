package meter

import (
	"time"

	"github.com/docket-audit/docket/chain"
)

// Row is the prices of one model of one provider for a span of time.
type Row struct {
	Provider string
	Model    string   // exact id
	Aliases  []string // further exact ids
	From     time.Time
	Until    time.Time // the first moment at which it is no longer in force; zero: open
	Source   string    // where the vendor states the prices
	Checked  time.Time // the day on which Source was last compared
	// Unverified: Source itself was not seen.
	Unverified bool
	// Free: prices of 0 are meant.
	Free bool
	PriceSet
	// Tiers hold the whole set of prices of a served service tier.
	Tiers map[string]PriceSet
	// Factors are by "name=value" of a served modifier, as "speed=fast".
	Factors map[string]chain.Decimal
	File    *File // the file that the row stands in
}

// PriceSet is the prices by class in USD per million units, and those that
// take their place, for every class, from a length of the prompt on.
type PriceSet struct {
	Prices map[string]chain.Decimal
	Long   []LongStep // by rising Tokens
}

// LongStep is the prices of long prompts.
type LongStep struct {
	Tokens uint64 // length of the whole prompt
	Above  bool   // the rule is ">" rather than ">="
	Prices map[string]chain.Decimal
}

// at is the prices for a prompt of this many tokens.
func (s PriceSet) at(prompt uint64) map[string]chain.Decimal {
	prices := s.Prices
	for _, step := range s.Long {
		if prompt > step.Tokens || prompt == step.Tokens && !step.Above {
			prices = step.Prices
		}
	}
	return prices
}

// RowRef names the row in force in a call's record, so that a later price
// can't change an old cost: its file's hash stands with it.
type RowRef struct {
	Provider   string `json:"provider"`
	Model      string `json:"model"`
	From       string `json:"from"` // YYYY-MM-DD
	Source     string `json:"source"`
	Checked    string `json:"checked"` // YYYY-MM-DD
	Unverified bool   `json:"unverified,omitempty"`
	File       string `json:"file"`
	SHA256     string `json:"sha256"` // of the file, lowercase hex
}

// Ref names r.
func (r *Row) Ref() RowRef {
	return RowRef{
		Provider: r.Provider, Model: r.Model, From: r.From.Format(time.DateOnly),
		Source: r.Source, Checked: r.Checked.Format(time.DateOnly), Unverified: r.Unverified,
		File: r.File.Name, SHA256: r.File.SHA256,
	}
}

// inForce says whether r holds at a moment: From is in the span, Until is not.
func (r *Row) inForce(at time.Time) bool {
	return !at.Before(r.From) && (r.Until.IsZero() || at.Before(r.Until))
}

// overlaps says whether there is a moment at which both rows are in force.
func (r *Row) overlaps(o *Row) bool {
	return (r.Until.IsZero() || o.From.Before(r.Until)) && (o.Until.IsZero() || r.From.Before(o.Until))
}
