package meter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/pelletier/go-toml/v2"
)

// File is a price file that was read.
type File struct {
	Name   string // as given: a path, or "built-in"
	SHA256 string // of its bytes, lowercase hex
	Rows   []Row
}

// ErrPrices is wrapped by every refusal of a price file.
var ErrPrices = errors.New("price file refused")

// fileRow is a [[row]] table as it is written. Prices are strings, since a
// number would pass through a float.
type fileRow struct {
	Provider   string   `toml:"provider"`
	Model      string   `toml:"model"`
	Aliases    []string `toml:"aliases"`
	From       any      `toml:"from"` // days: a string or a TOML date
	Until      any      `toml:"until"`
	Source     string   `toml:"source"`
	Checked    any      `toml:"checked"`
	Unverified bool     `toml:"unverified"`
	Free       bool     `toml:"free"`
	fileSet
	Tiers   map[string]fileSet `toml:"tiers"`
	Factors map[string]string  `toml:"factors"`
}

type fileSet struct {
	Prices map[string]string `toml:"prices"`
	Long   []fileStep        `toml:"long"`
}

type fileStep struct {
	Tokens int64             `toml:"tokens"`
	Rule   string            `toml:"rule"`
	Prices map[string]string `toml:"prices"`
}

// LoadFile reads a price file. name is what messages and records call it. An
// unknown key, a price that is no decimal string, or a row that breaks a rule
// of docs/design/metering.md, section 7, refuses the whole file; the error
// lists every fault, by row.
func LoadFile(name string, data []byte) (*File, error) {
	if len(data) > MaxPriceFile {
		return nil, fmt.Errorf("%w: %s: %d bytes, more than %d", ErrPrices, name, len(data), MaxPriceFile)
	}
	var doc struct {
		Row []fileRow `toml:"row"`
	}
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrPrices, name, tomlFault(err))
	}
	sum := sha256.Sum256(data)
	f := &File{Name: name, SHA256: hex.EncodeToString(sum[:]), Rows: make([]Row, len(doc.Row))}
	var faults []error
	for i, in := range doc.Row {
		c := checker{where: fmt.Sprintf("%s: row %d (%s/%s)", name, i+1, clip(in.Provider), clip(in.Model)), free: in.Free}
		f.Rows[i] = c.row(in)
		f.Rows[i].File = f
		faults = append(faults, c.faults...)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrices, err)
	}
	// Overlaps inside one file are the file's own fault.
	if _, err := NewTable([]*File{f}); err != nil {
		return nil, err
	}
	return f, nil
}

// tomlFault says where a file is not what it should be.
func tomlFault(err error) string {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var keys []string
		for _, e := range strict.Errors {
			line, _ := e.Position()
			keys = append(keys, fmt.Sprintf("line %d: unknown key %s", line, strings.Join(e.Key(), ".")))
		}
		return strings.Join(keys, "; ")
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		what, _, wrongType := strings.Cut(strings.TrimPrefix(at.Error(), "toml: "), " into struct field")
		if wrongType {
			// The rest names Go types, which are nothing to whoever wrote the file.
			what += " into " + strings.Join(at.Key(), ".")
			if !strings.Contains(what, "TOML string") {
				what += `: text stands in quotes, prices and factors too, as "1.25"`
			}
		}
		return fmt.Sprintf("line %d, column %d: %s", line, column, what)
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

// checker turns one row into its form, and notes what is wrong with it.
type checker struct {
	where  string
	free   bool
	faults []error
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%s: %s", c.where, fmt.Sprintf(format, args...)))
}

func (c *checker) row(in fileRow) Row {
	r := Row{
		Provider: in.Provider, Model: in.Model, Aliases: in.Aliases,
		From: c.date("from", in.From), Until: c.date("until", in.Until),
		Source: in.Source, Checked: c.date("checked", in.Checked),
		Unverified: in.Unverified, Free: in.Free,
		Tiers: map[string]PriceSet{}, Factors: map[string]chain.Decimal{},
	}
	c.names(in)
	if in.From == nil {
		c.fault("no from: the day in UTC from which these prices hold")
	}
	if in.Checked == nil {
		c.fault("no checked: the day on which the source was last compared")
	}
	if !r.From.IsZero() && !r.Until.IsZero() && !r.From.Before(r.Until) {
		c.fault("until %s is not after from %s", r.Until.Format(time.DateOnly), r.From.Format(time.DateOnly))
	}
	if strings.TrimSpace(in.Source) == "" {
		c.fault("no source: name the vendor's page that states the prices")
	}
	r.PriceSet = c.set("", in.fileSet, nil)
	for tier, set := range in.Tiers {
		at := "tiers." + tier
		if isPlain("service_tier", tier) {
			c.fault("%s: this tier is plain, its prices stand in prices", at)
		}
		if _, twice := in.Factors["service_tier="+tier]; twice {
			c.fault("%s has prices and a factor: one of them", at)
		}
		r.Tiers[tier] = c.set(at+".", set, r.Prices)
	}
	for name, factor := range in.Factors {
		r.Factors[name] = c.factor(name, factor)
	}
	if len(c.faults) == 0 {
		c.digits(r)
	}
	return r
}

func (c *checker) names(in fileRow) {
	if in.Provider == "" || HeaderName(in.Provider) != in.Provider {
		c.fault("provider is not 1 to %d characters from ! to ~", chain.MaxToken)
	}
	seen := map[string]bool{}
	for i, id := range append([]string{in.Model}, in.Aliases...) {
		what := "model"
		if i > 0 {
			what = fmt.Sprintf("alias %q", clip(id))
		}
		if id == "" || HeaderName(id) != id {
			c.fault("%s is not 1 to %d characters from ! to ~", what, chain.MaxToken)
		}
		if seen[id] {
			c.fault("%s stands twice in the row", what)
		}
		seen[id] = true
	}
}

// date reads a day in UTC, written as a TOML date or as the same in quotes.
func (c *checker) date(member string, in any) time.Time {
	var spelled string
	switch v := in.(type) {
	case nil:
		return time.Time{}
	case string:
		spelled = v
	case toml.LocalDate:
		spelled = v.String()
	default:
		spelled = fmt.Sprint(v)
	}
	t, err := time.Parse(time.DateOnly, spelled)
	if err != nil || t.IsZero() {
		c.fault("%s: %q is no date of the form 2026-11-30", member, clip(spelled))
	}
	return t
}
