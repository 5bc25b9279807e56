package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/client"
	"github.com/docket-audit/docket/internal/durable"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
)

func newExportCommand(e *env) *cobra.Command {
	var out, db string
	cmd := &cobra.Command{
		Use:   "export [flags]",
		Short: "Write the whole ledger as JSON Lines that verify by themselves",
		Long: `Writes every event as one line of JSON and a trailer at the end: a file that
docket verify checks with no ledger near. A name that ends in .zst is compressed.

A file appears whole or not at all, and never replaces another.

EXIT STATUS
  0    done
  1    it failed, and no file was made; on standard output the trailer is missing
  2    the words were wrong
  130  interrupted

EXAMPLE
  docket export -o audit.jsonl.zst`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "out", "db"); err != nil {
				return err
			}
			return e.export(cmd.Context(), out, db)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&out, "out", "o", "-", "file to make; - is standard output")
	flags.StringVar(&db, "db", "", "read this ledger file, with no service")
	return cmd
}

func (e *env) export(ctx context.Context, out, db string) error {
	p := e.progress("events")
	defer p.end()
	x := &exporter{ctx: ctx, env: e, db: db, watch: trailerWatch{progress: p}}
	if out == "-" {
		return x.write(e.stdout)
	}
	if err := vacant(out); err != nil {
		return err
	}
	err := durable.WriteFile(out, 0o600, durable.Create, func(f *os.File) error {
		if strings.HasSuffix(out, ".zst") {
			return x.writeZstd(f)
		}
		return x.write(f)
	})
	if err != nil {
		return err
	}
	p.end()
	if e.json {
		return writeJSON(e.stdout, map[string]any{"file": out, "events": x.watch.lines - 1})
	}
	e.note("%d events to %s", x.watch.lines-1, clean(out))
	return nil
}

// vacant refuses a name that is taken, before any work is done for it.
func vacant(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return &exitError{exitFailed, codeExists, "choose another name, or move it away", fmt.Errorf("%s exists already and was left as it is", path)}
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return fmt.Errorf("look at %s: %w", path, err)
}

// exporter writes one export.
type exporter struct {
	ctx   context.Context
	env   *env
	db    string
	watch trailerWatch
}

func (x *exporter) writeZstd(w io.Writer) error {
	// The fastest setting is the right one here: the lines are mostly hashes.
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	if err := x.write(z); err != nil {
		z.Close()
		return err
	}
	return z.Close()
}

// write writes the lines and makes sure that the last one is the trailer.
func (x *exporter) write(w io.Writer) error {
	bw := bufio.NewWriterSize(io.MultiWriter(w, &x.watch), 256<<10)
	var err error
	if x.db != "" {
		err = x.fromFile(bw)
	} else {
		err = x.fromService(bw)
	}
	if ferr := bw.Flush(); err == nil {
		err = ferr
	}
	if err == nil && !x.watch.complete() {
		err = errors.New("the export ended without its trailer")
	}
	return err
}

func (x *exporter) fromService(w io.Writer) error {
	c, err := x.env.client()
	if err != nil {
		return err
	}
	defer c.Close()
	head, err := c.Head(x.ctx)
	if err != nil {
		return err
	}
	x.watch.total = head.Seq
	body, err := c.Events(x.ctx, client.EventsQuery{Trailer: true})
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

// fromFile makes the lines of a ledger file and their trailer. Content that is
// not there counts as erased where a later event says so, else as withheld, as
// a reader of the export will see it.
func (x *exporter) fromFile(w io.Writer) error {
	t := chain.Trailer{First: 1}
	var tree chain.Frontier
	absent := map[uint64]bool{}
	var line []byte
	for ev, err := range fileEvents(x.ctx, x.db, filter{}) {
		if err != nil {
			return err
		}
		t.Last, t.Head = ev.header.Seq, ev.Hash
		t.Events++
		tree.Add(ev.Hash)
		if ev.Content == nil {
			absent[ev.header.Seq] = true
		}
		if ev.header.Erased != nil {
			for _, seq := range ev.header.Erased.Seqs {
				if absent[seq] {
					delete(absent, seq)
					t.Erased++
				}
			}
		}
		line = append(ev.AppendLine(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	if t.Events == 0 {
		return sourceError(x.db, errors.New("it holds no event"))
	}
	t.Withheld = uint64(len(absent))
	root := tree.Root()
	t.Root = &root
	_, err := w.Write(append(t.AppendLine(line[:0]), '\n'))
	return err
}

// trailerWatch counts lines as they pass and knows whether the last is a
// trailer.
type trailerWatch struct {
	lines, total uint64
	progress     *progress
	start        []byte // the beginning of the line in hand
	last         bool   // the last whole line is a trailer
}

var trailerStart = []byte(`{"trailer":`)

func (t *trailerWatch) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		line := p
		if i >= 0 {
			line = p[:i]
		}
		if room := len(trailerStart) - len(t.start); room > 0 {
			t.start = append(t.start, line[:min(room, len(line))]...)
		}
		if i < 0 {
			break
		}
		t.lines++
		t.last = bytes.Equal(t.start, trailerStart)
		t.start = t.start[:0]
		p = p[i+1:]
	}
	t.progress.show(t.lines, t.total)
	return n, nil
}

func (t *trailerWatch) complete() bool { return t.last && len(t.start) == 0 }
