package verify_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

const benchEvents = 100_000

// hashFloor hashes events as bare as can be: BLAKE3 of header and content,
// SHA-256 of leaf and node, over their bytes from memory.
func hashFloor(events []*chain.Event) {
	h := blake3.NewDeriveKey("floor")
	var sum [32]byte
	node := make([]byte, 65)
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
}

// cpuTime is the processor time that this process has used.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkVerify reports the time for an event, and the processor time of
// bare hashing divided by that of verifying, both of this run: 1 would be no
// work beside the hashes.
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
				for b.Loop() {
					before := cpuTime(b)
					hashFloor(events)
					middle := cpuTime(b)
					r, err := verify.File(context.Background(), path, verify.Options{Workers: workers})
					if err != nil {
						b.Fatal(err)
					}
					if err := r.Err(); err != nil {
						b.Fatal(err)
					}
					floor += middle - before
					spent += cpuTime(b) - middle
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEvents, "ns/event")
				b.ReportMetric(float64(floor)/float64(spent), "floor-ratio")
			})
		}
	}
}
