package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newStatusCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the service's health and its ledger's head",
		Long: `Shows which ledger is served, its last event, and what is open.

EXIT STATUS
  0    the service answers and can write
  1    it doesn't answer, or storage failed and it writes no more
  2    the words were wrong

EXAMPLE
  docket status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.status(cmd.Context())
		},
	}
}

func (e *env) status(ctx context.Context) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if e.json {
		err = writeJSON(e.stdout, s)
	} else {
		health := "well"
		if s.Latched != "" {
			health = "latched: " + s.Latched
		}
		_, err = fmt.Fprintf(e.stdout, `ledger       %s
file         %s, %d bytes
events       %d
head         %s
root         %s
open runs    %d
open calls   %d
unrecorded   %d refusals since the start
started      %s, by the service's clock
health       %s
`, clean(s.Head.Ledger), clean(s.Path), s.Bytes, s.Head.Seq, clean(s.Head.Hash), clean(s.Head.Root),
			s.OpenRuns, s.OpenCalls, s.Unavailable, clean(s.Started), clean(health))
	}
	if err == nil && s.Latched != "" {
		return silent(exitFailed)
	}
	return err
}
