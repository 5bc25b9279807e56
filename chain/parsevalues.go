package chain

import (
	"bytes"
	"strconv"
)

// The readers of single values. Each takes the scanner at the value's first
// byte and leaves it behind the last.

func (s *scanner) positive() (uint64, error) {
	n, err := s.integer()
	if err == nil && n == 0 {
		return 0, fault("0, and it begins at 1")
	}
	return n, err
}

func (s *scanner) text() (string, error) {
	v, err := s.str()
	if err == nil && len(v) == 0 {
		return "", fault("empty")
	}
	return string(v), err
}

// checked reads a string and judges it by ok.
func (s *scanner) checked(ok func([]byte) error) (string, error) {
	v, err := s.str()
	if err != nil {
		return "", err
	}
	return string(v), ok(v)
}

func (s *scanner) token() (string, error) { return s.checked(validToken) }
func (s *scanner) name() (string, error)  { return s.checked(validName) }

// eventType takes the spelling of a type that the format names from its table,
// so that reading a million events does not make a million copies of it.
func (s *scanner) eventType() (string, error) {
	v, err := s.str()
	if err != nil {
		return "", err
	}
	if t, ok := closedTypes[string(v)]; ok {
		return t, nil
	}
	return string(v), validType(v)
}

func (s *scanner) hash() (h Hash, err error) {
	err = s.hex(h[:])
	return h, err
}

func (s *scanner) salt() (v Salt, err error) {
	err = s.hex(v[:])
	return v, err
}

// hex fills dst from a string of exactly that many lower-case hex digits.
func (s *scanner) hex(dst []byte) error {
	at := s.i
	if v, ok := s.fixed(2 * len(dst)); ok && parseHex(dst, v) == nil {
		return nil
	}
	s.i = at
	v, err := s.str()
	if err != nil {
		return err
	}
	return parseHex(dst, v)
}

func (s *scanner) decimal(parse func(string) (Decimal, error)) (Decimal, error) {
	v, err := s.str()
	if err != nil {
		return Decimal{}, err
	}
	return parse(string(v))
}

func (s *scanner) timestamp() (string, error) {
	v, err := s.str()
	if err != nil {
		return "", err
	}
	return string(v), validTime(v)
}

// validTime judges ts: the moment has to exist, and no leap second does.
func validTime(v []byte) error {
	const shape = "0000-00-00T00:00:00.000000000Z"
	if len(v) != len(shape) {
		return fault("not spelled YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ")
	}
	for i := range shape {
		if shape[i] == '0' && !isDigit(v[i]) || shape[i] != '0' && v[i] != shape[i] {
			return fault("not spelled YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ")
		}
	}
	num := func(i, n int) (x int) {
		for _, c := range v[i : i+n] {
			x = 10*x + int(c-'0')
		}
		return x
	}
	year, month, day := num(0, 4), num(5, 2), num(8, 2)
	if year < 1970 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		num(11, 2) > 23 || num(14, 2) > 59 || num(17, 2) > 59 {
		return fault("not a moment from 1970 to 9999 that exists")
	}
	return nil
}

func daysIn(year, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// closed reads a closed object: member is called at each member's value, and
// every name of required has to have come.
func (s *scanner) closed(member func(name []byte) (known bool, err error), required ...string) error {
	if err := s.open(); err != nil {
		return err
	}
	var m members
	found := 0
	for {
		name, ok, err := s.next(&m)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		known, err := member(name)
		if err != nil {
			return under(string(name), err)
		}
		if !known {
			return faultAt(string(name), "unknown member")
		}
		// Both lists are in canonical order.
		if found < len(required) && required[found] == string(name) {
			found++
		}
	}
	if found < len(required) {
		return faultAt(required[found], missing)
	}
	return nil
}

func (s *scanner) actor() (*Actor, error) {
	var a Actor
	return &a, s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "context":
			a.Context, err = s.name()
		case "fence":
			a.Fence, err = s.positive()
		case "pass":
			a.Pass, err = s.name()
		case "role":
			a.Role, err = s.name()
		default:
			return false, nil
		}
		return true, err
	}, "context", "pass", "role")
}

func (s *scanner) peer() (*Peer, error) {
	var p Peer
	return &p, s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "gid":
			p.GID, err = s.integer()
		case "pid":
			p.PID, err = s.integer()
		case "uid":
			p.UID, err = s.integer()
		default:
			return false, nil
		}
		return true, err
	}, "gid", "pid", "uid")
}

func (s *scanner) runTotals() (*RunTotals, error) {
	var t RunTotals
	return &t, s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "calls":
			t.Calls, err = s.integer()
		case "cost_usd":
			t.Cost, err = s.decimal(ParseAmount)
		case "failed":
			t.Failed, err = s.integer()
		case "unpriced":
			t.Unpriced, err = s.integer()
		default:
			return false, nil
		}
		return true, err
	}, "calls", "cost_usd", "failed", "unpriced")
}

