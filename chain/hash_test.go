package chain_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	zeebo "github.com/zeebo/blake3"
	oracle "lukechampine.com/blake3"

	"github.com/docket-audit/docket/chain"
)

// The contexts of docs/format.md, section 3, spelled here a second time.
const contexts = "docketd 2026-11-30 ledger v1 "

func derive(kind string, input ...[]byte) (h chain.Hash) {
	oracle.DeriveKey(h[:], contexts+kind, bytes.Join(input, nil))
	return h
}

// blake3Lengths are the lengths at which an implementation changes its way,
// and some at random.
func blake3Lengths(r *rand.Rand) []int {
	list := []int{0, 1, 15, 16, 17, 47, 48, 49, 63, 64, 65, 127, 128, 1007, 1008, 1009, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 4096, 8175, 8176, 8177, 8192, 8193, 16384, 31744, 65536, 102400}
	for range 100 {
		list = append(list, r.IntN(40_000))
	}
	return list
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestBLAKE3 compares every kind of hash with a second implementation.
func TestBLAKE3(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, n := range blake3Lengths(r) {
		b := randomBytes(r, n)
		salt := chain.Salt(randomBytes(r, 16))
		id := hex.EncodeToString(randomBytes(r, 16))
		keys := []chain.Key{chain.Key(randomBytes(r, 32)), chain.Key(randomBytes(r, 32))}
		keysText := fmt.Sprintf(`{"keys":["%s","%s"],"nonce":"%x"}`, keys[0], keys[1], salt[:])
		wantID := derive("id", []byte(keysText))
		for _, c := range []struct {
			kind      string
			got, want chain.Hash
		}{
			{"event", chain.EventHash(b), derive("event", b)},
			{"content", chain.ContentCommit(salt, b), derive("content", salt[:], b)},
			{"part", chain.PartCommit(salt, b), derive("part", salt[:], b)},
			{"genesis", chain.Genesis(id), derive("genesis", []byte(id))},
		} {
			if c.got != c.want {
				t.Errorf("%s of %d bytes: %s, not %s", c.kind, n, c.got, c.want)
			}
		}
		if got := chain.LedgerID(keys, salt); got != hex.EncodeToString(wantID[:16]) {
			t.Errorf("id: %s, not %x", got, wantID[:16])
		}
		testWrites(t, r, salt, b)
	}
	if got, want := chain.LedgerID(nil, chain.Salt{}), derive("id", []byte(`{"keys":[],"nonce":"00000000000000000000000000000000"}`)); got != want.String()[:32] {
		t.Errorf("id without keys: %s", got)
	}
}

// testWrites feeds b in random pieces, and reads the commitment on the way.
func testWrites(t *testing.T, r *rand.Rand, salt chain.Salt, b []byte) {
	p := chain.NewPartHasher(salt)
	for at := 0; ; {
		sum, n := p.Commit()
		if n != uint64(at) || sum != derive("part", salt[:], b[:at]) {
			t.Errorf("after %d of %d bytes: %d, %s", at, len(b), n, sum)
			return
		}
		if at == len(b) {
			return
		}
		next := min(len(b), at+r.IntN(1+len(b)/2+70))
		if n, err := p.Write(b[at:next]); n != next-at || err != nil {
			t.Errorf("Write: %d, %v", n, err)
			return
		}
		at = next
	}
}

// TestBLAKE3Published checks the build against the digests that BLAKE3's
// authors publish.
func TestBLAKE3Published(t *testing.T) {
	text, err := os.ReadFile("testdata/blake3.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		var n int
		var want string
		if _, err := fmt.Sscanf(line, "%d %s", &n, &want); err != nil {
			continue // the comment
		}
		seen++
		input := make([]byte, n)
		for i := range input {
			input[i] = byte(i % 251)
		}
		var got [32]byte
		zeebo.DeriveKey("BLAKE3 2019-12-27 16:29:52 test vectors context", input, got[:])
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: %x, not %s", n, got, want)
		}
	}
	if seen != 22 {
		t.Errorf("%d digests in the file, not 22", seen)
	}
}

