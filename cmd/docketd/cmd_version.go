package main

import (
	"fmt"
	"runtime/debug"

	"github.com/docket-audit/docket/chain"
	"github.com/spf13/cobra"
)

// version reads the program's version and commit from what the Go toolchain
// put into it, the one place where they stand. A build outside version control
// has neither, and says so.
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

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and ledger format",
		Long: `Prints one line: version, commit, ledger format and file schema.

EXIT STATUS
  0  always

EXAMPLE
  docketd version`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, c := version()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "docketd %s, commit %s, format %s, schema %d\n", v, c, chain.FormatName, chain.SchemaVersion)
			return err
		},
	}
}
