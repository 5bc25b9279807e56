package migrations

import (
	"fmt"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// createBuckets makes the buckets of schema 1.
func createBuckets(tx *bbolt.Tx) error {
	for _, name := range []string{
		chain.BucketMeta, chain.BucketEvents, chain.BucketRuns,
		chain.BucketKeys, chain.BucketCalls, chain.BucketTotals,
	} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return nil
}
