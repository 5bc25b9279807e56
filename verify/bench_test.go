package verify_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

const benchEvents = 100_000

// hashFloor is the time that the bare hashes of an event take on this machine:
// BLAKE3 of header and content, SHA-256 of leaf and node, over the events'
// bytes from memory.
func hashFloor(events []*chain.Event) time.Duration {
	h := blake3.NewDeriveKey("floor")
	var sum [32]byte
	node := make([]byte, 65)
	start := time.Now()
	for _, e := range events {
		h.Reset()
		h.Write(e.Header)
		h.Sum(sum[:0])
		h.Reset()
		h.Write(e.Salt[:])
		h.Write(e.Content)
		h.Sum(node[:0])
		copy(node[1:], sum[:])
		leaf := sha256.Sum256(node[:33])
		copy(node[33:], leaf[:])
		sha256.Sum256(node)
	}
	return time.Since(start) / time.Duration(len(events))
}

// BenchmarkVerify reports events a second, and the ratio to the floor of bare
// hashing for each worker: 1 would be no work beside the hashes.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	events := newLedger(b, 1).take(benchEvents)
	db := filepath.Join(dir, "ledger.db")
	writeDB(b, db, 16384, 1000, events)
	jsonl := filepath.Join(dir, "ledger.jsonl")
	if err := os.WriteFile(jsonl, export(b, 1, benchEvents), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{db, jsonl} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", filepath.Ext(path)[1:], workers), func(b *testing.B) {
				var floor, spent time.Duration
				rounds := 0
				for b.Loop() {
					floor += hashFloor(events)
					start := time.Now()
					r, err := verify.File(context.Background(), path, verify.Options{Workers: workers})
					if err != nil {
						b.Fatal(err)
					}
					if err := r.Err(); err != nil {
						b.Fatal(err)
					}
					spent += time.Since(start)
					rounds++
				}
				each := spent / time.Duration(rounds*benchEvents)
				b.ReportMetric(float64(each.Nanoseconds()), "ns/event")
				b.ReportMetric(float64(floor)/float64(rounds)/float64(each)/float64(workers), "floor-ratio/worker")
			})
		}
	}
}
