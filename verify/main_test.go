package verify_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func TestSelf(t *testing.T) {
	if err := chain.SelfTest(); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verifyFile verifies a file whose reading has to succeed.
func verifyFile(t testing.TB, path string, o verify.Options) *verify.Report {
	t.Helper()
	r, err := verify.File(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verifyBytes verifies an input that stands in memory.
func verifyBytes(t testing.TB, b []byte, o verify.Options) *verify.Report {
	t.Helper()
	r, err := verify.Reader(context.Background(), bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// want asserts verdict and place.
func want(t testing.TB, r *verify.Report, v verify.Verdict, seq uint64) {
	t.Helper()
	d := r.Deciding()
	switch {
	case v == verify.Intact && d == nil:
		return
	case d != nil && d.Verdict == v && d.Seq == seq:
		return
	}
	b, _ := r.JSON()
	t.Errorf("want %s at %d, got %s", v, seq, b[:min(len(b), 700)])
}

func lines(b []byte) [][]byte {
	var list [][]byte
	for l := range bytes.Lines(b) {
		list = append(list, l)
	}
	return list
}
