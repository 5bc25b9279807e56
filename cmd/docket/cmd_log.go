package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/spf13/cobra"
)

func newLogCommand(e *env) *cobra.Command {
	var f filter
	var db string
	cmd := &cobra.Command{
		Use:   "log [flags]",
		Short: "Show what happened, for people",
		Long: `Shows events in their order: number, the time that the writer's clock read, type,
run, actor, and the beginning of the content. With --json each event is one
export line, whole.

EXIT STATUS
  0    done
  1    it failed, or reading stopped before the end
  2    the words were wrong
  130  interrupted

EXAMPLE
  docket log --run r1
  docket log --db copy.db --type model.response`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "type", "run", "db"); err != nil {
				return err
			}
			if err := notZero(cmd, "from", "to"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return e.log(cmd.Context(), db, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.run, "run", "", "only events of this run")
	flags.StringVar(&f.typ, "type", "", "only events of this type")
	flags.Uint64Var(&f.from, "from", 0, "first number")
	flags.Uint64Var(&f.to, "to", 0, "last number")
	flags.StringVar(&db, "db", "", "read this ledger file, with no service")
	return cmd
}

// notZero refuses 0 as an event's number: it would pass for no bound.
func notZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
			return usage("--%s 0 is no event: numbers begin with 1", name)
		}
	}
	return nil
}

func (e *env) log(ctx context.Context, db string, f filter) (err error) {
	w := bufio.NewWriter(e.stdout)
	defer func() {
		if ferr := w.Flush(); err == nil {
			err = ferr
		}
	}()
	shown := 0
	for ev, err := range e.events(ctx, db, f) {
		if err != nil {
			return err
		}
		if e.json {
			_, err = w.Write(append(ev.AppendLine(w.AvailableBuffer()), '\n'))
		} else {
			err = logLine(w, ev, shown == 0)
		}
		if err != nil {
			return err
		}
		shown++
	}
	if shown == 0 {
		e.note("no events")
	}
	return nil
}

// logRow has columns of a fixed width, since events are shown as they come.
const logRow = "%6s  %-30s  %-18s  %-20s  %-24s  %s\n"

func logLine(w io.Writer, ev event, first bool) error {
	if first {
		if _, err := fmt.Fprintf(w, logRow, "SEQ", "CLOCK, AS READ", "TYPE", "RUN", "ACTOR", "CONTENT"); err != nil {
			return err
		}
	}
	h := ev.header
	run, actor := "-", "-"
	if h.Run != "" {
		run = clean(h.Run)
	}
	if a := h.Actor; a != nil {
		actor = clean(a.Role + "/" + a.Context + "/" + a.Pass)
	}
	_, err := fmt.Fprintf(w, logRow, fmt.Sprint(h.Seq), h.TS, clean(h.Type), run, actor, summary(ev))
	return err
}

// contentWidth is how much of an event's content a line shows.
const contentWidth = 100

// summary is what a line says about an event beside its header: of a call what
// it used and cost, of others their content.
func summary(ev event) string {
	h := ev.header
	content := "(content withheld or erased)"
	if ev.Content != nil {
		content = clip(clean(string(ev.Content)), contentWidth)
	}
	switch {
	case h.Meter != nil:
		return fmt.Sprintf("of %d: %s  %s", h.Call, costText(h.Meter), content)
	case h.Call != 0:
		return fmt.Sprintf("of %d: %s", h.Call, content)
	case h.Totals != nil:
		t := h.Totals
		return fmt.Sprintf("%d calls, %s USD, %d unpriced, %d failed  %s", t.Calls, t.Cost, t.Unpriced, t.Failed, content)
	}
	return content
}

func costText(m *chain.Meter) string {
	words := []string{clean(m.Provider + "/" + m.Model)}
	if m.Cost == nil {
		words = append(words, "unpriced")
	} else {
		words = append(words, m.Cost.String()+" USD")
	}
	if m.Source != chain.SourceReported {
		words = append(words, m.Source)
	}
	return strings.Join(words, " ")
}