func (s *scanner) meter() (*Meter, error) {
	m := &Meter{Usage: map[string]uint64{}, Prices: map[string]Decimal{}}
	err := s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "cost_usd":
			var c Decimal
			c, err = s.decimal(ParseAmount)
			m.Cost = &c
		case "model":
			m.Model, err = s.token()
		case "prices":
			err = s.classes(func(class string) (err error) {
				m.Prices[class], err = s.decimal(ParsePrice)
				return err
			})
		case "provider":
			m.Provider, err = s.token()
		case "source":
			m.Source, err = s.text()
		case "usage":
			err = s.classes(func(class string) (err error) {
				m.Usage[class], err = s.integer()
				return err
			})
		default:
			return false, nil
		}
		return true, err
	}, "model", "prices", "provider", "source", "usage")
	if err != nil {
		return nil, err
	}
	switch m.Source {
	case SourceReported, SourceEstimated:
	case SourceNone:
		if len(m.Usage)+len(m.Prices) != 0 {
			return nil, faultAt("source", "none has neither usage nor prices")
		}
	default:
		return nil, faultAt("source", "not reported, estimated or none")
	}
	return m, nil
}

// classes reads an object whose names are usage classes.
func (s *scanner) classes(value func(class string) error) error {
	n := 0
	return s.closed(func(name []byte) (bool, error) {
		if n++; n > MaxClasses {
			return true, fault("more than " + strconv.Itoa(MaxClasses) + " classes")
		}
		if err := validClass(name); err != nil {
			return true, err
		}
		return true, value(string(name))
	})
}

func (s *scanner) cap() (*Cap, error) {
	var c Cap
	err := s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "context":
			c.Context, err = s.name()
		case "limit_usd":
			var d Decimal
			d, err = s.decimal(ParsePrice)
			c.Limit = &d
		case "period":
			c.Period, err = s.text()
		case "role":
			c.Role, err = s.name()
		case "run":
			c.Run, err = s.token()
		case "scope":
			c.Scope, err = s.text()
		case "spent_usd":
			var d Decimal
			d, err = s.decimal(ParseAmount)
			c.Spent = &d
		default:
			return false, nil
		}
		return true, err
	}, "scope")
	if err != nil {
		return nil, err
	}
	switch c.Scope {
	case ScopeLedger, ScopeDay, ScopeMonth, ScopeRun, ScopeRole, ScopeContext:
		return &c, nil
	}
	return nil, faultAt("scope", "not ledger, day, month, run, role or context")
}

func (s *scanner) parts() (map[string]Part, error) {
	parts := map[string]Part{}
	err := s.closed(func(name []byte) (bool, error) {
		if err := validToken(name); err != nil {
			return true, err
		}
		p, err := s.part()
		parts[string(name)] = p
		return true, err
	})
	if err == nil && len(parts) == 0 {
		return nil, fault("empty")
	}
	return parts, err
}

func (s *scanner) part() (p Part, err error) {
	err = s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "bytes":
			p.Bytes, err = s.integer()
		case "commit":
			p.Commit, err = s.hash()
		case "media":
			p.Media, err = s.token()
		default:
			return false, nil
		}
		return true, err
	}, "bytes", "commit", "media")
	return p, err
}

func (s *scanner) erased() (*Erased, error) {
	e := Erased{Parts: []Hash{}, Seqs: []uint64{}}
	return &e, s.closed(func(name []byte) (bool, error) {
		switch string(name) {
		case "parts":
			return true, s.list(func() error {
				h, err := s.hash()
				e.Parts = append(e.Parts, h)
				return err
			})
		case "seqs":
			return true, s.list(func() error {
				n, err := s.integer()
				e.Seqs = append(e.Seqs, n)
				return err
			})
		}
		return false, nil
	}, "parts", "seqs")
}

// keys reads a list of at least the given number of public keys.
func (s *scanner) keys(least int) ([]Key, error) {
	keys := []Key{}
	err := s.list(func() error {
		v, err := s.str()
		if err != nil {
			return err
		}
		k, err := ParseKey(string(v))
		if err != nil {
			return err
		}
		for _, other := range keys {
			if bytes.Equal(other[:], k[:]) {
				return fault("a key twice")
			}
		}
		keys = append(keys, k)
		return nil
	})
	if err == nil && (len(keys) < least || len(keys) > MaxKeys) {
		err = fault("not " + strconv.Itoa(least) + " to " + strconv.Itoa(MaxKeys) + " keys")
	}
	return keys, err
}

// list reads an array, calling item at each element.
func (s *scanner) list(item func() error) error {
	if !s.byte('[') {
		return fault("not an array")
	}
	if s.byte(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := item(); err != nil {
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
