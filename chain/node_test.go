package chain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// node is a JSON value taken apart without losing the order of members, so
// that tests can change, leave out and add them. Names are ASCII, and nothing
// changes a node once it is made.
type node struct {
	kind    byte   // { [ " 0 t n, or 0 for text put in by a test
	raw     string // of what is neither object nor array
	members []member
	items   []*node
}

type member struct {
	name  string
	value *node
}

func parseNode(t testing.TB, text string) *node {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	n, err := readNode(d)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func readNode(d *json.Decoder) (*node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case string:
		b, err := chain.AppendString(nil, v)
		return &node{kind: '"', raw: string(b)}, err
	case json.Number:
		return &node{kind: '0', raw: string(v)}, nil
	case bool:
		return &node{kind: 't', raw: strconv.FormatBool(v)}, nil
	case nil:
		return &node{kind: 'n', raw: "null"}, nil
	}
	n := &node{kind: byte(tok.(json.Delim))}
	for d.More() {
		if n.kind == '[' {
			v, err := readNode(d)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
			continue
		}
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := readNode(d)
		if err != nil {
			return nil, err
		}
		n.members = append(n.members, member{name.(string), v})
	}
	_, err = d.Token()
	return n, err
}

func (n *node) String() string {
	list := []string{}
	switch n.kind {
	case '{':
		for _, m := range n.members {
			list = append(list, strconv.Quote(m.name)+":"+m.value.String())
		}
		return "{" + strings.Join(list, ",") + "}"
	case '[':
		for _, v := range n.items {
			list = append(list, v.String())
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	return n.raw
}

// walk calls f at every value below n, with its JSON Pointer.
func (n *node) walk(path string, f func(path string, v *node)) {
	for _, m := range n.members {
		f(path+"/"+m.name, m.value)
		m.value.walk(path+"/"+m.name, f)
	}
	for i, v := range n.items {
		p := fmt.Sprintf("%s/%d", path, i)
		f(p, v)
		v.walk(p, f)
	}
}

// edit returns n with the text raw at the pointer, put in at its canonical
// place where there was nothing; raw "" takes the member or item away.
func (n *node) edit(pointer, raw string) *node {
	step, rest, deeper := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	c := &node{kind: n.kind, members: slices.Clone(n.members), items: slices.Clone(n.items)}
	value := func(old *node) *node {
		if deeper {
			return old.edit(rest, raw)
		}
		return &node{raw: raw}
	}
	if n.kind == '[' {
		i, err := strconv.Atoi(step)
		if err != nil || i >= len(c.items) {
			panic("no item " + pointer)
		}
		if raw == "" && !deeper {
			c.items = slices.Delete(c.items, i, i+1)
		} else {
			c.items[i] = value(c.items[i])
		}
		return c
	}
	i, found := slices.BinarySearchFunc(c.members, step, func(m member, s string) int { return strings.Compare(m.name, s) })
	switch {
	case raw == "" && !deeper:
		c.members = slices.Delete(c.members, i, i+1)
	case found:
		c.members[i].value = value(c.members[i].value)
	default:
		c.members = slices.Insert(c.members, i, member{step, value(&node{kind: '{'})})
	}
	return c
}

// edit returns the canonical text with changes, given as pairs of a pointer
// and a text.
func edit(t testing.TB, text string, changes ...string) string {
	t.Helper()
	for pair := range slices.Chunk(changes, 2) {
		text = parseNode(t, text).edit(pair[0], pair[1]).String()
	}
	return text
}

// mustRefuse fails unless err is a FormError with that path and reason; a
// reason that ends in … says how it begins.
func mustRefuse(t testing.TB, what string, err error, path, reason string) {
	t.Helper()
	f, ok := errors.AsType[*chain.FormError](err)
	if !ok || !errors.Is(err, chain.ErrForm) {
		t.Errorf("%s: %v, not refused at %q: %s", what, err, path, reason)
		return
	}
	begin, cut := strings.CutSuffix(reason, "…")
	if f.Path != path || f.Reason != reason && !(cut && strings.HasPrefix(f.Reason, begin)) {
		t.Errorf("%s:\ngot  %q: %s\nwant %q: %s", what, f.Path, f.Reason, path, reason)
	}
}
