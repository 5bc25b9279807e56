package chain_test

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// layouts gives a stored value of each kind, how it is read, and how what was
// read is written again.
func layouts(t testing.TB) map[string]struct {
	stored []byte
	again  func([]byte) ([]byte, error)
} {
	t.Helper()
	amount, err := chain.ParseAmount("12.034")
	if err != nil {
		t.Fatal(err)
	}
	var f chain.Frontier
	for i := range 11 {
		f.Add(chain.Hash{byte(i)})
	}
	event := chain.Event{
		Hash: chain.Hash{1}, Header: []byte(bare), Content: []byte(`{"a":1}`), Salt: chain.Salt{2},
		PartSalts: map[string]chain.Salt{"request": {3}, "response": {4}},
	}
	erased := chain.Event{Hash: chain.Hash{1}, Header: []byte(bare)}
	head := chain.Head{Seq: 11, Hash: chain.Hash{5}, Frontier: f}
	run := chain.RunState{RunSeq: 7, First: 3, Last: 12, Closed: 12}
	totals := chain.Totals{Calls: 1, Failed: 2, Unpriced: 3, Estimated: 4, Cost: amount}
	ofEvent := func(b []byte) ([]byte, error) {
		e, err := chain.DecodeEvent(b)
		if err != nil {
			return nil, err
		}
		return chain.EncodeEvent(nil, e), nil
	}
	return map[string]struct {
		stored []byte
		again  func([]byte) ([]byte, error)
	}{
		"event":        {chain.EncodeEvent(nil, &event), ofEvent},
		"erased event": {chain.EncodeEvent(nil, &erased), ofEvent},
		"seq key": {chain.SeqKey(258), func(b []byte) ([]byte, error) {
			n, err := chain.ParseSeqKey(b)
			return chain.SeqKey(n), err
		}},
		"schema": {chain.EncodeSchema(chain.SchemaVersion), func(b []byte) ([]byte, error) {
			n, err := chain.ParseSchema(b)
			return chain.EncodeSchema(n), err
		}},
		"head": {head.Append(nil), func(b []byte) ([]byte, error) {
			h, err := chain.ParseHead(b)
			return h.Append(nil), err
		}},
		"run": {run.Append(nil), func(b []byte) ([]byte, error) {
			r, err := chain.ParseRunState(b)
			return r.Append(nil), err
		}},
		"totals": {totals.Append(nil), func(b []byte) ([]byte, error) {
			v, err := chain.ParseTotals(b)
			return v.Append(nil), err
		}},
	}
}

// TestLayouts reads every stored value back, and refuses it cut short
// anywhere and with a byte more.
func TestLayouts(t *testing.T) {
	for name, l := range layouts(t) {
		again, err := l.again(l.stored)
		if err != nil || !bytes.Equal(again, l.stored) {
			t.Errorf("%s: %x, %v, not %x", name, again, err, l.stored)
		}
		for i := range l.stored {
			if _, err := l.again(l.stored[:i]); !errors.Is(err, chain.ErrLayout) && !shorter(name, l.stored, i) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, i, len(l.stored), err)
			}
		}
		for _, more := range []byte{0, 1, 0xff, '0'} {
			if _, err := l.again(append(slices.Clone(l.stored), more)); !errors.Is(err, chain.ErrLayout) && !(name == "totals" && more == '0') {
				t.Errorf("%s and the byte %#x: %v", name, more, err)
			}
		}
	}
}

// shorter says where a stored value is whole although it was cut: an event's
// part salts end where the value ends, and an amount is read to the end.
func shorter(name string, stored []byte, n int) bool {
	salts := len(stored) - len("request") - len("response") - 2*(1+len(chain.Salt{}))
	switch name {
	case "event":
		return n == salts || n == salts+1+len("request")+len(chain.Salt{})
	case "totals":
		return n >= 33 && stored[n-1] != '.' && stored[n-1] != '0'
	}
	return false
}

