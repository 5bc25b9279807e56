package meter

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/go-json-experiment/json/jsontext"
)

// field says how a member of a usage block is read.
type field int

const (
	counter field = iota + 1 // an integer from 0 to 2^53 − 1
	group                    // an object whose members have fields of their own
	word                     // a modifier
	list                     // an array that the family reads itself
	flag                     // noted where it is there and not null
	skipped                  // never read: costs, times, and the like
)

// fields is what a family knows of its usage block, by dotted path below it.
type fields map[string]field

// block is a usage block that was read. A member that is missing or null is in
// none of the maps: the provider said nothing. A counter of 0 is in counts.
type block struct {
	counts map[string]uint64
	words  map[string]jsontext.Value
	lists  map[string]jsontext.Value
	flags  map[string]bool
	extra  map[string]uint64 // counters that nobody knows, by path
}

// readBlock reads a usage block. Any known member of another type, a count
// that is negative, fractional or text, and a member that stands twice make
// the whole block unreadable: half a block would be a wrong bill.
func readBlock(raw []byte, known fields) (block, error) {
	b := block{
		counts: map[string]uint64{}, words: map[string]jsontext.Value{},
		lists: map[string]jsontext.Value{}, flags: map[string]bool{}, extra: map[string]uint64{},
	}
	if err := b.object("", raw, known, 1); err != nil {
		return block{}, fmt.Errorf("read usage: %w", err)
	}
	return b, nil
}

func (b *block) object(path string, raw []byte, known fields, depth int) error {
	if depth > chain.MaxDepth {
		return fmt.Errorf("%s: more than %d levels", clip(path), chain.MaxDepth)
	}
	seen := map[string]bool{}
	return members(raw, func(name string, value jsontext.Value) error {
		at := join(path, name)
		if seen[name] {
			return fmt.Errorf("%s stands twice", clip(at))
		}
		seen[name] = true
		if value.Kind() == 'n' {
			return nil
		}
		return b.member(at, name, value, known, depth)
	})
}

func (b *block) member(at, name string, value jsontext.Value, known fields, depth int) error {
	kind := known[at]
	if strings.Contains(name, ".") {
		kind = 0 // a member with a point in its name is not the path it looks like
	}
	if kind == group && value.Kind() != '{' || kind == list && value.Kind() != '[' {
		return fmt.Errorf("%s is %s", at, clip(string(value)))
	}
	switch kind {
	case counter:
		n, err := count(value)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		b.counts[at] = n
	case group:
		return b.object(at, value, known, depth+1)
	case word:
		b.words[at] = bytes.Clone(value)
	case list:
		b.lists[at] = bytes.Clone(value)
	case flag:
		b.flags[at] = true
	case skipped:
	default:
		return b.unknown(at, name, value, depth)
	}
	return nil
}

// unknown looks for counters under a key that docket does not know: dropping
// them would be a silent undercharge.
func (b *block) unknown(at, name string, value jsontext.Value, depth int) error {
	if isMeasure(name) {
		return nil
	}
	switch value.Kind() {
	case '{':
		return b.object(at, value, nil, depth+1)
	case '[':
		if depth >= chain.MaxDepth {
			return fmt.Errorf("%s: more than %d levels", clip(at), chain.MaxDepth)
		}
		i, err := 0, error(nil)
		elements(value, func(v jsontext.Value) {
			if err == nil && v.Kind() != 'n' {
				err = b.unknown(join(at, strconv.Itoa(i)), "", v, depth+1)
			}
			i++
		})
		return err
	case '0':
		if strings.ContainsAny(string(value), ".eE") {
			return nil // a rate or a time: counters are integers
		}
		n, err := count(value)
		if err != nil {
			return fmt.Errorf("%s: %w", clip(at), err)
		}
		class := at
		if reserved(class) {
			class = join("usage", at)
		}
		if _, twice := b.extra[class]; twice {
			return fmt.Errorf("two counters are called %s", clip(class))
		}
		b.extra[class] = n
	}
	return nil
}

// isMeasure says whether a key that docket does not know names a number that
// is no counter by its very name: times, costs and flags are not read at all.
func isMeasure(name string) bool {
	return name == "cost" || strings.HasPrefix(name, "cost_") || strings.HasPrefix(name, "is_") ||
		strings.HasSuffix(name, "_cost") || strings.HasSuffix(name, "_time")
}

// count reads a count as docs/format.md, section 1 spells integers.
func count(value jsontext.Value) (uint64, error) {
	s := string(value)
	if value.Kind() != '0' {
		return 0, fmt.Errorf("%s is no count", clip(s))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > chain.MaxInt:
		return 0, fmt.Errorf("%s is more than 2^53 − 1", clip(s))
	case err != nil:
		return 0, fmt.Errorf("%s is no count: not an integer from 0", clip(s))
	}
	return n, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// overlay overwrites the members of b with those that o says something about.
func (b *block) overlay(o block) {
	maps.Copy(b.counts, o.counts)
	maps.Copy(b.words, o.words)
	maps.Copy(b.lists, o.lists)
	maps.Copy(b.flags, o.flags)
	maps.Copy(b.extra, o.extra)
}
