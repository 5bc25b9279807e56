package meter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// errTwice stops an edit where a member that matters stands twice: which of
// them the provider would take is not docket's to decide.
var errTwice = errors.New("member stands twice")

// span is a value's place in the bytes that it was read from.
type span struct {
	start, end int
	kind       jsontext.Kind
}

// AddIncludeUsage gives the body of a chat completion with
// "stream_options":{"include_usage":true} in it, so that the answer's stream
// tells its usage. Every other byte stays as it was, and body itself is not
// changed. ok is false, and the body is to go out as it came, where it is no
// stream request, asks for usage already, or is not plainly readable: broken
// JSON, or one of the members concerned twice or of another type.
func AddIncludeUsage(body []byte) (edited []byte, ok bool) {
	top, brace, err := places(body, 0, "stream", "stream_options")
	if err != nil || top["stream"].kind != 't' {
		return nil, false
	}
	options, there := top["stream_options"]
	switch {
	case !there:
		return splice(body, brace, brace, `,"stream_options":{"include_usage":true}`), true
	case options.kind == 'n':
		return splice(body, options.start, options.end, `{"include_usage":true}`), true
	case options.kind != '{':
		return nil, false
	}
	inner, brace, err := places(body[options.start:options.end], options.start, "include_usage")
	if err != nil {
		return nil, false
	}
	asked, there := inner["include_usage"]
	switch {
	case !there:
		comma := ","
		if isEmpty(body[options.start:options.end]) {
			comma = ""
		}
		return splice(body, brace, brace, comma+`"include_usage":true`), true
	case asked.kind == 'f' || asked.kind == 'n':
		return splice(body, asked.start, asked.end, `true`), true
	}
	return nil, false
}

// places finds the values of the named members of the object that raw is, and
// its closing brace; all offsets are from base before raw.
func places(raw []byte, base int, names ...string) (at map[string]span, brace int, err error) {
	at = map[string]span{}
	d := newDecoder(raw)
	if open, err := d.ReadToken(); err != nil {
		return nil, 0, err
	} else if open.Kind() != '{' {
		return nil, 0, errNotObject
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, 0, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(names, name) {
			continue
		}
		if _, twice := at[name]; twice {
			return nil, 0, fmt.Errorf("%s: %w", name, errTwice)
		}
		end := base + int(d.InputOffset())
		at[name] = span{start: end - len(value), end: end, kind: value.Kind()}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, 0, err
	}
	brace = base + int(d.InputOffset()) - 1
	return at, brace, onlySpace(d)
}

func isEmpty(object []byte) bool {
	d := newDecoder(object)
	_, err := d.ReadToken()
	return err == nil && d.PeekKind() == '}'
}

// splice is body with the bytes from start to end replaced.
func splice(body []byte, start, end int, with string) []byte {
	return slices.Concat(body[:start], []byte(with), body[end:])
}
