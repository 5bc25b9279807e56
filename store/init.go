package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/durable"
)

// InitOptions say what a new ledger begins with.
type InitOptions struct {
	// Keys are the public keys that may sign its checkpoints, 0 to
	// chain.MaxKeys.
	Keys []chain.Key
	// CreatedBy names the program and its version.
	CreatedBy string
	// Continues names the ledger that this one goes on from; nil for none.
	Continues *chain.Continues
	// Now reads the wall clock; nil is time.Now.
	Now func() time.Time
	// Verify checks the file before it gets its name; nil skips that.
	Verify func(ctx context.Context, path string) error
}

// Init makes a new ledger at path, with its first event, and returns its id.
// The file appears whole or not at all. Where something stands at path
// already, the error is fs.ErrExist and nothing has changed.
func Init(ctx context.Context, path string, o InitOptions) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s exists already and is left as it is: %w", path, fs.ErrExist)
	}
	p, id, err := firstEvent(o)
	if err != nil {
		return "", err
	}
	f, err := durable.Temp(path, 0o600)
	if err != nil {
		return "", err
	}
	temp := f.Name()
	if err = fillNew(temp, f, p); err == nil && o.Verify != nil {
		err = o.Verify(ctx, temp)
	}
	if err == nil {
		err = durable.Publish(temp, path, durable.Create)
	}
	if err != nil {
		if rmErr := os.Remove(temp); !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return "", fmt.Errorf("make ledger: %w", err)
	}
	return id, nil
}

// firstEvent prepares ledger.created.
func firstEvent(o InitOptions) (*Prepared, string, error) {
	c := chain.Created{CreatedBy: o.CreatedBy, Keys: o.Keys, Continues: o.Continues}
	rand.Read(c.Nonce[:])
	c.Ledger = chain.LedgerID(c.Keys, c.Nonce)
	content := c.Append(nil)
	if _, err := chain.ParseCreated(content); err != nil {
		return nil, "", refused("/content", err)
	}
	p, err := prepare(Draft{Header: chain.Header{Type: chain.TypeCreated, Prev: chain.Genesis(c.Ledger)}, Content: content})
	if err != nil {
		return nil, "", err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	p.Header.Seq, p.Header.TS = 1, chain.FormatTime(now())
	return p, c.Ledger, fitsNow(p)
}

// fillNew writes schema and first event, synced. It closes f.
func fillNew(path string, f *os.File, p *Prepared) error {
	b, err := openBolt(path, f)
	if err != nil {
		return err
	}
	if err = b.layOut(); err == nil {
		g := newGroup()
		g.events = []*Prepared{p}
		err = b.commit(func(r reader) (*change, error) {
			c, _, err := g.link(r)
			return c, err
		})
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, b.close())
}
