package chain

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// ParseHeader reads a header from its canonical bytes. It accepts exactly
// what docs/format.md, section 1 allows, so that Append gives b again; every
// refusal is a FormError that names the member.
func ParseHeader(b []byte) (*Header, error) {
	if len(b) > MaxHeader {
		return nil, fault("more than " + strconv.Itoa(MaxHeader) + " bytes")
	}
	s := scanner{b: b}
	h, err := s.header()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Check says whether h, as Append would write it, is a header that
// ParseHeader accepts.
func (h *Header) Check() error {
	if h.Run == "" && h.RunSeq != 0 {
		// Append would leave the number out.
		return faultAt("run", "missing beside run_seq")
	}
	_, err := ParseHeader(h.Append(nil))
	return err
}

func (s *scanner) header() (*Header, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	h := &Header{}
	var m members
	var have presence
	for {
		name, ok, err := s.next(&m)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if err := s.headerMember(h, name, &have); err != nil {
			return nil, under(string(name), err)
		}
	}
	return h, h.judge(have)
}

// presence says which of the members that have no absent value were seen.
type presence struct{ content, prev, seq, ts, typ, runSeq bool }

func (s *scanner) headerMember(h *Header, name []byte, have *presence) (err error) {
	switch string(name) {
	case "actor":
		h.Actor, err = s.actor()
	case "call":
		h.Call, err = s.positive()
	case "cap":
		h.Cap, err = s.cap()
	case "content":
		have.content = true
		h.Content, err = s.hash()
	case "erased":
		h.Erased, err = s.erased()
	case "key":
		h.Key, err = s.token()
	case "keys":
		h.Keys, err = s.keys(1)
	case "meter":
		h.Meter, err = s.meter()
	case "note":
		h.Note, err = s.text()
	case "parts":
		h.Parts, err = s.parts()
	case "peer":
		h.Peer, err = s.peer()
	case "prev":
		have.prev = true
		h.Prev, err = s.hash()
	case "run":
		h.Run, err = s.token()
	case "run_seq":
		have.runSeq = true
		h.RunSeq, err = s.positive()
	case "seq":
		have.seq = true
		h.Seq, err = s.positive()
	case "totals":
		h.Totals, err = s.runTotals()
	case "ts":
		have.ts = true
		h.TS, err = s.timestamp()
	case "type":
		have.typ = true
		h.Type, err = s.eventType()
	default:
		err = fault("unknown member")
	}
	return err
}

// judge applies the rules that bind several members of one header.
func (h *Header) judge(have presence) error {
	switch {
	case !have.content:
		return faultAt("content", missing)
	case !have.prev:
		return faultAt("prev", missing)
	case !have.seq:
		return faultAt("seq", missing)
	case !have.ts:
		return faultAt("ts", missing)
	case !have.typ:
		return faultAt("type", missing)
	case h.Run != "" && !have.runSeq:
		return faultAt("run_seq", "missing beside run")
	case h.Run == "" && have.runSeq:
		return faultAt("run", "missing beside run_seq")
	case (h.Type == TypeCreated) != (h.Seq == 1):
		return faultAt("type", TypeCreated+" is event 1 and no other")
	}
	if err := h.judgeBound(); err != nil {
		return err
	}
	if err := h.judgeActor(); err != nil {
		return err
	}
	if err := h.judgeCap(); err != nil {
		return under("cap", err)
	}
	return h.judgeErased()
}

// judgeBound judges the members that docs/format.md, section 1 ties to types,
// and the run that section 6 demands of model.* and run.*.
func (h *Header) judgeBound() error {
	t, p := h.Type, Prefix(h.Type)
	for _, m := range [...]struct {
		name      string
		has, want bool
	}{
		{"call", h.Call != 0, t == TypeResponse || t == TypeFailed},
		{"meter", h.Meter != nil, t == TypeResponse},
		{"totals", h.Totals != nil, t == TypeRunClosed},
		{"cap", h.Cap != nil, p == "cap."},
		{"note", h.Note != "", t == TypeCheckpoint || t == TypeKeyRotated},
		{"keys", h.Keys != nil, t == TypeKeyRotated},
		{"erased", h.Erased != nil, t == TypeErased},
		{"run", h.Run != "", h.Run != "" || p == "model." || p == "run."},
	} {
		switch {
		case m.has && !m.want:
			return faultAt(m.name, "has no place on "+t)
		case !m.has && m.want:
			return faultAt(m.name, "missing on "+t)
		}
	}
	return nil
}

func (h *Header) judgeActor() error {
	if Prefix(h.Type) != "lock." {
		return nil
	}
	switch {
	case h.Actor == nil:
		return faultAt("actor", "missing on "+h.Type)
	case h.Type == TypeLockRefused && h.Actor.Fence != 0:
		return under("actor", faultAt("fence", "has no place on "+h.Type))
	case h.Type != TypeLockRefused && h.Actor.Fence == 0:
		return under("actor", faultAt("fence", "missing on "+h.Type))
	}
	return nil
}

// judgeCap applies what a cap's scope and its event's type demand.
func (h *Header) judgeCap() error {
	c := h.Cap
	if c == nil {
		return nil
	}
	exceeded := h.Type == TypeCapExceeded
	periodic := c.Scope == ScopeDay || c.Scope == ScopeMonth
	for _, m := range []struct {
		name             string
		has, must, mayBe bool
	}{
		{"context", c.Context != "", c.Scope == ScopeContext, false},
		{"limit_usd", c.Limit != nil, exceeded, true},
		{"period", c.Period != "", exceeded && periodic, false},
		{"role", c.Role != "", c.Scope == ScopeRole || c.Scope == ScopeContext, false},
		{"run", c.Run != "", c.Scope == ScopeRun && exceeded, c.Scope == ScopeRun},
		{"spent_usd", c.Spent != nil, exceeded, false},
	} {
		switch {
		case m.must && !m.has:
			return faultAt(m.name, "missing in "+h.Type+" of scope "+c.Scope)
		case m.has && !m.must && !m.mayBe:
			return faultAt(m.name, "has no place in "+h.Type+" of scope "+c.Scope)
		}
	}
	layout := time.DateOnly
	if c.Scope == ScopeMonth {
		layout = "2006-01"
	}
	if c.Period != "" {
		if t, err := time.Parse(layout, c.Period); err != nil || t.Year() < 1970 {
			return faultAt("period", "not a "+c.Scope+" that exists")
		}
	}
	return nil
}

func (h *Header) judgeErased() error {
	if h.Erased == nil {
		return nil
	}
	e := h.Erased
	if len(e.Parts)+len(e.Seqs) == 0 {
		return faultAt("erased", "names nothing")
	}
	for i, n := range e.Seqs {
		if n < 2 || n >= h.Seq || i > 0 && n <= e.Seqs[i-1] {
			return under("erased", under("seqs", underIndex(i, fault("not rising from 2 to below the event's own number"))))
		}
	}
	for i := range e.Parts {
		if i > 0 && string(e.Parts[i][:]) <= string(e.Parts[i-1][:]) {
			return under("erased", under("parts", underIndex(i, fault("not rising"))))
		}
	}
	return nil
}

// validName is the form of role, context and pass: docs/format.md, section 1.
func validName(v []byte) error {
	switch {
	case len(v) == 0:
		return fault("empty")
	case len(v) > MaxName:
		return fault("more than " + strconv.Itoa(MaxName) + " bytes")
	}
	first, _ := utf8.DecodeRune(v)
	last, _ := utf8.DecodeLastRune(v)
	if isSpace(first) || isSpace(last) {
		return fault("begins or ends with a space")
	}
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		if isInvisible(r) {
			return fault("a control or format character")
		}
		i += n
	}
	return nil
}

