package chain

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
)

// Event is one event with its halves as they are stored and exported: the
// canonical bytes, and what opens the commitments.
type Event struct {
	Hash   Hash   // the stated hash of the header
	Header []byte // canonical

	// Content is canonical; nil where it was withheld or erased, and then
	// Salt means nothing.
	Content []byte
	Salt    Salt

	// PartSalts holds the salts of parts, by part name, as far as they are
	// known.
	PartSalts map[string]Salt
}

// AppendLine appends the event's line of an export, without the newline:
// docs/format.md, section 7.
func (e *Event) AppendLine(dst []byte) []byte {
	dst = append(dst, '{')
	if e.Content != nil {
		dst = append(append(append(dst, `"content":`...), e.Content...), ',')
	}
	dst = appendHash(append(dst, `"hash":`...), e.Hash)
	dst = append(append(dst, `,"header":`...), e.Header...)
	if len(e.PartSalts) > 0 {
		dst = append(dst, `,"parts":{`...)
		for i, name := range slices.Sorted(maps.Keys(e.PartSalts)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, name)
			salt := e.PartSalts[name]
			dst = appendHex(append(dst, `:{"salt":"`...), salt[:])
			dst = append(dst, `"}`...)
		}
		dst = append(dst, '}')
	}
	if e.Content != nil {
		dst = appendHex(append(dst, `,"salt":"`...), e.Salt[:])
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// Body is one line of a body that an export carries.
type Body struct {
	At     uint64 // offset of Data in the body
	Commit Hash
	Data   []byte // at most MaxBodyChunk
}

// AppendLine appends the body's line, without the newline.
func (b *Body) AppendLine(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"body":{"at":`...), b.At, 10)
	dst = appendHash(append(dst, `,"commit":`...), b.Commit)
	dst = append(dst, `,"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b.Data)
	return append(dst, `"}}`...)
}

// Trailer is the last line of an export.
type Trailer struct {
	Bodies, Erased, Events, Withheld uint64
	First, Last                      uint64 // numbers of the first and last event
	Head                             Hash   // of the last event

	Peaks []TreeHash // exports from 2 on: of the tree of size First − 1
	Root  *TreeHash  // of the tree of size Last; nil in an export of one run
	Run   string     // the run of an export of one run
}

// AppendLine appends the trailer's line, without the newline.
func (t *Trailer) AppendLine(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"trailer":{"bodies":`...), t.Bodies, 10)
	dst = strconv.AppendUint(append(dst, `,"erased":`...), t.Erased, 10)
	dst = strconv.AppendUint(append(dst, `,"events":`...), t.Events, 10)
	dst = strconv.AppendUint(append(dst, `,"first":`...), t.First, 10)
	dst = appendHash(append(dst, `,"head":`...), t.Head)
	dst = strconv.AppendUint(append(dst, `,"last":`...), t.Last, 10)
	if t.Peaks != nil {
		dst = append(dst, `,"peaks":[`...)
		for i, p := range t.Peaks {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = base64.StdEncoding.AppendEncode(dst, p[:])
			dst = append(dst, '"')
		}
		dst = append(dst, ']')
	}
	if t.Root != nil {
		dst = appendHash(append(dst, `,"root":`...), Hash(*t.Root))
	}
	if t.Run != "" {
		dst = appendString(append(dst, `,"run":`...), t.Run)
	}
	dst = strconv.AppendUint(append(dst, `,"withheld":`...), t.Withheld, 10)
	return append(dst, `}}`...)
}

// Line is one line of an export: exactly one of its members is set.
type Line struct {
	Event   *Event
	Body    *Body
	Trailer *Trailer
}

// ParseLine reads a line of an export, without its newline, that has to be in
// the closed canonical form of docs/format.md, section 7. Of an event it
// judges the form of everything but the header, whose bytes are for
// ParseHeader, and of content only that it is a canonical object within
// MaxContent. The result shares memory with b.
func ParseLine(b []byte) (Line, error) {
	s := scanner{b: b}
	var l Line
	var err error
	switch {
	case len(b) > MaxLine:
		return Line{}, fault("a line of more than " + strconv.Itoa(MaxLine) + " bytes")
	case bytes.HasPrefix(b, []byte(`{"body":`)):
		l.Body, err = s.bodyLine()
	case bytes.HasPrefix(b, []byte(`{"trailer":`)):
		l.Trailer, err = s.trailerLine()
	default:
		l.Event, err = s.eventLine()
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return Line{}, err
	}
	return l, nil
}

func (s *scanner) eventLine() (*Event, error) {
	var e Event
	salted := false
	err := s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "content":
			e.Content, err = s.content()
		case "hash":
			e.Hash, err = s.hash()
		case "header":
			start := s.i
			err = s.value(1)
			e.Header = s.b[start:s.i]
		case "parts":
			e.PartSalts, err = s.partSalts()
		case "salt":
			salted = true
			e.Salt, err = s.salt()
		default:
			return false, nil
		}
		return true, err
	}, "hash", "header")
	if err == nil && salted != (e.Content != nil) {
		err = faultAt("salt", "content and salt stand together")
	}
	return &e, err
}

// content consumes content that has to be an object within the limits.
func (s *scanner) content() ([]byte, error) {
	start := s.i
	if s.peek() != '{' {
		return nil, fault("not an object")
	}
	if err := s.value(1); err != nil {
		return nil, err
	}
	if s.i-start > MaxContent {
		return nil, fault("more than " + strconv.Itoa(MaxContent) + " bytes")
	}
	return s.b[start:s.i], nil
}

func (s *scanner) partSalts() (map[string]Salt, error) {
	salts := map[string]Salt{}
	err := s.closed(func(part []byte) (bool, error) {
		if err := validToken(part); err != nil {
			return true, err
		}
		return true, s.closed(func(name []byte) (_ bool, err error) {
			if string(name) != "salt" {
				return false, nil
			}
			salts[string(part)], err = s.salt()
			return true, err
		}, "salt")
	})
	if err == nil && len(salts) == 0 {
		return nil, fault("empty")
	}
	return salts, err
}

func (s *scanner) bodyLine() (*Body, error) {
	var b Body
	return &b, s.closed(func(name []byte) (bool, error) {
		if string(name) != "body" {
			return false, nil
		}
		return true, s.closed(func(name []byte) (_ bool, err error) {
			switch string(name) {
			case "at":
				b.At, err = s.integer()
			case "commit":
				b.Commit, err = s.hash()
			case "data":
				b.Data, err = s.base64()
				if err == nil && len(b.Data) > MaxBodyChunk {
					err = fault("more than " + strconv.Itoa(MaxBodyChunk) + " bytes")
				}
			default:
				return false, nil
			}
			return true, err
		}, "at", "commit", "data")
	}, "body")
}

func (s *scanner) base64() ([]byte, error) {
	v, err := s.str()
	if err != nil {
		return nil, err
	}
	return ParseBase64(string(v))
}

func (s *scanner) trailerLine() (*Trailer, error) {
	var t Trailer
	return &t, s.closed(func(name []byte) (bool, error) {
		if string(name) != "trailer" {
			return false, nil
		}
		return true, s.trailer(&t)
	}, "trailer")
}

func (s *scanner) trailer(t *Trailer) error {
	err := s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "bodies":
			t.Bodies, err = s.integer()
		case "erased":
			t.Erased, err = s.integer()
		case "events":
			t.Events, err = s.integer()
		case "first":
			t.First, err = s.positive()
		case "head":
			t.Head, err = s.hash()
		case "last":
			t.Last, err = s.positive()
		case "peaks":
			t.Peaks, err = s.treeHashes()
		case "root":
			var h Hash
			h, err = s.hash()
			t.Root = (*TreeHash)(&h)
		case "run":
			t.Run, err = s.token()
		case "withheld":
			t.Withheld, err = s.integer()
		default:
			return false, nil
		}
		return true, err
	}, "bodies", "erased", "events", "first", "head", "last", "withheld")
	switch {
	case err != nil:
		return err
	case t.Run == "" && t.Root == nil:
		return faultAt("root", missing)
	case t.Run != "" && t.Root != nil:
		return faultAt("root", "has no place in an export of one run")
	case t.Run != "" && t.Peaks != nil:
		return faultAt("peaks", "has no place in an export of one run")
	case t.Run == "" && t.First > 1 && t.Peaks == nil:
		return faultAt("peaks", missing)
	case t.First == 1 && t.Peaks != nil:
		return faultAt("peaks", "has no place in an export from 1")
	}
	if t.Peaks != nil {
		if _, err := NewFrontier(t.First-1, t.Peaks); err != nil {
			return under("peaks", err)
		}
	}
	return nil
}

func (s *scanner) treeHashes() ([]TreeHash, error) {
	list := []TreeHash{}
	err := s.list(func() error {
		b, err := s.base64()
		if err != nil {
			return err
		}
		if len(b) != len(TreeHash{}) {
			return fault("not 32 bytes")
		}
		list = append(list, TreeHash(b))
		return nil
	})
	return list, err
}
