package chain

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads bytes that have to be canonical JSON already (RFC 8785): it
// accepts one spelling of each value and names the first place that has
// another. It is what makes a ledger's bytes the only encoding of its values.
type scanner struct {
	b []byte
	i int
}

const notCanonical = "not canonical JSON"

// CheckContent says whether b is exactly the canonical form of one JSON
// object of at most MaxDepth levels and MaxContent bytes. It is the check of
// content that is read from a file or an export.
func CheckContent(b []byte) error {
	s := scanner{b: b}
	if _, err := s.content(); err != nil {
		return err
	}
	return s.end()
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// byte consumes the one byte c.
func (s *scanner) byte(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// lit consumes the exact text t.
func (s *scanner) lit(t string) bool {
	if len(s.b)-s.i >= len(t) && string(s.b[s.i:s.i+len(t)]) == t {
		s.i += len(t)
		return true
	}
	return false
}

func (s *scanner) end() error {
	if s.i != len(s.b) {
		return fault("bytes after the value")
	}
	return nil
}

// members walks the members of one object, in canonical order.
type members struct {
	prev    []byte // decoded name of the last member
	started bool
}

// open consumes the opening brace of an object.
func (s *scanner) open() error {
	if !s.byte('{') {
		return fault("not an object")
	}
	return nil
}

// next consumes the separator, the name and the colon of the next member. It
// returns false at the closing brace, which it consumes.
func (s *scanner) next(m *members) ([]byte, bool, error) {
	if s.byte('}') {
		return nil, false, nil
	}
	if m.started && !s.byte(',') {
		return nil, false, fault(notCanonical)
	}
	name, err := s.str()
	if err != nil {
		return nil, false, err
	}
	if m.started {
		switch c := compareUTF16(m.prev, name); {
		case c == 0:
			return nil, false, faultAt(string(name), "member twice")
		case c > 0:
			return nil, false, faultAt(string(name), "member out of canonical order")
		}
	}
	if !s.byte(':') {
		return nil, false, faultAt(string(name), notCanonical)
	}
	m.prev, m.started = name, true
	return name, true, nil
}

// value consumes any value; depth is the level that an object or array here
// would have.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case s.lit("true"), s.lit("false"), s.lit("null"):
		return nil
	}
	return fault(notCanonical)
}

func (s *scanner) object(depth int) error {
	if depth > MaxDepth {
		return fault("more than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if err := s.open(); err != nil {
		return err
	}
	var m members
	for {
		name, ok, err := s.next(&m)
		if err != nil || !ok {
			return err
		}
		if err := s.value(depth + 1); err != nil {
			return under(string(name), err)
		}
	}
}

func (s *scanner) array(depth int) error {
	if depth > MaxDepth {
		return fault("more than " + strconv.Itoa(MaxDepth) + " levels")
	}
	s.i++
	if s.byte(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := s.value(depth + 1); err != nil {
			return underIndex(i, err)
		}
		if s.byte(']') {
			return nil
		}
		if !s.byte(',') {
			return underIndex(i, fault(notCanonical))
		}
	}
}

// str consumes a string and returns its value. The result shares the input's
// memory where the string has no escapes.
func (s *scanner) str() ([]byte, error) {
	if !s.byte('"') {
		return nil, fault("not a string")
	}
	start := s.i
	for s.i < len(s.b) {
		for _, c := range s.b[s.i:] {
			if !plain[c] {
				break
			}
			s.i++
		}
		switch c := s.peek(); {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], nil
		case c == '\\':
			return s.escaped(start)
		case c >= utf8.RuneSelf:
			if !s.rune() {
				return nil, fault("invalid UTF-8")
			}
		case s.i < len(s.b):
			return nil, fault("control character in a string")
		}
	}
	return nil, fault("string without end")
}

// plain holds the bytes that stand for themselves in a string, alone.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// fixed consumes a string of n bytes if one without escapes stands here; the
// caller then judges each of them, so that none is looked at twice.
func (s *scanner) fixed(n int) ([]byte, bool) {
	if len(s.b)-s.i < n+2 || s.b[s.i] != '"' || s.b[s.i+n+1] != '"' {
		return nil, false
	}
	v := s.b[s.i+1 : s.i+n+1]
	s.i += n + 2
	return v, true
}

// rune consumes one character of more than one byte.
func (s *scanner) rune() bool {
	r, n := utf8.DecodeRune(s.b[s.i:])
	s.i += n
	return r != utf8.RuneError || n > 1
}