// isSpace and isInvisible look ASCII up without the tables of unicode: names
// are in every header, and almost all are ASCII.
func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' '
	}
	return unicode.Is(unicode.Zs, r)
}

func isInvisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// CheckName says whether s can be a role, a context or a pass.
func CheckName(s string) error {
	if !utf8.ValidString(s) {
		return fault("invalid UTF-8")
	}
	return validName([]byte(s))
}

// CheckToken says whether s can be a run id, an idempotency key, a provider,
// a model, a media type or a part's name.
func CheckToken(s string) error { return validToken([]byte(s)) }

func validToken(v []byte) error {
	if len(v) == 0 || len(v) > MaxToken {
		return fault("not 1 to " + strconv.Itoa(MaxToken) + " characters")
	}
	for _, c := range v {
		if c < '!' || c > '~' {
			return fault("a character outside printable ASCII")
		}
	}
	return nil
}

// CheckClass says whether s can be a class of usage.
func CheckClass(s string) error { return validClass([]byte(s)) }

func validClass(v []byte) error {
	if len(v) == 0 || len(v) > MaxClass {
		return fault("not 1 to " + strconv.Itoa(MaxClass) + " characters")
	}
	for _, c := range v {
		if !(isLower(c) || isDigit(c) || c >= 'A' && c <= 'Z' || c == '_' || c == '.' || c == ':' || c == '-') {
			return fault("a character that no class has")
		}
	}
	return nil
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// CheckTime says whether s is spelled like a ts and names a moment that
// exists.
func CheckTime(s string) error { return validTime([]byte(s)) }

// CheckType says whether s is an event type: words of lower case, digits,
// underscore and hyphen, each beginning with a letter, at least two, joined by
// points; under a closed prefix only the types that the format names.
func CheckType(s string) error { return validType([]byte(s)) }

func validType(v []byte) error {
	if len(v) > MaxType {
		return fault("more than " + strconv.Itoa(MaxType) + " bytes")
	}
	words, start := 0, true
	for _, c := range v {
		switch {
		case start && isLower(c):
			start = false
			words++
		case !start && c == '.':
			start = true
		case !start && (isLower(c) || isDigit(c) || c == '_' || c == '-'):
		default:
			return fault("not a type such as tool.call")
		}
	}
	if start || words < 2 {
		return fault("not a type such as tool.call")
	}
	if _, ok := closedTypes[string(v)]; ok {
		return nil
	}
	for _, p := range closedPrefixes {
		if len(v) >= len(p) && string(v[:len(p)]) == p {
			return fault("no type of the closed prefix " + p)
		}
	}
	return nil
}
