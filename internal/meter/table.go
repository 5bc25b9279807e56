package meter

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Table finds the price row of a model. It does not change once made, and is
// safe for concurrent use.
type Table struct{ layers []layer }

// layer is the rows of files that stand at the same rank.
type layer struct {
	files []*File
	rows  map[rowKey][]*Row
}

type rowKey struct{ provider, name string }

//go:embed prices.toml
var builtin []byte

// Builtin is the price file that docket carries: few rows, checked by hand.
var Builtin = sync.OnceValue(func() *File {
	f, err := LoadFile("built-in", builtin)
	if err != nil {
		panic("meter: built-in price file: " + err.Error())
	}
	return f
})

// LoadTable makes the table of a service: the user's files, and behind them
// the built-in rows. Where a user's file has a row for a model, the built-in
// one is not looked at.
func LoadTable(user ...*File) (*Table, error) {
	return NewTable(user, []*File{Builtin()})
}

// NewTable makes a table of ranks of files, the first going before the next.
// Within a rank no id or alias of a provider may stand twice at the same time;
// the error names every pair that does.
func NewTable(ranks ...[]*File) (*Table, error) {
	t := &Table{}
	var faults []error
	for _, files := range ranks {
		l := layer{files: files, rows: map[rowKey][]*Row{}}
		for _, f := range files {
			for i := range f.Rows {
				faults = append(faults, l.add(&f.Rows[i])...)
			}
		}
		t.layers = append(t.layers, l)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrices, err)
	}
	return t, nil
}

// add enters a row under each of its ids.
func (l *layer) add(r *Row) (faults []error) {
	for _, name := range append([]string{r.Model}, r.Aliases...) {
		key := rowKey{r.Provider, name}
		for _, o := range l.rows[key] {
			if r.overlaps(o) {
				faults = append(faults, fmt.Errorf("price row %s/%s in %s and %s/%s in %s are both in force for %q: end one before the other begins",
					o.Provider, o.Model, o.File.Name, r.Provider, r.Model, r.File.Name, name))
			}
		}
		l.rows[key] = append(l.rows[key], r)
	}
	return faults
}

// Files are the files of the table, by rank.
func (t *Table) Files() []*File {
	var files []*File
	for _, l := range t.layers {
		files = append(files, l.files...)
	}
	return files
}

// Lookup finds the row in force for a model: by its exact id, by an alias, or
// by either followed by one date. There is no nearest row.
func (t *Table) Lookup(provider, model string, at time.Time) (*Row, bool) {
	undated, dated := cutDate(model)
	for _, l := range t.layers {
		if r := l.find(provider, model, at); r != nil {
			return r, true
		}
		if !dated {
			continue
		}
		if r := l.find(provider, undated, at); r != nil {
			return r, true
		}
	}
	return nil, false
}

func (l *layer) find(provider, name string, at time.Time) *Row {
	rows := l.rows[rowKey{provider, name}]
	i := slices.IndexFunc(rows, func(r *Row) bool { return r.inForce(at) })
	if i < 0 {
		return nil
	}
	return rows[i]
}

// cutDate takes a date that exists off the end of a model's name, in one of
// the spellings -20060102 and -2006-01-02.
func cutDate(model string) (undated string, ok bool) {
	for _, layout := range []string{"-20060102", "-2006-01-02"} {
		cut := len(model) - len(layout)
		if cut <= 0 {
			continue
		}
		if _, err := time.Parse(layout, model[cut:]); err == nil {
			return model[:cut], true
		}
	}
	return model, false
}
