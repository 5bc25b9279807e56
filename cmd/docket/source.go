package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/client"
	"github.com/docket-audit/docket/verify"
)

// An event as a command reads it: its bytes, and its header taken apart.
type event struct {
	chain.Event
	header *chain.Header
}

// filter says which events are wanted. The zero value is all.
type filter struct {
	from, to uint64 // numbers, both included; 0: no bound
	typ, run string // "": any
}

func (f filter) check() error {
	if f.to != 0 && f.from > f.to {
		return usage("--from %d is behind --to %d", f.from, f.to)
	}
	if f.typ != "" && chain.CheckType(f.typ) != nil {
		return usage("--type %q is no event type", f.typ)
	}
	if f.run != "" && chain.CheckToken(f.run) != nil {
		return usage("--run %q is no run id", f.run)
	}
	return nil
}

func (f filter) takes(h *chain.Header) bool {
	return h.Seq >= f.from && (f.typ == "" || h.Type == f.typ) && (f.run == "" || h.Run == f.run)
}

// events gives the events of the file db, or of the service where db is "". The
// last pair has an error where reading stopped before the end.
func (e *env) events(ctx context.Context, db string, f filter) iter.Seq2[event, error] {
	if db != "" {
		return fileEvents(ctx, db, f)
	}
	return func(yield func(event, error) bool) {
		c, err := e.client()
		if err != nil {
			yield(event{}, err)
			return
		}
		defer c.Close()
		body, err := c.Events(ctx, client.EventsQuery{From: f.from, To: f.to, Type: f.typ, Run: f.run})
		if err != nil {
			yield(event{}, err)
			return
		}
		defer body.Close()
		for line, err := range lines(body) {
			var ev event
			if err == nil {
				ev, err = parseLine(line)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// lines splits a stream, without the newlines. A line is valid until the next.
func lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		br := bufio.NewReaderSize(r, chain.MaxLine+2)
		for {
			line, err := br.ReadSlice('\n')
			switch {
			case err == io.EOF && len(line) == 0:
				return
			case err == io.EOF:
				yield(nil, errors.New("the last line has no end"))
				return
			case errors.Is(err, bufio.ErrBufferFull):
				yield(nil, fmt.Errorf("a line is longer than %d bytes", chain.MaxLine))
				return
			case err != nil:
				yield(nil, err)
				return
			}
			if !yield(line[:len(line)-1], nil) {
				return
			}
		}
	}
}

func parseLine(line []byte) (event, error) {
	l, err := chain.ParseLine(bytes.Clone(line))
	if err != nil {
		return event{}, fmt.Errorf("the service sent a line that is no event: %w", err)
	}
	if l.Event == nil {
		return event{}, errors.New("the service sent a line that is no event")
	}
	return parseEvent(*l.Event)
}

func parseEvent(ev chain.Event) (event, error) {
	h, err := chain.ParseHeader(ev.Header)
	if err != nil {
		return event{}, fmt.Errorf("a header can't be read: %w", err)
	}
	return event{ev, h}, nil
}

// fileEvents reads a ledger file by verify's own page reader. It judges no
// hash, but what can't be read, is not there or may be out of date ends the
// reading with an error: what is shown of a damaged file must not pass for all
// of it.
func fileEvents(ctx context.Context, db string, f filter) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		s, err := verify.OpenSource(db)
		if err != nil {
			yield(event{}, sourceError(db, err))
			return
		}
		defer s.Close()
		next := max(f.from, 1)
		for ev, err := range s.Events(next) {
			var out event
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				out, err = parseEvent(ev)
			}
			if err == nil && out.header.Seq != next {
				err = fmt.Errorf("event %d stands where event %d belongs", out.header.Seq, next)
			}
			if err != nil {
				yield(event{}, sourceError(db, err))
				return
			}
			if f.to != 0 && next > f.to {
				break
			}
			next++
			if f.takes(out.header) && !yield(out, nil) {
				return
			}
		}
		if err := whole(s, f, next-1); err != nil {
			yield(event{}, sourceError(db, err))
		}
	}
}

// whole says what shows that a file read up to event last holds less than its
// writer put there.
func whole(s *verify.Source, f filter, last uint64) error {
	if damage := s.Damage(); len(damage) > 0 {
		return fmt.Errorf("its pages don't fit together: %w", damage[0])
	}
	if rolled := s.Rolled(); rolled != "" {
		return errors.New(rolled)
	}
	head, _, ok := s.Head()
	if !ok {
		return errors.New("it doesn't say what its last event is")
	}
	if f.to != 0 {
		head = min(head, f.to)
	}
	if last < head && f.from <= head {
		return fmt.Errorf("it ends at event %d, and event %d belongs to it", last, head)
	}
	return nil
}

func sourceError(db string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", db, err)
	}
	return hinted(fmt.Errorf("read %s: %w", db, err), "docket verify says what is wrong with the file; of a ledger in use make a copy with docket snapshot")
}
