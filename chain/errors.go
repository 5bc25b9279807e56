package chain

import (
	"errors"
	"strconv"
	"strings"
)

// ErrForm is wrapped by every FormError.
var ErrForm = errors.New("wrong form")

// FormError says which member of a header, a content or an export line is
// not as docs/format.md demands, and why.
type FormError struct {
	// Path is the JSON Pointer (RFC 6901) of the member below the object
	// that was read; "" is the object itself.
	Path string
	// Reason is a short phrase for people.
	Reason string
}

func (e *FormError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Unwrap makes errors.Is(err, ErrForm) true.
func (e *FormError) Unwrap() error { return ErrForm }

const missing = "missing"

func fault(reason string) error { return &FormError{Reason: reason} }

func faultAt(name, reason string) error { return under(name, fault(reason)) }

// under puts name in front of the path of a FormError; other errors become
// FormErrors with their text as the reason.
func under(name string, err error) error {
	if err == nil {
		return nil
	}
	step := "/" + pointerEscaper.Replace(name)
	var f *FormError
	if errors.As(err, &f) {
		return &FormError{Path: step + f.Path, Reason: f.Reason}
	}
	return &FormError{Path: step, Reason: err.Error()}
}

func underIndex(i int, err error) error {
	if err == nil {
		return nil
	}
	return under(strconv.Itoa(i), err)
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