// TestBLAKE3Builds runs the tests above once more in a process of its own for
// each way that the library can be told to take on this machine. With -tags
// purego they run on the portable code alone.
func TestBLAKE3Builds(t *testing.T) {
	for _, v := range []string{"BLAKE3_DISABLE_AVX2", "BLAKE3_DISABLE_SSE41", "BLAKE3_PUREGO"} {
		c := exec.Command(os.Args[0], "-test.run=^(TestBLAKE3|TestBLAKE3Published|TestSelfTest)$", "-test.v")
		c.Env = append(os.Environ(), v+"=1")
		out, err := c.CombinedOutput()
		if err != nil || bytes.Count(out, []byte("--- PASS")) != 3 {
			t.Errorf("%s=1: %v\n%s", v, err, out)
		}
	}
}

func TestSelfTest(t *testing.T) {
	if err := chain.SelfTest(); err != nil {
		t.Fatal(err)
	}
	repair := chain.BreakSelfTest()
	err := chain.SelfTest()
	repair()
	if !errors.Is(err, chain.ErrSelfTest) || !strings.Contains(err.Error(), "1024 bytes") {
		t.Errorf("with a wrong digest: %v", err)
	}
	if err := chain.SelfTest(); err != nil {
		t.Error(err)
	}
}

// TestContextsDiffer: no value of one kind can stand for another.
func TestContextsDiffer(t *testing.T) {
	b := []byte(strings.Repeat("0", 32))
	salt := chain.Salt(b[:16])
	seen := map[chain.Hash]string{}
	for name, h := range map[string]chain.Hash{
		"event":   chain.EventHash(b),
		"genesis": chain.Genesis(string(b)),
		"content": chain.ContentCommit(salt, b[16:]),
		"part":    chain.PartCommit(salt, b[16:]),
		"id":      derive("id", b),
	} {
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s give one hash", name, other)
		}
		seen[h] = name
	}
	if chain.ContentCommit(salt, b) == chain.ContentCommit(chain.Salt{}, b) {
		t.Error("the salt changes nothing")
	}
}

// TestHashersAreShared hashes from many goroutines at once: a hasher that two
// of them had at once would give wrong sums (and the race detector's word).
func TestHashersAreShared(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				b := bytes.Repeat([]byte{byte(g), byte(i)}, 1+i*3)
				salt := chain.Salt{byte(i)}
				if chain.EventHash(b) != derive("event", b) || chain.ContentCommit(salt, b) != derive("content", salt[:], b) {
					t.Errorf("goroutine %d, round %d: wrong sum", g, i)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestHashSpelling(t *testing.T) {
	h, err := chain.ParseHash(hexA)
	if err != nil || h.String() != hexA {
		t.Errorf("%s: %s, %v", hexA, h, err)
	}
	s, err := chain.ParseSalt(hexA[:32])
	if err != nil || s.String() != hexA[:32] {
		t.Errorf("%s: %s, %v", hexA[:32], s, err)
	}
	for c := range 256 {
		text := hexA[:17] + string([]byte{byte(c)}) + hexA[18:]
		_, err := chain.ParseHash(text)
		if want := strings.IndexByte("0123456789abcdef", byte(c)) >= 0; (err == nil) != want {
			t.Errorf("digit %#x: %v", c, err)
		}
	}
	for n := range 70 {
		text := strings.Repeat("0", n)
		if _, err := chain.ParseHash(text); (err == nil) != (n == 64) {
			t.Errorf("hash of %d digits: %v", n, err)
		}
		if _, err := chain.ParseSalt(text); (err == nil) != (n == 32) {
			t.Errorf("salt of %d digits: %v", n, err)
		}
		if err := chain.CheckLedgerID(text); (err == nil) != (n == 32) {
			t.Errorf("id of %d digits: %v", n, err)
		}
	}
}
