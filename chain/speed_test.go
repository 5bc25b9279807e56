package chain_test

import (
	"testing"

	"github.com/docket-audit/docket/chain"
)

const benchHeader = `{"actor":{"context":"billing","pass":"p-17","role":"reviewer"},"content":"9a1bd3b8a91b7e5e5cf1c0a2f6fa6d33a3c9a4a8fd33f6cb5c1b9e0bb2b0a9d1","prev":"7f1bd3b8a91b7e5e5cf1c0a2f6fa6d33a3c9a4a8fd33f6cb5c1b9e0bb2b0a9d1","run":"run-01","run_seq":12,"seq":4711,"ts":"2026-11-30T12:00:00.000000001Z","type":"tool.call"}`

func BenchmarkParseHeader(b *testing.B) {
	h := []byte(benchHeader)
	b.SetBytes(int64(len(h)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chain.ParseHeader(h); err != nil {
			b.Fatal(err)
		}
	}
}
func BenchmarkEventHash(b *testing.B) {
	h := []byte(benchHeader)
	b.SetBytes(int64(len(h)))
	b.ReportAllocs()
	for b.Loop() {
		chain.EventHash(h)
	}
}
func BenchmarkContentCommit(b *testing.B) {
	h := []byte(benchHeader)
	b.SetBytes(int64(len(h)))
	b.ReportAllocs()
	for b.Loop() {
		chain.ContentCommit(chain.Salt{}, h)
	}
}
func BenchmarkCheckContent(b *testing.B) {
	h := []byte(benchHeader)
	b.SetBytes(int64(len(h)))
	b.ReportAllocs()
	for b.Loop() {
		chain.CheckContent(h)
	}
}
func BenchmarkAppend(b *testing.B) {
	h, _ := chain.ParseHeader([]byte(benchHeader))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = h.Append(buf[:0])
	}
}
