package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/docket-audit/docket/internal/client"
	"github.com/docket-audit/docket/internal/durable"
	"github.com/docket-audit/docket/verify"
	"github.com/spf13/cobra"
)

func newSnapshotCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Make a consistent, verified copy of the live ledger",
		Long: `Copies the ledger of the running service while it goes on. The copy is synced
and verified before it takes its name, and never replaces another file. A plain
copy of a file in use can be torn; this one can't.

EXIT STATUS
  0    the copy is there, and intact
  1    it failed, and no file was made
  2    the words were wrong
  130  interrupted

EXAMPLE
  docket snapshot audit-2026-11-30.db`,
		Args: exactly(1, "name the file to make"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.snapshot(cmd.Context(), args[0])
		},
	}
}

// exactly asks for n arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s: %d words where %d belong", what, len(args), n)
		}
		return nil
	}
}

func (e *env) snapshot(ctx context.Context, path string) error {
	if path == "" {
		return usage("the name of the file is empty")
	}
	if err := vacant(path); err != nil {
		return err
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	err = durable.WriteFile(path, 0o600, durable.Create, func(f *os.File) error {
		return e.fill(ctx, f, snap)
	})
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, map[string]any{"file": path, "bytes": snap.Size, "ledger": snap.Ledger, "seq": snap.Seq, "hash": snap.Hash})
	}
	e.note("%s: ledger %s, %d events, intact", clean(path), clean(snap.Ledger), snap.Seq)
	return nil
}

// fill copies, syncs and verifies.
func (e *env) fill(ctx context.Context, f *os.File, snap *client.Snapshot) error {
	p := e.progress("bytes")
	defer p.end()
	n, err := io.Copy(f, &counted{r: snap, total: snap.Size, progress: p})
	if err != nil {
		return err
	}
	if n != snap.Size {
		return fmt.Errorf("the copy has %d bytes of %d", n, snap.Size)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	r, err := verify.File(ctx, f.Name(), verify.Options{})
	if err != nil {
		return err
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("the copy was verified and not kept: %w", err)
	}
	if r.Ledger != snap.Ledger || r.Events != snap.Seq || r.Head != snap.Hash {
		return fmt.Errorf("the copy holds %d events of ledger %s, and not the %d of %s that were announced", r.Events, r.Ledger, snap.Seq, snap.Ledger)
	}
	return nil
}

// counted shows how far a copy is.
type counted struct {
	r           io.Reader
	done, total int64
	progress    *progress
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.progress.show(uint64(c.done), uint64(c.total))
	return n, err
}