// escaped goes on with a string that has its first escape at s.i.
func (s *scanner) escaped(start int) ([]byte, error) {
	v := slices.Clone(s.b[start:s.i])
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return v, nil
		case c == '\\':
			e, n := canonicalEscape(s.b[s.i:])
			if n == 0 {
				return nil, fault("an escape that canonical JSON does not have")
			}
			v = append(v, e)
			s.i += n
		case c < 0x20:
			return nil, fault("control character in a string")
		case c < utf8.RuneSelf:
			v = append(v, c)
			s.i++
		default:
			at := s.i
			if !s.rune() {
				return nil, fault("invalid UTF-8")
			}
			v = append(v, s.b[at:s.i]...)
		}
	}
	return nil, fault("string without end")
}

// canonicalEscape reads the escape at the start of b: RFC 8785, section
// 3.2.2.2, has seven short ones and \u00xx in lower case for the other
// control characters. It returns 0 bytes read for any other.
func canonicalEscape(b []byte) (byte, int) {
	if len(b) < 2 {
		return 0, 0
	}
	if i := bytes.IndexByte([]byte(`"\bfnrt`), b[1]); i >= 0 {
		return "\"\\\b\f\n\r\t"[i], 2
	}
	if len(b) < 6 || string(b[1:4]) != "u00" {
		return 0, 0
	}
	c, err := strconv.ParseUint(string(b[4:6]), 16, 8)
	if err != nil || c >= 0x20 || !bytes.Equal(appendEscape(nil, byte(c)), b[:6]) {
		return 0, 0
	}
	return byte(c), 6
}

// number consumes a number in the spelling of ECMAScript.
func (s *scanner) number() error {
	start := s.i
	for s.i < len(s.b) && isNumberByte(s.b[s.i]) {
		s.i++
	}
	text := s.b[start:s.i]
	if n := len(text); n <= 15 && (text[0] != '0' || n == 1) && allDigits(text) {
		return nil
	}
	canonical, err := canonicalNumber(text)
	if err != nil {
		return err
	}
	if !bytes.Equal(canonical, text) {
		return fault("a number that canonical JSON spells " + string(canonical))
	}
	return nil
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// canonicalNumber spells the number text as RFC 8785 does and refuses text
// whose value that spelling would not keep.
func canonicalNumber(text []byte) ([]byte, error) {
	if !jsontext.Value(text).IsValid() {
		return nil, fault("not a number of JSON")
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil, fault("a number beyond what a double holds; send it as a string")
	}
	v := jsontext.AppendFloat(nil, f, 64)
	if !sameValue(text, v) {
		return nil, fault("a number that a double does not hold exactly; send it as a string")
	}
	if bytes.HasPrefix(text, []byte("-")) && f == 0 {
		return nil, fault("a negative zero")
	}
	return v, nil
}

// integer consumes an integer from 0 to MaxInt.
func (s *scanner) integer() (uint64, error) {
	start, n := s.i, uint64(0)
	for s.i < len(s.b) && isDigit(s.b[s.i]) && n <= MaxInt {
		n = 10*n + uint64(s.b[s.i]-'0')
		s.i++
	}
	digits := s.i - start
	if digits == 0 || digits > 1 && s.b[start] == '0' || n > MaxInt || isNumberByte(s.peek()) {
		return 0, fault("not an integer from 0 to 2^53-1")
	}
	return n, nil
}

// compareUTF16 orders two names as RFC 8785, section 3.2.3, does: by their
// UTF-16 code units, which differs from the order of their bytes only where a
// character above U+FFFF meets one from U+E000 up.
func compareUTF16(a, b []byte) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	if a[i] < utf8.RuneSelf && b[i] < utf8.RuneSelf {
		return int(a[i]) - int(b[i])
	}
	for i > 0 && !utf8.RuneStart(a[i]) {
		i--
	}
	ra, _ := utf8.DecodeRune(a[i:])
	rb, _ := utf8.DecodeRune(b[i:])
	if (ra >= 0x10000) != (rb >= 0x10000) {
		return firstUnit(ra) - firstUnit(rb)
	}
	return int(ra - rb)
}

// firstUnit is the first UTF-16 code unit of r.
func firstUnit(r rune) int {
	if r >= 0x10000 {
		return 0xD800 + int(r-0x10000)>>10
	}
	return int(r)
}
