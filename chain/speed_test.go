package chain_test

import (
	"strings"
	"testing"
	"time"

	zeebo "github.com/zeebo/blake3"

	"github.com/docket-audit/docket/chain"
)

// speedHeader is the header of an ordinary event, about 300 bytes.
const speedHeader = `{"actor":{"context":"billing","pass":"p-17","role":"reviewer"},"content":"` + hexA + `","prev":"` + hexB + `","run":"run-01","run_seq":12,"seq":4711,"ts":"2026-11-30T12:00:00.000000001Z","type":"tool.call"}`

// bareHash is the floor that every figure here is a ratio to: BLAKE3 in
// derive_key mode over the same bytes, in one hasher that is used again.
func bareHash(b []byte) func() {
	h := zeebo.NewDeriveKey(contexts + "event")
	var out [32]byte
	return func() {
		h.Reset()
		h.Write(b)
		h.Sum(out[:0])
	}
}

// benchmark reports f over input, and how many times the floor it takes. The
// two are measured by turns in the same loop, so that a noisy neighbour slows
// both.
func benchmark(b *testing.B, input []byte, f func()) {
	b.Helper()
	floor := bareHash(input)
	const turn = 64
	var took, floorTook time.Duration
	for b.Loop() {
		start := time.Now()
		for range turn {
			floor()
		}
		middle := time.Now()
		for range turn {
			f()
		}
		floorTook += middle.Sub(start)
		took += time.Since(middle)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*turn), "ns/op")
	b.ReportMetric(float64(took)/float64(floorTook), "×hash")
	b.ReportMetric(testing.AllocsPerRun(100, f), "objects")
}

func BenchmarkParseHeader(b *testing.B) {
	full := fullHeaders(b)
	for name, text := range map[string]string{"tool.call": speedHeader, "model.response": full["model.response"]} {
		b.Run(name, func(b *testing.B) {
			header := []byte(text)
			benchmark(b, header, func() {
				if _, err := chain.ParseHeader(header); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkHeaderAppend(b *testing.B) {
	h, err := chain.ParseHeader([]byte(speedHeader))
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	benchmark(b, []byte(speedHeader), func() { buf = h.Append(buf[:0]) })
}

func BenchmarkEventHash(b *testing.B) {
	header := []byte(speedHeader)
	benchmark(b, header, func() { chain.EventHash(header) })
}

func BenchmarkContentCommit(b *testing.B) {
	content := []byte(speedHeader)
	benchmark(b, content, func() { chain.ContentCommit(chain.Salt{}, content) })
}

func BenchmarkContent(b *testing.B) {
	canonical := []byte(speedHeader)
	spaced := []byte(strings.ReplaceAll(speedHeader, ",", ", "))
	b.Run("check", func(b *testing.B) {
		benchmark(b, canonical, func() {
			if err := chain.CheckContent(canonical); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("canonicalize", func(b *testing.B) {
		benchmark(b, spaced, func() {
			if _, err := chain.CanonicalContent(spaced); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// TestAllocations bounds what the paths of every event leave for the garbage
// collector: of a header no more than its structs and its own texts.
func TestAllocations(t *testing.T) {
	header := []byte(speedHeader)
	h, err := chain.ParseHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 2*len(header))
	for _, c := range []struct {
		what string
		most float64
		f    func()
	}{
		{"ParseHeader", 8, func() { chain.ParseHeader(header) }},
		{"Append", 0, func() { h.Append(buf) }},
		{"CheckContent", 0, func() { chain.CheckContent(header) }},
		{"CanonicalContent of what is canonical", 0, func() { chain.CanonicalContent(header) }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s: %v objects, not %v", c.what, got, c.most)
		}
	}
}
