package verify

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/docket-audit/docket/chain"
)

// The readers here look into lines that are already found malformed, only to
// say where they stand. They read any JSON-like text in linear time, without
// recursion, and never fail.

// looseNumber is the number that a malformed event line gives in its header,
// or 0 where it gives none or two.
func looseNumber(line []byte) uint64 {
	header, ok := looseMember(line, "header")
	if !ok {
		return 0
	}
	text, ok := looseMember(header, "seq")
	if !ok {
		return 0
	}
	return looseInteger(text)
}

func looseInteger(text []byte) uint64 {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > chain.MaxInt || strconv.FormatUint(n, 10) != s {
		return 0
	}
	return n
}

// looseMember finds the text of a member of the object that b begins with. It
// is not found where it stands twice with two values.
func looseMember(b []byte, name string) (value []byte, ok bool) {
	i := bytes.IndexByte(b, '{')
	if i < 0 {
		return nil, false
	}
	for i++; i < len(b); {
		start := bytes.IndexByte(b[i:], '"')
		if start < 0 {
			break
		}
		end := looseString(b, i+start)
		colon := end
		for colon < len(b) && (b[colon] == ' ' || b[colon] == '\t') {
			colon++
		}
		if colon >= len(b) || b[colon] != ':' {
			break
		}
		next, closed := looseValue(b, colon+1)
		if string(b[i+start:end]) == `"`+name+`"` {
			if v := b[colon+1 : next]; !ok {
				value, ok = v, true
			} else if !bytes.Equal(v, value) {
				return nil, false
			}
		}
		if closed {
			break
		}
		i = next + 1
	}
	return value, ok
}

// looseString returns the index behind the string that begins at i.
func looseString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// looseValue returns the index of the comma or brace that ends the value at
// i, and whether it is the brace of the object around it (or the text's end).
func looseValue(b []byte, i int) (end int, closed bool) {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = looseString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i, true
			}
			depth--
		case ',':
			if depth == 0 {
				return i, false
			}
		}
		i++
	}
	return len(b), true
}

// looseTrailer reads what a malformed trailer still says of its place.
func looseTrailer(line []byte) (first uint64, run string) {
	t, ok := looseMember(line, "trailer")
	if !ok {
		return 0, ""
	}
	if v, ok := looseMember(t, "first"); ok {
		first = looseInteger(v)
	}
	if v, ok := looseMember(t, "run"); ok && json.Unmarshal(v, &run) != nil {
		run = ""
	}
	return first, run
}

// otherVersion says whether format names another version of name, whose last
// part is the version known here: then nothing else can be judged.
func otherVersion(format, known string) bool {
	stem := known[:strings.LastIndexByte(known, '/')+1]
	version, ok := strings.CutPrefix(format, stem)
	n, err := strconv.ParseUint(version, 10, 64)
	return ok && format != known && err == nil && strconv.FormatUint(n, 10) == version
}

// format is the format that the content of event 1 states, "" where it states
// none.
func (it *item) format() string {
	if it.bytes != nil {
		return looseText(it.bytes, "format")
	}
	content, ok := looseMember(it.raw, "content")
	if !ok {
		return ""
	}
	return looseText(content, "format")
}

func looseText(object []byte, name string) (s string) {
	if v, ok := looseMember(object, name); ok && json.Unmarshal(v, &s) == nil {
		return s
	}
	return ""
}
