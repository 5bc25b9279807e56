package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/docket-audit/docket/chain"
)

// pointerEscaper spells a member's name in a JSON Pointer (RFC 6901).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func formFault(path, format string, args ...any) error {
	return &chain.FormError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// eachMember calls member for each member of the one JSON object in b, with
// the value's bytes as they stand. encoding/json by itself would keep the last
// of two equal names, fold the case of names and replace broken UTF-8, so the
// names are compared here and struct decoding is not used on objects.
// path is that of the object; member returns errors with full paths.
func eachMember(b []byte, path string, member func(name, path string, value json.RawMessage) error) error {
	if !utf8.Valid(b) {
		return formFault(path, "invalid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	open, err := d.Token()
	if err != nil {
		return syntaxFault(path, err)
	}
	if open != json.Delim('{') {
		return formFault(path, "not an object")
	}
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return syntaxFault(path, err)
		}
		name, _ := tok.(string) // between braces every other token is a name, or Token returns an error
		at := path + "/" + pointerEscaper.Replace(name)
		if seen[name] {
			return formFault(at, "member twice")
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return syntaxFault(at, err)
		}
		if err := member(name, at, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return syntaxFault(path, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return formFault(path, "bytes after the value")
	}
	return nil
}

func syntaxFault(path string, err error) error {
	switch {
	case err == io.EOF:
		return formFault(path, "empty, or JSON without end")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return formFault(path, "JSON without end")
	}
	return formFault(path, "not JSON: %v", err)
}

// text reads a JSON string. A lone surrogate, which encoding/json would
// replace, is refused.
func text(path string, value json.RawMessage) (string, error) {
	if _, err := chain.CanonicalContent(append(append([]byte(`{"":`), value...), '}')); err != nil {
		if f, ok := errors.AsType[*chain.FormError](err); ok {
			return "", formFault(path, "%s", f.Reason)
		}
		return "", err
	}
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", formFault(path, "not a string")
	}
	return s, nil
}

// bytesOf reads base64 in a JSON string of any length.
func bytesOf(path string, value json.RawMessage) ([]byte, error) {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return nil, formFault(path, "not a string")
	}
	b, err := chain.ParseBase64(s)
	if err != nil {
		return nil, formFault(path, "%v", err)
	}
	return b, nil
}

// integer reads a JSON number that is an integer from 0 to 2^53 − 1, without
// fraction and exponent.
func integer(path string, value json.RawMessage) (uint64, error) {
	n := uint64(0)
	for _, c := range value {
		if c < '0' || c > '9' || n > chain.MaxInt/10 {
			return 0, formFault(path, "not an integer from 0 to 2^53-1")
		}
		n = 10*n + uint64(c-'0')
	}
	if len(value) == 0 || n > chain.MaxInt {
		return 0, formFault(path, "not an integer from 0 to 2^53-1")
	}
	return n, nil
}
