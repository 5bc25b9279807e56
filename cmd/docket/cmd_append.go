package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/client"
	"github.com/spf13/cobra"
)

// appendOptions are the words of docket append.
type appendOptions struct {
	typ, run, key, content string
	parts                  []string
}

func newAppendCommand(e *env) *cobra.Command {
	var o appendOptions
	cmd := &cobra.Command{
		Use:   "append --type TYPE [flags]",
		Short: "Record one event",
		Long: `Records one event and prints its number and hash when it is on the disk.

--content is one JSON object, @FILE to read it from a file, or - to read it from
standard input. Each --part NAME=FILE commits to a file's bytes under NAME; the
bytes themselves are not kept. A --key makes a repeat safe: the same draft again
gives the first answer again, another draft under the key is refused.

EXIT STATUS
  0    recorded
  1    it failed; the message says whether the event may be there all the same
  2    the words were wrong; nothing was recorded
  130  interrupted

EXAMPLE
  docket append --type tool.call --run r1 --content '{"name":"search"}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "type", "run", "key", "content"); err != nil {
				return err
			}
			return e.append(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.typ, "type", "", "event type, as in tool.call")
	flags.StringVar(&o.run, "run", "", "run that the event belongs to; opened where it is new")
	flags.StringVar(&o.key, "key", "", "idempotency key")
	flags.StringVar(&o.content, "content", "{}", "JSON object, @FILE, or - for standard input")
	flags.StringArrayVar(&o.parts, "part", nil, "NAME=FILE, a body to commit to; may be repeated")
	return cmd
}

// notEmpty refuses flags that were given without a value, as by an empty
// variable of a script: they would pass for flags left out.
func notEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usage("--%s is empty; leave it out, or give it a value", name)
		}
	}
	return nil
}

// maxContentInput bounds what is read as content: 1 MiB in canonical form may
// be more in another spelling.
const maxContentInput = 8 << 20

func (e *env) append(ctx context.Context, o appendOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	content, err := e.readContent(o.content)
	if err != nil {
		return err
	}
	if _, err := chain.CanonicalContent(content); err != nil {
		return usage("the content is refused: %w", at(err))
	}
	bodies, closeAll, err := openParts(o.parts)
	if err != nil {
		return err
	}
	defer closeAll()
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := c.Append(ctx, client.Draft{Type: o.typ, Content: content, Run: o.run, Key: o.key}, bodies...)
	if err != nil {
		return unknownOutcome(err, o.key)
	}
	if e.json {
		return writeJSON(e.stdout, struct {
			client.Receipt
			Replayed bool `json:"replayed"`
		}{got, got.Replayed})
	}
	_, err = fmt.Fprintf(e.stdout, "%d %s\n", got.Seq, clean(got.Hash))
	if got.Replayed {
		e.note("the key was recorded before; this is the first answer")
	}
	return err
}

// check judges what needs no service.
func (o appendOptions) check() error {
	if o.typ == "" {
		return usage("--type is missing")
	}
	for _, m := range []struct {
		flag, value string
		check       func(string) error
	}{{"type", o.typ, chain.CheckType}, {"run", o.run, chain.CheckToken}, {"key", o.key, chain.CheckToken}} {
		if m.value == "" {
			continue
		}
		if err := m.check(m.value); err != nil {
			return usage("--%s %q: %w", m.flag, m.value, err)
		}
	}
	return nil
}

// at says at which member an error of form stands.
func at(err error) error {
	if f, ok := errors.AsType[*chain.FormError](err); ok && f.Path != "" {
		return fmt.Errorf("member %s: %s", f.Path, f.Reason)
	}
	return err
}

// unknownOutcome adds what can be done where the event may have been kept.
func unknownOutcome(err error, key string) error {
	hint := "the event may have been recorded: look with docket log before you repeat it, and use --key to make repeats safe"
	if key != "" {
		hint = "the event may have been recorded: repeat the same command, the key makes that safe"
	}
	if errors.Is(err, client.ErrBroken) {
		return &exitError{exitFailed, codeBroken, hint, err}
	}
	if api, ok := errors.AsType[*client.Error](err); ok && api.Code == "outcome-unknown" {
		return &exitError{exitFailed, api.Code, hint, err}
	}
	return err
}

func (e *env) readContent(word string) ([]byte, error) {
	r := e.stdin
	switch {
	case strings.HasPrefix(word, "@"):
		f, err := os.Open(word[1:])
		if err != nil {
			return nil, fmt.Errorf("read content: %w", err)
		}
		defer f.Close()
		r = f
	case word != "-":
		return []byte(word), nil
	}
	b, err := io.ReadAll(io.LimitReader(r, maxContentInput+1))
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	if len(b) > maxContentInput {
		return nil, usage("the content is larger than %d bytes; commit to large data with --part", maxContentInput)
	}
	return b, nil
}

// partMedia is said of every part: what is in a file is not guessed.
const partMedia = "application/octet-stream"

// openParts opens every file before anything is sent.
func openParts(words []string) (bodies []client.Body, closeAll func(), err error) {
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			f.Close()
		}
	}
	seen := map[string]bool{}
	for _, word := range words {
		name, path, ok := strings.Cut(word, "=")
		switch {
		case !ok || path == "":
			err = usage("--part %q is not NAME=FILE", word)
		case chain.CheckToken(name) != nil:
			err = usage("--part %q: the name is not 1 to 128 visible ASCII characters", word)
		case seen[name]:
			err = usage("--part %s stands twice", name)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		seen[name] = true
		f, err := openRegular(path)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("read part %s: %w", name, err)
		}
		files = append(files, f)
		bodies = append(bodies, client.Body{Name: name, Media: partMedia, Data: f})
	}
	return bodies, closeAll, nil
}

func openRegular(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
