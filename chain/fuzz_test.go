package chain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/docket-audit/docket/chain"
)

// Each target states a property, and fails where it was given no seeds.

// seeds adds byte strings that gather yields, and fails where they are few.
func seeds(f *testing.F, least int, gather func(add func([]byte))) {
	f.Helper()
	var list [][]byte
	gather(func(b []byte) { list = append(list, b) })
	if len(list) < least {
		f.Fatalf("only %d seeds", len(list))
	}
	// Large seeds and very many only slow the search down.
	const most, longest = 400, 8 << 10
	for i := 0; i < len(list); i += 1 + len(list)/most {
		if len(list[i]) <= longest {
			f.Add(list[i])
		}
	}
}

// vectorLines yields every line of every worked case.
func vectorLines(f *testing.F, add func([]byte)) {
	eachVector(f, func(_ string, _ verdict, lines [][]byte) {
		for _, l := range lines {
			add(l)
		}
	})
}

// FuzzParseHeader: what is accepted is the one encoding of its value.
func FuzzParseHeader(f *testing.F) {
	seeds(f, 500, func(add func([]byte)) {
		for _, h := range fullHeaders(f) {
			add([]byte(h))
		}
		vectorLines(f, func(l []byte) {
			if line, err := chain.ParseLine(l); err == nil && line.Event != nil {
				add(line.Event.Header)
			}
		})
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := chain.ParseHeader(b)
		if err != nil {
			if h != nil || !errors.Is(err, chain.ErrForm) {
				t.Fatalf("%v, %v", h, err)
			}
			return
		}
		again := h.Append(nil)
		if !bytes.Equal(again, b) {
			t.Fatalf("re-encoded as\n%s\nnot\n%s", again, b)
		}
		if err := h.Check(); err != nil {
			t.Fatalf("Check: %v", err)
		}
		if second, err := chain.ParseHeader(again); err != nil || !reflect.DeepEqual(h, second) {
			t.Fatalf("read as\n%+v\nand then as\n%+v, %v", h, second, err)
		}
		if err := chain.CheckContent(b); err != nil {
			t.Fatalf("a header that is no canonical object: %v", err)
		}
	})
}

// FuzzParseLine: what is accepted re-encodes to the same bytes.
func FuzzParseLine(f *testing.F) {
	seeds(f, 500, func(add func([]byte)) {
		for _, l := range fullLines() {
			add([]byte(l))
		}
		vectorLines(f, add)
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := chain.ParseLine(b)
		if err != nil {
			if l != (chain.Line{}) || !errors.Is(err, chain.ErrForm) {
				t.Fatalf("%v, %v", l, err)
			}
			return
		}
		var again []byte
		switch {
		case l.Event != nil:
			again = l.Event.AppendLine(nil)
			if stored, err := chain.DecodeEvent(chain.EncodeEvent(nil, l.Event)); err != nil || !bytes.Equal(stored.AppendLine(nil), again) {
				t.Fatalf("stored and read back: %v", err)
			}
		case l.Body != nil:
			again = l.Body.AppendLine(nil)
		case l.Trailer != nil:
			again = l.Trailer.AppendLine(nil)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("re-encoded as\n%s\nnot\n%s", again, b)
		}
	})
}

// FuzzCanonicalContent: what an append keeps is what a file may have, is
// itself again when it is made canonical, is what the second library makes of
// it, and has the value that was sent.
func FuzzCanonicalContent(f *testing.F) {
	seeds(f, 300, func(add func([]byte)) {
		for _, c := range jsonTable {
			add([]byte(c.src))
		}
		vectorLines(f, func(l []byte) {
			if line, err := chain.ParseLine(l); err == nil && line.Event != nil && line.Event.Content != nil {
				add(line.Event.Content)
			}
		})
	})
	f.Fuzz(func(t *testing.T, src []byte) {
		kept := bytes.Clone(src)
		got, err := chain.CanonicalContent(src)
		if !bytes.Equal(src, kept) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if got != nil || !errors.Is(err, chain.ErrForm) {
				t.Fatalf("%s, %v", got, err)
			}
			if chain.CheckContent(src) == nil {
				t.Fatalf("refused on append and fine in a file: %s", src)
			}
			return
		}
		if err := chain.CheckContent(got); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if again, err := chain.CanonicalContent(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s became %s, %v", got, again, err)
		}
		if (chain.CheckContent(src) == nil) != bytes.Equal(got, src) {
			t.Fatalf("a file may have %s although %s is canonical", src, got)
		}
		if want, err := jcs.Transform(src); err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%s, and the second library says\n%s", got, want)
		}
		var sent, stored any
		if json.Unmarshal(src, &sent) != nil || json.Unmarshal(got, &stored) != nil || !reflect.DeepEqual(sent, stored) {
			t.Fatalf("%s is not the value of %s", got, src)
		}
	})
}

// FuzzDecimal: what is accepted matches the pattern of the format and is
// spelled in one way.
func FuzzDecimal(f *testing.F) {
	seeds(f, 10, func(add func([]byte)) {
		for _, s := range []string{"0", "1", "0.1", "10.01", "1.50", "01", ".5", "1.", "1e3", "-1", "999999999999999999.999999999999999999", "0.000000000000000000000001"} {
			add([]byte(s))
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := string(b)
		price, err := chain.ParsePrice(s)
		if (err == nil) != priceForm.MatchString(s) {
			t.Fatalf("price %q: %v", s, err)
		}
		amount, errAmount := chain.ParseAmount(s)
		if (errAmount == nil) != amountForm.MatchString(s) {
			t.Fatalf("amount %q: %v", s, errAmount)
		}
		if err == nil && (price.String() != s || amount.String() != s || price.Cmp(amount) != 0) {
			t.Fatalf("%q is spelled %q and %q", s, price, amount)
		}
	})
}

// FuzzStored: what is accepted as a stored value is its one encoding.
func FuzzStored(f *testing.F) {
	kinds := layouts(f)
	seeds(f, len(kinds), func(add func([]byte)) {
		for _, l := range kinds {
			add(l.stored)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, l := range kinds {
			again, err := l.again(b)
			if err == nil && !bytes.Equal(again, b) {
				t.Fatalf("%s: %x has the second encoding %x", name, b, again)
			}
			if err != nil && !errors.Is(err, chain.ErrLayout) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

// FuzzParseCreated: what is accepted re-encodes to itself, less the members
// that the format does not name.
func FuzzParseCreated(f *testing.F) {
	seeds(f, 10, func(add func([]byte)) {
		add([]byte(createdText))
		vectorLines(f, func(l []byte) {
			if line, err := chain.ParseLine(l); err == nil && line.Event != nil && bytes.Contains(line.Event.Header, []byte(`"seq":1,`)) {
				add(line.Event.Content)
			}
		})
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := chain.ParseCreated(b)
		if err != nil {
			if c != nil || !errors.Is(err, chain.ErrForm) && !errors.Is(err, chain.ErrFormatVersion) {
				t.Fatalf("%v, %v", c, err)
			}
			return
		}
		again := c.Append(nil)
		second, err := chain.ParseCreated(again)
		if err != nil || !reflect.DeepEqual(c, second) {
			t.Fatalf("read as\n%+v\nand then as\n%+v, %v", c, second, err)
		}
		if len(again) > len(b) || len(again) == len(b) && !bytes.Equal(again, b) {
			t.Fatalf("re-encoded as\n%s\nnot\n%s", again, b)
		}
	})
}
