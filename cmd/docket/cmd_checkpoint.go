package main

import (
	"context"
	"fmt"
	"os"

	"github.com/docket-audit/docket/internal/durable"
	"github.com/spf13/cobra"
)

func newCheckpointCommand(e *env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "checkpoint [flags]",
		Short: "Sign the ledger as it is now and print the signed note",
		Long: `Has the service sign the number of events and the root over all of them, and
prints that signed note. Kept where the ledger's owner can't reach it, it is an
anchor: docket verify --expect FILE then proves that nothing before it was
changed or cut.

EXIT STATUS
  0    done
  1    it failed; nothing was written to FILE
  2    the words were wrong

EXAMPLE
  docket checkpoint -o checkpoint.note`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "output"); err != nil {
				return err
			}
			return e.checkpoint(cmd.Context(), out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to this new file")
	return cmd
}

func (e *env) checkpoint(ctx context.Context, out string) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	note, err := c.Checkpoint(ctx)
	if err != nil {
		return err
	}
	if out != "" {
		return durable.WriteFile(out, 0o644, durable.Create, func(f *os.File) error {
			_, err := f.WriteString(note)
			return err
		})
	}
	if e.json {
		return writeJSON(e.stdout, map[string]string{"note": note})
	}
	// Signed text stands as it is: every byte of it counts.
	_, err = fmt.Fprint(e.stdout, note)
	return err
}
