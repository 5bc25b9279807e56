package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/docket-audit/docket/verify"
	"github.com/spf13/cobra"
)

func newVerifyCommand(e *env) *cobra.Command {
	var expect, vkeys []string
	cmd := &cobra.Command{
		Use:   "verify FILE|- [flags]",
		Short: "Check a ledger file, an export or a receipt",
		Long: `Checks a copy of a ledger file, an export (plain or .zst) or a receipt, told
apart by content; - reads standard input. It needs no service and no network,
and writes nothing beside a temporary copy of what can't be read twice.

--expect FILE is what you know from elsewhere: a checkpoint (signed, or its three
lines), a receipt, or {"size":N,"head":HASH}. --vkey FILE is a public key that
has to be the ledger's, or a witness's that signed. Without any of them the
verdict means that the file is consistent with itself: who can write to it could
have rewritten all of it, or cut its end.

EXIT STATUS
  0    intact
  1    the file is missing or can't be read
  2    the words were wrong
  10   altered, missing, reordered, forked or cut
  20   cost_mismatch, unaccounted, overlap or cap_breach
  30   malformed, or not a docket file
  40   torn: cut short, a file in use, or rolled back by one commit
  50   unverifiable: a key or an anchor that was demanded is not there
  130  interrupted

EXAMPLE
  docket verify audit.jsonl.zst --expect checkpoint.txt --vkey docketd.vkey`,
		Args: exactly(1, "name one file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.verify(cmd.Context(), args[0], expect, vkeys)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&expect, "expect", nil, "file with an anchor that has to fit; may be repeated")
	flags.StringArrayVar(&vkeys, "vkey", nil, "file with a public key that has to be met; may be repeated")
	return cmd
}

func (e *env) verify(ctx context.Context, path string, expect, vkeys []string) error {
	o, err := demands(expect, vkeys)
	if err != nil {
		return err
	}
	p := e.progress("bytes verified")
	defer p.end()
	o.Progress = p.show
	var r *verify.Report
	if path == "-" {
		r, err = verify.Reader(ctx, e.stdin, o)
	} else {
		r, err = verify.File(ctx, path, o)
	}
	p.end()
	switch {
	case errors.Is(err, verify.ErrOptions):
		return usage("%w", err)
	case err != nil:
		return fmt.Errorf("verify %s: %w", path, err)
	}
	if e.json {
		b, err := r.JSON()
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(append(b, '\n'))
		if err != nil {
			return err
		}
	} else if err := printReport(e.stdout, r, e.quiet); err != nil {
		return err
	}
	if code := r.ExitCode(); code != 0 {
		return silent(code)
	}
	return nil
}

// maxDemand bounds a file that is given as an anchor or a key. A receipt of a
// long run is the largest: verify takes no larger one.
const maxDemand = 256 << 20

// demands reads what the caller demands. What can't be read ends the command:
// a check that was asked for is never left out.
func demands(expect, vkeys []string) (o verify.Options, err error) {
	for _, path := range expect {
		b, err := readBounded(path)
		if err != nil {
			return o, fmt.Errorf("read --expect: %w", err)
		}
		a, err := verify.ParseAnchor(path, b)
		if err != nil {
			return o, usage("--expect: %w", err)
		}
		o.Expect = append(o.Expect, a)
	}
	for _, path := range vkeys {
		b, err := readBounded(path)
		if err != nil {
			return o, fmt.Errorf("read --vkey: %w", err)
		}
		o.VKeys = append(o.VKeys, string(b))
	}
	return o, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	} else if info.Size() > maxDemand {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxDemand)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxDemand+1))
	if err == nil && len(b) > maxDemand {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxDemand)
	}
	return b, err
}
