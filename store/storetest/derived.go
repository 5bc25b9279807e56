package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/docket-audit/docket/chain"
	"go.etcd.io/bbolt"
)

// Derived compares what the closed ledger at path holds beside its events with
// what follows from them. It opens the file by bbolt, so the file has to be
// verified before.
func Derived(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	err = db.View(compareDerived)
	return errors.Join(err, db.Close())
}

func compareDerived(tx *bbolt.Tx) error {
	s := sums{
		runs: map[string]chain.RunState{}, keys: map[string]uint64{},
		calls: map[uint64]string{}, totals: map[string]chain.Totals{},
	}
	err := tx.Bucket([]byte(chain.BucketEvents)).ForEach(func(k, v []byte) error {
		e, err := chain.DecodeEvent(bytes.Clone(v))
		if err != nil {
			return fmt.Errorf("event %x: %w", k, err)
		}
		return s.add(e)
	})
	if err != nil {
		return err
	}
	for bucket, want := range s.buckets() {
		if bucket == chain.BucketEvents {
			continue
		}
		got := map[string]string{}
		err := tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
			if bucket != chain.BucketMeta || string(k) == chain.KeyHead {
				got[string(k)] = string(v)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if d := differs(bucket, got, want); d != "" {
			return errors.New(d)
		}
	}
	return nil
}
