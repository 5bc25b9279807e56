package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docket-audit/docket/internal/client"
	"github.com/spf13/cobra"
)

func newRunsCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs; open and close them by hand",
		Long: `Lists every run with its events, calls and cost. A run groups what one agent
did; its calls to models go through the addresses that docket runs open prints.

EXIT STATUS
  0    done
  1    it failed; the message says why
  2    the words were wrong

EXAMPLE
  docket runs
  eval "$(docket runs open --run nightly-42)"
  docket runs close nightly-42`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.listRuns(cmd.Context())
		},
	}
	cmd.AddCommand(newRunsOpenCommand(e), newRunsCloseCommand(e))
	return cmd
}

func newRunsOpenCommand(e *env) *cobra.Command {
	var spec client.RunSpec
	cmd := &cobra.Command{
		Use:   "open [flags]",
		Short: "Open a run and print the addresses for its agent",
		Long: `Opens a run and prints, as shell commands, the variables by which an agent's SDK
finds docketd: ANTHROPIC_BASE_URL, OPENAI_BASE_URL and DOCKET_RUN, and for an
upstream of docketd.toml DOCKET_BASE_URL_ and its name. The addresses hold the
run's token: whoever has them can record calls in this run until it is closed.
Where it fails it prints the shell command false, so that eval fails as well and
no agent goes on unrecorded.

EXIT STATUS
  0    done
  1    it failed, or the run id was used before
  2    the words were wrong

EXAMPLE
  eval "$(docket runs open --name nightly)"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := notEmpty(cmd, "run", "name")
			if err == nil {
				err = e.openRun(cmd.Context(), spec)
			}
			if err != nil && !e.json {
				fmt.Fprintln(e.stdout, "false")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&spec.Run, "run", "", "id of the run; a random one if left out")
	cmd.Flags().StringVar(&spec.Name, "name", "", "name for people")
	return cmd
}

func newRunsCloseCommand(e *env) *cobra.Command {
	var spec client.CloseSpec
	cmd := &cobra.Command{
		Use:   "close RUN",
		Short: "Close a run and print what it cost",
		Long: `Closes a run: nothing more is admitted to it, calls in flight have their time and
are then cancelled, and its totals are recorded. Its id is never used again.

EXIT STATUS
  0    done
  1    it failed, or the run is unknown or closed already
  2    the words were wrong

EXAMPLE
  docket runs close nightly-42 --reason "all tests pass"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spec.Wait < 0 || spec.Wait%time.Millisecond != 0 || cmd.Flags().Changed("wait") && spec.Wait == 0 {
				return usage("--wait %s: whole milliseconds, 1ms at least", spec.Wait)
			}
			return e.closeRun(cmd.Context(), args[0], spec)
		},
	}
	cmd.Flags().StringVar(&spec.Reason, "reason", "", "why it ends, for people")
	cmd.Flags().DurationVar(&spec.Wait, "wait", 0, "how long calls in flight may take; 30s if left out")
	return cmd
}

func (e *env) listRuns(ctx context.Context) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	runs, err := c.Runs(ctx)
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, map[string]any{"runs": runs})
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATE\tEVENTS\tCALLS\tFAILED\tUNPRICED\tCOST, USD\tNAME")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", clean(r.Run), runState(r), r.Events,
			r.Totals.Calls, r.Totals.Failed, r.Totals.Unpriced, clean(r.Totals.CostUSD), clean(r.Name))
	}
	return w.Flush()
}

func runState(r client.Run) string {
	switch {
	case r.Closed != 0:
		return "closed"
	case r.OpenCalls > 0:
		return fmt.Sprintf("open, %d calls in flight", r.OpenCalls)
	}
	return "open"
}

// baseVariables are what the vendors' SDKs read, by upstream name.
var baseVariables = map[string]string{"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}

func (e *env) openRun(ctx context.Context, spec client.RunSpec) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.OpenRun(ctx, spec)
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "export DOCKET_RUN=%s\n", shellQuote(r.Run))
	for _, name := range slices.Sorted(maps.Keys(r.BaseURLs)) {
		variable := baseVariables[name]
		if variable == "" {
			variable = "DOCKET_BASE_URL_" + variableName(name)
		}
		fmt.Fprintf(&b, "export %s=%s\n", variable, shellQuote(r.BaseURLs[name]))
	}
	_, err = fmt.Fprint(e.stdout, b.String())
	return err
}

// variableName spells an upstream's name as a part of a shell variable's.
func variableName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// shellQuote makes s one word of a POSIX shell, whatever stands in it.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (e *env) closeRun(ctx context.Context, id string, spec client.CloseSpec) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.CloseRun(ctx, id, spec)
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, r)
	}
	_, err = fmt.Fprintf(e.stdout, "%s closed: %d events, %d calls, %s USD, %d unpriced, %d failed\n", clean(r.Run),
		r.Events, r.Totals.Calls, clean(r.Totals.CostUSD), r.Totals.Unpriced, r.Totals.Failed)
	if err == nil && r.Totals.Failed > 0 {
		e.note("no answer was seen to %s; the provider may have billed them all the same", plural(r.Totals.Failed, "call"))
	}
	return err
}
