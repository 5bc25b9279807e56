package chain

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// CanonicalContent returns the canonical form (RFC 8785) of src, which has to be one
// JSON object. It refuses what docs/format.md, section 2 refuses, with the
// member's path: duplicate members, lone surrogates, invalid UTF-8, more than
// MaxDepth levels, more than MaxContent bytes, and numbers whose value a double
// would not keep. Nothing is rounded or dropped. The result may share memory
// with src.
func CanonicalContent(src []byte) ([]byte, error) {
	if CheckContent(src) == nil {
		return src, nil
	}
	if err := checkInput(src); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(src))
	if err := v.Canonicalize(); err != nil {
		return nil, fault(err.Error())
	}
	if err := CheckContent(v); err != nil {
		return nil, err
	}
	return v, nil
}

// checkInput refuses what canonicalizing would change in silence.
func checkInput(src []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	if k := d.PeekKind(); k != '{' && k != 0 {
		return fault("not an object")
	}
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return syntaxFault(d, err)
		}
		switch tok.Kind() {
		case '0':
			if _, err := canonicalNumber([]byte(tok.String())); err != nil {
				return &FormError{Path: string(d.StackPointer()), Reason: err.Error()}
			}
		case '{', '[':
			if d.StackDepth() > MaxDepth {
				return &FormError{Path: string(d.StackPointer()), Reason: "more than " + strconv.Itoa(MaxDepth) + " levels"}
			}
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return fault("bytes after the value")
	}
	return nil
}

// syntaxFault turns the decoder's error into ours, with the place.
func syntaxFault(d *jsontext.Decoder, err error) error {
	if err == io.EOF {
		return fault("empty input")
	}
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &FormError{Path: string(d.StackPointer()), Reason: "JSON without end"}
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &s):
		return &FormError{Path: string(s.JSONPointer), Reason: "member twice"}
	case errors.As(err, &s):
		return &FormError{Path: string(s.JSONPointer), Reason: s.Err.Error()}
	}
	return fault(err.Error())
}

// sameValue compares two numbers of JSON by value, as text: sign, significant
// digits and exponent. It is linear in their length whatever the exponent.
func sameValue(a, b []byte) bool {
	x, y := splitNumber(a), splitNumber(b)
	return x == y
}

type numberText struct {
	neg    bool
	digits string // without zeros at either end; "" for zero
	exp    int64  // of the last digit
}

// splitNumber takes valid JSON numbers only. An exponent beyond int64 is
// held at its edge: such a number is no double but zero, and is refused or
// equal whatever stands here.
func splitNumber(text []byte) numberText {
	var n numberText
	t, n2 := strings.CutPrefix(string(text), "-")
	n.neg = n2
	mantissa, exp := t, ""
	if i := strings.IndexAny(t, "eE"); i >= 0 {
		mantissa, exp = t[:i], strings.TrimPrefix(t[i+1:], "+")
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		return numberText{neg: n.neg}
	}
	if exp != "" {
		n.exp, _ = strconv.ParseInt(exp, 10, 64)
	}
	n.digits = strings.TrimRight(digits, "0")
	n.exp += int64(len(digits)-len(n.digits)) - int64(len(frac))
	return n
}

// appendString appends s as a canonical JSON string. s is valid UTF-8.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			start = i + 1
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendString appends s as a JSON string in canonical form, for content that
// the service itself writes. It reports invalid UTF-8, which JSON can't hold.
func AppendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fault("invalid UTF-8")
	}
	return appendString(dst, s), nil
}
