package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/docket-audit/docket/engine"
	"github.com/spf13/cobra"
)

// runOptions are the words of docketd run.
type runOptions struct {
	listen    string
	init      bool
	logFormat string
	verbose   bool
}

func newRunCommand(data *string) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the ledger of the data folder",
		Long: `Serves the API on the socket docketd.sock of the data folder, and API and
boundary on --listen. When requests are answered it prints one line,
"listening http://ADDR", and keeps ADDR in the file address.

Point an agent at http://ADDR/b/RUN-TOKEN/anthropic or
http://ADDR/b/RUN-TOKEN/openai/v1; POST /v1/runs gives the token. Further
upstreams and price files stand in docketd.toml.

A missing, empty or foreign ledger file is refused. SIGTERM stops it: nothing
more is admitted, calls in flight have 30 seconds, the last checkpoint is
signed, the ledger is closed. A second signal ends it at once.

EXIT STATUS
  0   stopped cleanly
  1   it failed; the message says why
  2   the words were wrong
  74  storage failed and the ledger is latched; the next start examines it

EXAMPLE
  docketd run --data ./audit --listen 127.0.0.1:7423`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLog(cmd.ErrOrStderr(), o)
			if err != nil {
				return err
			}
			f, err := dataFolder(*data)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), f, o, log, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:7423", "loopback address and port; :0 picks a free port on 127.0.0.1")
	flags.BoolVar(&o.init, "init", false, "make a ledger first, as docketd init does, where there is none")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json, on standard error")
	flags.BoolVar(&o.verbose, "verbose", false, "log what only matters when something is looked for, too")
	return cmd
}

func newLog(w io.Writer, o runOptions) (*slog.Logger, error) {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format %q is neither text nor json", o.logFormat)}
}

// serve is one life of the service. The order matters: the folder is locked
// before anything in it is touched, addresses are bound before the ledger is
// opened, so that a start that can't serve leaves no event, and the ledger is
// closed after the last request had its answer.
func serve(ctx context.Context, f folder, o runOptions, log *slog.Logger, stdout io.Writer) error {
	// net/http prints what a provider sends on an idle connection to the
	// standard logger: foreign bytes, which have no place in a log.
	stdlog.SetOutput(io.Discard)
	if err := harden(); err != nil {
		return err
	}
	release, err := enter(ctx, f, o.init, log)
	if err != nil {
		return err
	}
	defer release()
	s, err := prepare(f, o, log)
	if err != nil {
		return err
	}
	defer s.closeListeners()

	// A signal that comes while the file is examined ends the start.
	signals, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if s.engine, err = openEngine(signals, f, s.config, log); err != nil {
		return err
	}
	if err := s.start(stdout); err != nil {
		return errors.Join(err, s.engine.Close(context.WithoutCancel(ctx)))
	}
	select {
	case <-signals.Done():
		stop() // the next signal has its default effect: it ends the process
		return s.drain(ctx)
	case <-s.engine.Dead():
		return s.fall(ctx)
	case err := <-s.failed:
		return errors.Join(err, s.drain(ctx))
	}
}

// enter locks the folder, and makes it and a ledger first where that was asked
// for.
func enter(ctx context.Context, f folder, init bool, log *slog.Logger) (release func(), err error) {
	if !init {
		if err := f.check(); err != nil {
			return nil, err
		}
		return f.hold()
	}
	if release, err = f.prepare(); err != nil {
		return nil, err
	}
	if vacant(f.ledger()) != nil {
		return release, nil
	}
	id, err := f.initLedger(ctx)
	if err != nil {
		release()
		return nil, err
	}
	log.Info("made a ledger", "ledger", id, "path", f.ledger())
	return release, nil
}

func openEngine(ctx context.Context, f folder, c config, log *slog.Logger) (*engine.Engine, error) {
	if err := f.checkLedger(); err != nil {
		return nil, err
	}
	signer, err := f.readKey()
	if err != nil {
		return nil, err
	}
	v, commit := version()
	shown := int64(-1)
	return engine.Open(ctx, engine.Options{
		Path: f.ledger(), Signer: signer, PriceFiles: c.Prices.Files, Verify: verifyFile,
		Log: log, Version: v, Commit: commit,
		Progress: func(done, total int64) {
			if total > 0 && 10*done/total > shown {
				shown = 10 * done / total
				log.Info("rewriting the ledger", "bytes", done, "of", total)
			}
		},
	})
}