// TestLayoutChanges flips every byte of every stored value: it is refused, or
// it is another value with its own one encoding.
func TestLayoutChanges(t *testing.T) {
	for name, l := range layouts(t) {
		for i := range l.stored {
			for bit := range 8 {
				b := slices.Clone(l.stored)
				b[i] ^= 1 << bit
				again, err := l.again(b)
				if err == nil && !bytes.Equal(again, b) {
					t.Errorf("%s with bit %d of byte %d flipped has a second encoding", name, bit, i)
				}
				if err != nil && !errors.Is(err, chain.ErrLayout) {
					t.Errorf("%s: %v is no ErrLayout", name, err)
				}
			}
		}
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	fixed := string(make([]byte, 32))
	salt := string(make([]byte, 16))
	for what, b := range map[string]string{
		"an unknown flag":             fixed + "\x02\x01h",
		"a length with a zero more":   fixed + "\x00\x81\x00h",
		"a length beyond 64 bits":     fixed + "\x00" + strings.Repeat("\xff", 10) + "\x01",
		"a length beyond the value":   fixed + "\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"part names that do not rise": fixed + "\x00\x01h\x01b" + salt + "\x01a" + salt,
		"a part's name twice":         fixed + "\x00\x01h\x01a" + salt + "\x01a" + salt,
		"a part without a name":       fixed + "\x00\x01h\x00" + salt,
		"content without its salt":    fixed + "\x01\x01h" + salt[:15],
		"a part's salt that is short": fixed + "\x00\x01h\x01a" + salt[:15],
	} {
		if e, err := chain.DecodeEvent([]byte(b)); !errors.Is(err, chain.ErrLayout) || e != nil {
			t.Errorf("%s: %v, %v", what, e, err)
		}
	}
}

// TestHeadFitsItsFrontier: a head whose peaks are not those of its number is
// no head.
func TestHeadFitsItsFrontier(t *testing.T) {
	h := chain.Head{Seq: 11}
	for i := range 11 {
		h.Frontier.Add(chain.Hash{byte(i)})
	}
	b := h.Append(nil)
	b[7] = 12 // two peaks, not three
	if _, err := chain.ParseHead(b); !errors.Is(err, chain.ErrFrontier) || !errors.Is(err, chain.ErrLayout) {
		t.Error(err)
	}
	b[7] = 13 // three peaks as well: the form can't tell
	if got, err := chain.ParseHead(b); err != nil || got.Frontier.Size() != 13 {
		t.Error(err)
	}
}

// TestKeysRise: the order of keys is the order of numbers.
func TestKeysRise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for range 2_000 {
		a, b := r.Uint64()>>r.IntN(64), r.Uint64()>>r.IntN(64)
		if got, want := bytes.Compare(chain.SeqKey(a), chain.SeqKey(b)), cmp.Compare(a, b); got != want {
			t.Fatalf("%d and %d: %d", a, b, got)
		}
	}
}

// TestTotals counts outcomes and nothing else, in exactly the scopes that
// each belongs to.
func TestTotals(t *testing.T) {
	full := fullHeaders(t)
	sums := map[string]*chain.Totals{}
	for _, text := range []string{
		full["tool.call"], full["model.request"], full["run.closed"], // no outcomes
		full["model.response"],
		edit(t, full["model.response"], "/actor", `{"context":"c","pass":"p","role":"r"}`, "/meter/source", `"estimated"`),
		edit(t, full["model.response"], "/meter/cost_usd", "", "/ts", `"2026-12-01T00:00:00.000000000Z"`),
		full["model.failed"],
	} {
		h, err := chain.ParseHeader([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range chain.TotalKeys(h) {
			if sums[key] == nil {
				sums[key] = &chain.Totals{}
			}
			sums[key].Add(h)
		}
	}
	got := map[string]string{}
	for key, s := range sums {
		scope, parts := chain.ParseTotalKey(key)
		if chain.TotalKey(scope, parts...) != key {
			t.Errorf("%q taken apart and joined is %q", key, chain.TotalKey(scope, parts...))
		}
		b := s.Append(nil)
		got[strings.Join(append([]string{scope}, parts...), " ")] = string([]byte{b[7] + '0', b[15] + '0', b[23] + '0', b[31] + '0', ' '}) + s.Cost.String()
	}
	// Calls, failed, unpriced, estimated; cost.
	want := map[string]string{
		"ledger":         "3111 0.000022",
		"day 2026-11-30": "2101 0.000022",
		"day 2026-12-01": "1010 0",
		"run run-1":      "3111 0.000022",
		"model p m-1":    "3011 0.000022",
		"role r":         "1001 0.000011",
		"context r c":    "1001 0.000011",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestBuckets(t *testing.T) {
	list := chain.Buckets()
	if len(list) != 6 || len(slices.Compact(slices.Sorted(slices.Values(list)))) != 6 {
		t.Errorf("buckets %v", list)
	}
}
