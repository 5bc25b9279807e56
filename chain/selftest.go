package chain

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
)

// ErrSelfTest tells that this build of BLAKE3 gives wrong digests on this
// machine, so that nothing may be written or judged with it.
var ErrSelfTest = errors.New("BLAKE3 gives wrong digests on this machine")

// selfTestContext and selfTestInput are those of BLAKE3's published test
// vectors: byte i of the input is i modulo 251.
const selfTestContext = "BLAKE3 2019-12-27 16:29:52 test vectors context"

// selfTestVectors hold the first 8 bytes of derive_key for the lengths at
// which an implementation changes its way: within a block, at a chunk's edge,
// and where several chunks are hashed side by side.
var selfTestVectors = []struct {
	length int
	sum    string
}{
	{0, "2cc39783c223154f"},
	{1, "b3e2e340a117a499"},
	{1023, "74a16c1c3d44368a"},
	{1024, "7356cd7720d5b66b"},
	{1025, "effaa245f065fbf8"},
	{2048, "7b2945cb4fef7088"},
	{8192, "ad01d7ae4ad059b0"},
	{8193, "af1e0346e389b17c"},
	{16384, "160e18b5878cd0df"},
	{31744, "39772aef80e0ebe6"},
}

// SelfTest compares BLAKE3 with known digests. Programs call it at start and
// refuse to work where it fails.
func SelfTest() error {
	longest := selfTestVectors[len(selfTestVectors)-1].length
	input := make([]byte, longest)
	for i := range input {
		input[i] = byte(i % 251)
	}
	for _, v := range selfTestVectors {
		var sum [8]byte
		blake3.DeriveKey(selfTestContext, input[:v.length], sum[:])
		if got := hex.EncodeToString(sum[:]); got != v.sum {
			return fmt.Errorf("%d bytes: %s, not %s: %w", v.length, got, v.sum, ErrSelfTest)
		}
	}
	return nil
}
