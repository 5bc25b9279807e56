package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/spf13/cobra"
)

// Exit codes, as interface documentation lists them.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitLatched = 74
)

// usageError marks that the words of the command were wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// execute runs one command and returns its exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	// Nothing may be written or judged with a BLAKE3 that is wrong here.
	if err := chain.SelfTest(); err != nil {
		fmt.Fprintf(stderr, "docketd: %v\n", err)
		return exitFailed
	}
	began := false
	root := newRootCommand(&began)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "docketd: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok || !began {
		fmt.Fprintln(stderr, "docketd: see docketd --help")
		return exitUsage
	}
	if errors.Is(err, engine.ErrLatched) {
		return exitLatched
	}
	return exitFailed
}

// newRootCommand makes the command tree. began becomes true when the words
// have been understood: errors before that are about the words.
func newRootCommand(began *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "docketd",
		Short: "The docket service: records agent runs in a tamper-evident ledger",
		Long: `docketd holds one ledger, serves docket's API on a unix socket and on loopback,
and records the model calls that pass its boundary.

The data folder is --data, else $DOCKET_DATA, else $XDG_STATE_HOME/docket, else
~/.local/state/docket.

EXIT STATUS
  0   stopped cleanly
  1   it failed; the message says why
  2   the words were wrong
  74  storage failed and the ledger is latched; the next start examines it

EXAMPLE
  docketd init && docketd run`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {
			*began = true
		},
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("say what to do: init, run or version")}
		},
	}
	data := root.PersistentFlags().String("data", "", "data folder")
	root.AddCommand(newInitCommand(data), newRunCommand(data), newVersionCommand())
	return root
}
