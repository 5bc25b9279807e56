package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/durable"
	"github.com/docket-audit/docket/receipt"
	"github.com/docket-audit/docket/verify"
	"github.com/spf13/cobra"
)

func newInitCommand(data *string) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make a new ledger and its key",
		Long: `Makes the data folder (mode 0700) and in it a new ledger, ledger.db, the key
that signs for it, docketd.key, the public key, docketd.vkey, which may be handed
to anyone, and the token of the loopback listener. Prints the ledger's id.

Nothing is ever made over something: where one of these files exists already
the command refuses, and leaves everything as it is.

Keep a copy of docketd.key and of docketd.vkey elsewhere.

EXIT STATUS
  0  the ledger is there
  1  it failed, or something exists already; nothing was made
  2  the words were wrong

EXAMPLE
  docketd init --data ./audit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := dataFolder(*data)
			if err != nil {
				return err
			}
			release, err := f.prepare()
			if err != nil {
				return err
			}
			defer release()
			id, err := f.initLedger(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ledger %s in %s\n", id, f.ledger())
			return err
		},
	}
}

// prepare makes the folder where it is missing, and takes its lock.
func (f folder) prepare() (release func(), err error) {
	if err := durable.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.hold()
}

// initLedger makes ledger, keys and token. The keys are on the disk before the
// ledger has its name: a ledger without its key could never be signed for.
func (f folder) initLedger(ctx context.Context) (string, error) {
	for _, path := range []string{f.ledger(), f.key(), f.vkey(), f.token()} {
		if err := vacant(path); err != nil {
			return "", err
		}
	}
	signer, err := receipt.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	var made []string
	write := func(path, text string) error {
		err := writeText(path, text, durable.Create)
		if err == nil {
			made = append(made, path)
		}
		return err
	}
	v, _ := version()
	id, err := engine.Init(ctx, f.ledger(), engine.InitOptions{
		Signer: signer, CreatedBy: "docketd " + v,
		Verify: func(ctx context.Context, path string) error {
			r, err := verify.File(ctx, path, verify.Options{})
			if err == nil {
				err = r.Err()
			}
			if err == nil {
				err = write(f.key(), signer.PrivateKey(r.Ledger))
			}
			if err == nil {
				err = write(f.vkey(), receipt.VerifierKey(r.Ledger, signer.Key()))
			}
			return err
		},
	})
	if err == nil {
		_, err = f.makeToken()
		if err != nil {
			// The ledger is whole, and the next start makes the token.
			return id, err
		}
		return id, nil
	}
	for _, path := range made {
		err = errors.Join(err, durable.Remove(path))
	}
	return "", err
}

// vacant says what stands at path, where something does.
func vacant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	}
	return fmt.Errorf("%s exists already: %s; it was left as it is: choose another folder with --data, or move it away", path, describe(info))
}

func describe(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "a folder"
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case !info.Mode().IsRegular():
		return "no regular file"
	}
	return fmt.Sprintf("a file of %d bytes, last written %s", info.Size(), info.ModTime().UTC().Format("2006-01-02 15:04:05 UTC"))
}

// verifyFile is what engine checks a copy by before it takes a ledger's name.
func verifyFile(ctx context.Context, path string) error {
	r, err := verify.File(ctx, path, verify.Options{})
	if err != nil {
		return err
	}
	return r.Err()
}
