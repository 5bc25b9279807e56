package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/client"
	"github.com/spf13/cobra"
)

// env is what every command works with: the global flags and the standard
// streams.
type env struct {
	json, quiet  bool
	data, socket string

	stdin          io.Reader
	stdout, stderr io.Writer

	// began becomes true when the words have been understood: errors before
	// that are about the words.
	began bool
}

// execute runs one command and returns its exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	// An interrupt ends a command in order, so that no part of a file stays.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends it at once: an open of a pipe waits for nothing else.
	context.AfterFunc(ctx, stop)
	root := newRootCommand(e)
	onceEach(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// Nothing may be judged with a BLAKE3 that is wrong here.
	err := chain.SelfTest()
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[*exitError](err); !ok && !e.began && ctx.Err() == nil {
		err = usage("%w", err)
		// Flags behind the wrong word were not read.
		e.json = e.json || slices.Contains(args, "--json")
	}
	return e.fail(ctx, err)
}

func newRootCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "docket",
		Short: "Record, read and verify what agents did and what it cost",
		Long: `docket records events in a tamper-evident ledger, shows and exports them, sums
their cost, and verifies ledgers, exports and receipts.

It talks to docketd over the socket docketd.sock of the data folder: --data,
else $DOCKET_DATA, else $XDG_STATE_HOME/docket, else ~/.local/state/docket.
With --db FILE, reading commands read a ledger file with no service; verify
never needs one.

EXIT STATUS
  0    done
  1    it failed; the message says why
  2    the words were wrong
  130  interrupted
  docket verify has more: see docket verify --help

EXAMPLE
  docket append --type tool.call --run r1 --content '{"name":"search"}'
  docket verify audit.jsonl`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {
			e.began = true
		},
		RunE: func(*cobra.Command, []string) error {
			return usage("say what to do, as in docket log")
		},
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&e.json, "json", false, "print JSON, errors too")
	flags.BoolVar(&e.quiet, "quiet", false, "print results and errors, no notes and no progress")
	flags.StringVar(&e.data, "data", "", "data folder of the service")
	flags.StringVar(&e.socket, "socket", "", "socket of the service, where it is not in the data folder")
	root.AddCommand(
		newAppendCommand(e), newLogCommand(e), newExportCommand(e), newVerifyCommand(e),
		newSnapshotCommand(e), newCheckpointCommand(e), newCostCommand(e), newRunsCommand(e), newStatusCommand(e),
		newVersionCommand(e),
	)
	return root
}

// client makes the client of the service.
func (e *env) client() (*client.Client, error) {
	if e.socket != "" {
		return client.New(e.socket), nil
	}
	dir, err := e.dataFolder()
	if err != nil {
		return nil, err
	}
	return client.New(filepath.Join(dir, "docketd.sock")), nil
}

// dataFolder finds the data folder as docketd does.
func (e *env) dataFolder() (string, error) {
	if e.data != "" {
		return e.data, nil
	}
	if dir := os.Getenv("DOCKET_DATA"); dir != "" {
		return dir, nil
	}
	if xdg := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "docket"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usage("the data folder can't be found: %w; name one with --data", err)
	}
	return filepath.Join(home, ".local", "state", "docket"), nil
}
