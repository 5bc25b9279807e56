package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docket-audit/docket/internal/client"
	"golang.org/x/term"
)

// The rules for what is printed:
//
//   - Results go to standard output; errors, notes and progress to standard
//     error. A command that succeeds with nothing to tell prints nothing there.
//   - An error says what, where, and what to do: "docket: what: where", and a
//     second line "hint: …" where there is one. With --json it is one object,
//     {"error":{"code","message","hint"}}, on standard error.
//   - Text that comes from a ledger, a file or the service is escaped before it
//     is printed for people: escape sequences, line breaks and characters that
//     turn the writing direction are shown, not sent.
//   - Times are what the writer's clock read, and the heading says so.
//   - --quiet leaves out notes and progress, never a result or an error.

// Exit codes beside those of verify's verdicts.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Error codes of the command line's own. With those of the API they are all
// that --json prints.
const (
	codeUsage       = "usage"
	codeFailed      = "failed"
	codeNoService   = "no-service"
	codeBroken      = "connection-broken"
	codeExists      = "exists"
	codeInterrupted = "interrupted"
)

// usageCodes are the API's codes that say that the words were wrong.
var usageCodes = map[string]bool{"bad-request": true, "bad-draft": true, "reserved-type": true}

// exitError is an error that knows its exit code, its code and a hint.
type exitError struct {
	exit       int
	code, hint string
	err        error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usage says that the words were wrong.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, codeUsage, "see docket --help", fmt.Errorf(format, args...)}
}

// hinted says what to do about err.
func hinted(err error, hint string) error {
	return &exitError{exitFailed, codeFailed, hint, err}
}

// silent ends a command with an exit code and without a message: what there is
// to say was printed as its result.
func silent(exit int) error { return &exitError{exit: exit} }

// explain gives any error its exit code, code and hint.
func explain(ctx context.Context, err error) *exitError {
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, codeInterrupted, "", errors.New("interrupted")}
	}
	if x, ok := errors.AsType[*exitError](err); ok {
		return x
	}
	if api, ok := errors.AsType[*client.Error](err); ok {
		exit := exitFailed
		if usageCodes[api.Code] {
			exit = exitUsage
		}
		return &exitError{exit, api.Code, api.Hint, err}
	}
	switch {
	case errors.Is(err, client.ErrNoService):
		return &exitError{exitFailed, codeNoService, "start the service with docketd run, name its folder with --data, or read a ledger file with --db FILE", err}
	case errors.Is(err, client.ErrBroken):
		return &exitError{exitFailed, codeBroken, "look whether docketd still runs", err}
	case errors.Is(err, fs.ErrExist):
		return &exitError{exitFailed, codeExists, "choose another name, or move it away", err}
	}
	return &exitError{exitFailed, codeFailed, "", err}
}

// fail prints err and returns the exit code.
func (e *env) fail(ctx context.Context, err error) int {
	x := explain(ctx, err)
	switch {
	case x.err == nil:
	case e.json:
		var body struct {
			Error struct {
				Code    string `json:"code"`
				Message string `json:"message"`
				Hint    string `json:"hint"`
			} `json:"error"`
		}
		body.Error.Code, body.Error.Message, body.Error.Hint = x.code, x.err.Error(), x.hint
		_ = writeJSON(e.stderr, body) // there is nowhere left to say that this failed
	default:
		fmt.Fprintf(e.stderr, "docket: %s\n", clean(x.err.Error()))
		if x.hint != "" {
			fmt.Fprintf(e.stderr, "hint: %s\n", clean(x.hint))
		}
	}
	return x.exit
}

// note tells people something that is no result.
func (e *env) note(format string, args ...any) {
	if !e.quiet && !e.json {
		fmt.Fprintf(e.stderr, format+"\n", args...)
	}
}

// writeJSON prints one value and a newline, without the HTML escapes.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// terminal says whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// clean makes foreign text safe to print: only what is visible, and the plain
// space, stands as it is.
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf && r != '\n' && r != '\r' && r != '\t':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// clip keeps text to about n characters and marks where it was cut.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
