package meter

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// errNotObject is what members gives for JSON that is no object.
var errNotObject = errors.New("not a JSON object")

// lenient is how bodies are read. They belong to others: a repeated member or
// a broken character somewhere in a prompt is no reason to lose the figures.
// Usage blocks themselves are held to more (block.go).
var lenient = []jsontext.Options{
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
}

// newDecoder reads raw, which may not change while the decoder is in use.
func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), lenient...)
}

// members walks the object that raw is, in order. visit gets each member's
// name and the bytes of its value, which alias raw. An object that is cut off
// gives io.ErrUnexpectedEOF after the members that were whole.
func members(raw []byte, visit func(name string, value jsontext.Value) error) error {
	d := newDecoder(raw)
	open, err := d.ReadToken()
	if err != nil {
		return err
	}
	if open.Kind() != '{' {
		return errNotObject
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return end(d)
}

// elements walks the array that raw is; what is no array has no elements.
func elements(raw []byte, visit func(value jsontext.Value)) {
	d := newDecoder(raw)
	if open, err := d.ReadToken(); err != nil || open.Kind() != '[' {
		return
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		visit(value)
	}
}

// end reads the closing brace and makes sure that nothing follows.
func end(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	return onlySpace(d)
}

// onlySpace makes sure that nothing follows the value that was read.
func onlySpace(d *jsontext.Decoder) error {
	switch _, err := d.ReadToken(); {
	case err == nil:
		return errors.New("more than one JSON value")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// text is the string that value is; anything else is "".
func text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	// Of a string with broken characters the rest still counts.
	b, _ := jsontext.AppendUnquote(nil, value)
	return string(b)
}

// textLen is the length of text(value) in UTF-8 bytes.
func textLen(value jsontext.Value) uint64 { return uint64(len(text(value))) }
