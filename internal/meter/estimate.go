package meter

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNoEstimate is wrapped where a request's tokens do not show in its text,
// so that an estimate would be a wrong figure rather than a rough one.
var ErrNoEstimate = errors.New("no estimate possible")

// prompts are the request members whose strings the model reads.
var prompts = map[string]bool{
	"messages": true, "input": true, "prompt": true, "system": true, "instructions": true,
	"contents": true, "systemInstruction": true, "tools": true,
}

// stored are members that bring in text which is not in the request.
var stored = map[string]bool{"previous_response_id": true, "conversation": true, "cachedContent": true}

// media are members, at any depth below prompts but tools, whose tokens do not
// show in their text.
var media = map[string]bool{
	"data": true, "source": true, "image_url": true, "input_audio": true,
	"file_data": true, "file_id": true,
	"inlineData": true, "inline_data": true, "fileData": true,
}

// Estimate counts a request's input tokens from its text: the UTF-8 bytes of
// all string values below the members that the model reads, over 3, rounded
// up. Member names do not count, and no cache is assumed. The error wraps
// ErrNoEstimate and says what in the request stands against it.
func Estimate(body []byte) (tokens uint64, err error) {
	var n uint64
	err = members(body, func(name string, value jsontext.Value) error {
		switch {
		case value.Kind() == 'n':
		case stored[name], name == "prompt" && value.Kind() == '{':
			return fmt.Errorf("%w: %s refers to text outside the request", ErrNoEstimate, name)
		case prompts[name]:
			size, err := promptText(value, name != "tools")
			n += size
			return err
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrNoEstimate):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w: read request: %w", ErrNoEstimate, err)
	}
	return tokensOf(n), nil
}

// tokensOf is the estimate for n bytes of text.
func tokensOf(n uint64) uint64 { return (n + bytesPerToken - 1) / bytesPerToken }

// promptText counts the string values of value, at any depth.
func promptText(value jsontext.Value, mediaCounts bool) (n uint64, err error) {
	err = walk(value, func(name string, next jsontext.Kind) error {
		if mediaCounts && media[name] && next != 'n' {
			return fmt.Errorf("%w: %s stands for tokens that are not text", ErrNoEstimate, name)
		}
		return nil
	}, func(_, s string) { n += uint64(len(s)) })
	return n, err
}

// asksForHour says whether a request asks for a cache life of one hour.
func asksForHour(body []byte) bool {
	found := false
	// A request that can't be read asks for nothing that could be known.
	_ = walk(body, func(string, jsontext.Kind) error { return nil }, func(name, s string) {
		found = found || name == "ttl" && s == "1h"
	})
	return found
}

// walk visits raw, one JSON value, token by token: member with each member's
// name and the kind of the value that follows, str with each string value and
// the name of the member that it is the value of, "" in an array.
func walk(raw []byte, member func(name string, next jsontext.Kind) error, str func(name, s string)) error {
	d := newDecoder(raw)
	name := ""
	for first := true; first || d.StackDepth() > 0; first = false {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() != '"' {
			name = ""
			continue
		}
		// Names and values alternate in an object: after a name the
		// number of its tokens is odd.
		if in, read := d.StackIndex(d.StackDepth()); in == '{' && read%2 == 1 {
			name = token.String()
			if err := member(name, d.PeekKind()); err != nil {
				return err
			}
			continue
		}
		str(name, token.String())
		name = ""
	}
	return nil
}
