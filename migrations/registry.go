package migrations

import (
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// Errors of Check. ErrNoLedger: the database holds no ledger. ErrNewer: a
// newer program wrote the file, and this one would not keep its promises.
// ErrOlder: the file has to be migrated first.
var (
	ErrNoLedger = errors.New("no ledger in this database")
	ErrNewer    = errors.New("the file's schema is newer than this program")
	ErrOlder    = errors.New("the file's schema is older than this program")
)

// Step brings a file from the version before to Version.
type Step struct {
	Version uint32
	Changed string // what is different from then on
	apply   func(*bbolt.Tx) error
}

// Steps lists every version there has been, oldest first. The first makes an
// empty database a ledger file without events.
var Steps = []Step{
	{1, "first version: the buckets meta, events, runs, keys, calls and totals", createBuckets},
}

// Current is the version that this program writes.
func Current() uint32 { return Steps[len(Steps)-1].Version }

// Create lays out an empty database in the current version, within tx.
func Create(tx *bbolt.Tx) error {
	for _, s := range Steps {
		if err := s.apply(tx); err != nil {
			return fmt.Errorf("create schema %d: %w", s.Version, err)
		}
	}
	meta := tx.Bucket([]byte(chain.BucketMeta))
	if err := meta.Put([]byte(chain.KeySchema), chain.EncodeSchema(Current())); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	return nil
}

// Check says whether this program may write to the file of tx.
func Check(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte(chain.BucketMeta))
	if meta == nil || tx.Bucket([]byte(chain.BucketEvents)) == nil {
		return ErrNoLedger
	}
	v, err := chain.ParseSchema(meta.Get([]byte(chain.KeySchema)))
	switch {
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	case v > Current():
		return fmt.Errorf("schema %d, known up to %d: %w", v, Current(), ErrNewer)
	case v < Current():
		return fmt.Errorf("schema %d, wanted %d: %w", v, Current(), ErrOlder)
	}
	return nil
}
