package main

import (
	"fmt"
	"runtime/debug"

	"github.com/docket-audit/docket/chain"
	"github.com/spf13/cobra"
)

func newVersionCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and ledger format",
		Long: `Prints version, commit and the ledger format that this program knows.

EXIT STATUS
  0  always

EXAMPLE
  docket version`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v, c := version()
			if e.json {
				return writeJSON(e.stdout, map[string]string{"version": v, "commit": c, "format": chain.FormatName})
			}
			_, err := fmt.Fprintf(e.stdout, "docket %s, commit %s, format %s\n", v, c, chain.FormatName)
			return err
		},
	}
}

// version reads the program's version and commit from what the Go toolchain
// put into it. A build outside version control has neither, and says so.
func version() (version, commit string) {
	version, commit = "(devel)", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit != "unknown" {
		commit += dirty
	}
	return version, commit
}
