package verify_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/verify"
)

const dbEvents = 241

// makeDB is a database of a few levels, and its events.
func makeDB(t testing.TB) (path string, events []*chain.Event) { return makeDBOf(t, dbEvents) }

func makeDBOf(t testing.TB, n int) (path string, events []*chain.Event) {
	t.Helper()
	l := newLedger(t, 7)
	l.every = 50
	events = l.take(n)
	path = filepath.Join(t.TempDir(), "ledger.db")
	writeDB(t, path, 4096, 40, events)
	return path, events
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fewer says whether a report passes although events are missing.
func fewer(r *verify.Report) bool { return r.Verdict == verify.Intact && r.Events < dbEvents }

// TestTruncatedDatabase cuts a database at every page and a little beside it.
func TestTruncatedDatabase(t *testing.T) {
	path, _ := makeDB(t)
	b := readFile(t, path)
	want(t, verifyFile(t, path, verify.Options{}), verify.Intact, 0)
	for at := 0; at < len(b); at += 4096 {
		for _, n := range []int{at, at + 17, at + 4095} {
			r := verifyBytes(t, b[:min(n, len(b))], verify.Options{Workers: 1})
			if fewer(r) {
				t.Errorf("cut at %d: intact with %d events", n, r.Events)
			}
			if v := r.Verdict; v != verify.Torn && v != verify.Intact && !(n < 4096 && v == verify.Malformed) {
				t.Errorf("cut at %d: %s", n, v)
			}
		}
	}
}

// TestFlippedMeta flips each bit of both meta pages, alone: the file is torn,
// and says that it may be rolled back, for no other reason.
func TestFlippedMeta(t *testing.T) {
	const n = 61
	path, _ := makeDBOf(t, n)
	b := readFile(t, path)
	for meta := range 2 {
		for bit := 0; bit < 8*(16+64); bit += sweep(1) {
			c := bytes.Clone(b)
			c[meta*4096+bit/8] ^= 1 << (bit % 8)
			r := verifyBytes(t, c, verify.Options{Workers: 1})
			if d := r.Deciding(); r.Verdict != verify.Torn || !strings.Contains(d.Detail, "rolled back by one commit") || d.Seq != r.Events+1 || r.Events < n-40 {
				t.Fatalf("meta %d, bit %d: %s (%v), %d events", meta, bit, r.Verdict, d, r.Events)
			}
		}
	}
	for bit := 0; bit < 8*(16+64); bit += sweep(1) {
		c := bytes.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		c[4096+bit/8] ^= 1 << (bit % 8)
		if r := verifyBytes(t, c, verify.Options{Workers: 1}); r.Verdict != verify.Torn && r.Verdict != verify.Malformed {
			t.Fatalf("both metas, bit %d: %s", bit, r.Verdict)
		}
	}
}

// TestRolledBackAnchored: an anchor that shows more than the older state makes
// it cut.
func TestRolledBackAnchored(t *testing.T) {
	path, events := makeDB(t)
	b := readFile(t, path)
	newest := 0
	if binary.LittleEndian.Uint64(b[16+48:]) < binary.LittleEndian.Uint64(b[4096+16+48:]) {
		newest = 4096
	}
	b[newest+40] ^= 1
	plain := verifyBytes(t, b, verify.Options{})
	want(t, plain, verify.Torn, plain.Events+1)
	if plain.Events >= dbEvents {
		t.Fatalf("%d events, so nothing was rolled back", plain.Events)
	}
	a, err := verify.ParseAnchor("head", fmt.Appendf(nil, `{"size":%d,"head":"%s"}`, dbEvents, events[dbEvents-1].Hash))
	if err != nil {
		t.Fatal(err)
	}
	want(t, verifyBytes(t, b, verify.Options{Expect: []verify.Anchor{a}}), verify.Cut, plain.Events)
}

// TestInUse: a database that somebody has open is not judged.
func TestInUse(t *testing.T) {
	path, _ := makeDB(t)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := verifyFile(t, path, verify.Options{})
	want(t, r, verify.Torn, 1)
	if d := r.Deciding(); d == nil || !strings.Contains(d.Detail, "docket snapshot") || !strings.Contains(d.Detail, fmt.Sprint(os.Getpid())) {
		t.Errorf("detail %v names neither the holder nor the way out", d)
	}
	if r.Checks["form"].Result != verify.Skip || r.Events != 0 {
		t.Errorf("something was judged: %+v", r)
	}
	if _, err := verify.OpenSource(path); !errors.Is(err, verify.ErrInUse) || !errors.Is(err, verify.ErrTorn) {
		t.Errorf("OpenSource: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, verifyFile(t, path, verify.Options{}), verify.Intact, 0)
}

// craft is a database whose bytes are changed with knowledge of its pages.
type craft struct{ b []byte }

func (c craft) page(id uint64) []byte { return c.b[id*4096 : (id+1)*4096] }
func (c craft) count(id uint64) int   { return int(binary.LittleEndian.Uint16(c.page(id)[10:])) }

func (c craft) meta() []byte {
	a, b := c.b[16:80], c.b[4096+16:4096+80]
	if binary.LittleEndian.Uint64(a[48:]) > binary.LittleEndian.Uint64(b[48:]) {
		return a
	}
	return b
}

func (c craft) sumMeta() {
	h := fnv.New64a()
	h.Write(c.meta()[:56])
	binary.LittleEndian.PutUint64(c.meta()[56:], h.Sum64())
}

// events finds the root page of the events bucket and where its number stands.
func (c craft) events(t *testing.T) (root uint64, at []byte) {
	t.Helper()
	id := binary.LittleEndian.Uint64(c.meta()[16:])
	p := c.page(id)
	for i := range c.count(id) {
		e := p[16+16*i:]
		pos, klen := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
		if string(e[pos:pos+klen]) == chain.BucketEvents {
			at = e[pos+klen : pos+klen+8]
			return binary.LittleEndian.Uint64(at), at
		}
	}
	t.Fatal("no bucket of events")
	return 0, nil
}

func (c craft) child(branch uint64, i int) []byte { return c.page(branch)[16+16*i+8:][:8] }

// TestCraftedDatabase builds what makes a walk loop, or show fewer events and
// no error: every one is torn, and none is intact or empty.
func TestCraftedDatabase(t *testing.T) {
	path, _ := makeDB(t)
	good := readFile(t, path)
	put := binary.LittleEndian.PutUint64
	for name, change := range map[string]func(t *testing.T, c craft){
		"shared subtree": func(t *testing.T, c craft) { r, _ := c.events(t); copy(c.child(r, 1), c.child(r, 0)) },
		"self root":      func(t *testing.T, c craft) { r, _ := c.events(t); put(c.child(r, 0), r) },
		"last child gone": func(t *testing.T, c craft) {
			r, _ := c.events(t)
			binary.LittleEndian.PutUint16(c.page(r)[10:], uint16(c.count(r)-1))
		},
		"branch of none": func(t *testing.T, c craft) { r, _ := c.events(t); binary.LittleEndian.PutUint16(c.page(r)[10:], 0) },
		"false count": func(t *testing.T, c craft) {
			r, _ := c.events(t)
			binary.LittleEndian.PutUint16(c.page(r)[10:], 0xffff)
		},
		"false overflow": func(t *testing.T, c craft) {
			r, _ := c.events(t)
			binary.LittleEndian.PutUint32(c.page(r)[12:], 0xffffffff)
		},
		"foreign root": func(t *testing.T, c craft) {
			r, at := c.events(t)
			copy(at, c.child(r, 0))
		},
		"root beyond the file": func(t *testing.T, c craft) { _, at := c.events(t); put(at, 1<<40) },
		"root is a meta page":  func(t *testing.T, c craft) { _, at := c.events(t); put(at, 1) },
		"leaf of none": func(t *testing.T, c craft) {
			r, _ := c.events(t)
			id := binary.LittleEndian.Uint64(c.child(r, 2))
			binary.LittleEndian.PutUint16(c.page(id)[10:], 0)
		},
		"leaf cut by one": func(t *testing.T, c craft) {
			r, _ := c.events(t)
			id := binary.LittleEndian.Uint64(c.child(r, c.count(r)-1))
			binary.LittleEndian.PutUint16(c.page(id)[10:], uint16(c.count(id)-1))
		},
		"high-water mark": func(t *testing.T, c craft) { put(c.meta()[40:], 1<<50); c.sumMeta() },
		"no pages":        func(t *testing.T, c craft) { put(c.meta()[40:], 0); c.sumMeta() },
		"root in meta":    func(t *testing.T, c craft) { put(c.meta()[16:], 3); c.sumMeta() },
	} {
		t.Run(name, func(t *testing.T) {
			c := craft{bytes.Clone(good)}
			change(t, c)
			if bytes.Equal(c.b, good) {
				t.Fatal("nothing was changed")
			}
			r := verifyBytes(t, c.b, verify.Options{})
			switch {
			case name == "leaf of none":
				// A leaf in the middle that is empty is a gap in the numbers.
				if r.Verdict != verify.Missing {
					t.Errorf("%s: %v", r.Verdict, r.Deciding())
				}
			case r.Verdict != verify.Torn:
				t.Errorf("%s: %v", r.Verdict, r.Deciding())
			}
		})
	}
	// The free list is never read, so it may be anywhere.
	c := craft{bytes.Clone(good)}
	put(c.meta()[32:], 1<<60)
	c.sumMeta()
	want(t, verifyBytes(t, c.b, verify.Options{}), verify.Intact, 0)
}

// TestUnknownBucket: a bucket that is none of a ledger's is named.
func TestUnknownBucket(t *testing.T) {
	path, _ := makeDB(t)
	update(t, path, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("stowaway")); return err })
	r := verifyFile(t, path, verify.Options{})
	want(t, r, verify.Intact, 0)
	if !strings.Contains(strings.Join(r.Notes, "\n"), `"stowaway"`) {
		t.Errorf("notes %q", r.Notes)
	}
}

func update(t testing.TB, path string, fn func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// TestDatabaseCases are things done to a database through its own code.
func TestDatabaseCases(t *testing.T) {
	events := func(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket([]byte(chain.BucketEvents)) }
	recode := func(tx *bolt.Tx, seq uint64, change func(e *chain.Event)) error {
		e, err := chain.DecodeEvent(bytes.Clone(events(tx).Get(chain.SeqKey(seq))))
		if err != nil {
			return err
		}
		change(e)
		return events(tx).Put(chain.SeqKey(seq), chain.EncodeEvent(nil, e))
	}
	for name, c := range map[string]struct {
		change  func(tx *bolt.Tx) error
		verdict verify.Verdict
		seq     uint64
	}{
		"event deleted": {func(tx *bolt.Tx) error { return events(tx).Delete(chain.SeqKey(150)) }, verify.Missing, 150},
		"first deleted": {func(tx *bolt.Tx) error { return events(tx).Delete(chain.SeqKey(1)) }, verify.Missing, 1},
		"last deleted":  {func(tx *bolt.Tx) error { return events(tx).Delete(chain.SeqKey(dbEvents)) }, verify.Torn, dbEvents},
		"all deleted": {func(tx *bolt.Tx) error {
			if err := tx.DeleteBucket([]byte(chain.BucketEvents)); err != nil {
				return err
			}
			_, err := tx.CreateBucket([]byte(chain.BucketEvents))
			return err
		}, verify.Torn, 1},
		"bucket deleted": {func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketEvents)) }, verify.Torn, 1},
		"content gone":   {func(tx *bolt.Tx) error { return recode(tx, 200, func(e *chain.Event) { e.Content = nil }) }, verify.Missing, 200},
		"content edited": {func(tx *bolt.Tx) error { return recode(tx, 200, func(e *chain.Event) { e.Content = []byte(`{}`) }) }, verify.Altered, 200},
		"content not canonical": {func(tx *bolt.Tx) error {
			return recode(tx, 200, func(e *chain.Event) { e.Content = []byte(`{ }`) })
		}, verify.Malformed, 200},
		"hash edited": {func(tx *bolt.Tx) error { return recode(tx, 200, func(e *chain.Event) { e.Hash[0] ^= 1 }) }, verify.Altered, 200},
		"swapped": {func(tx *bolt.Tx) error {
			a, b := bytes.Clone(events(tx).Get(chain.SeqKey(100))), bytes.Clone(events(tx).Get(chain.SeqKey(101)))
			return errors.Join(events(tx).Put(chain.SeqKey(100), b), events(tx).Put(chain.SeqKey(101), a))
		}, verify.Reordered, 100},
		"copied over": {func(tx *bolt.Tx) error {
			return events(tx).Put(chain.SeqKey(100), bytes.Clone(events(tx).Get(chain.SeqKey(99))))
		}, verify.Reordered, 100},
		"not an event": {func(tx *bolt.Tx) error { return events(tx).Put(chain.SeqKey(100), []byte("x")) }, verify.Malformed, 100},
		"foreign key":  {func(tx *bolt.Tx) error { return events(tx).Put([]byte("zzz"), []byte("x")) }, verify.Malformed, dbEvents + 1},
		"number 0":     {func(tx *bolt.Tx) error { return events(tx).Put(chain.SeqKey(0), []byte("x")) }, verify.Malformed, 1},
		"later schema": {func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeySchema), chain.EncodeSchema(99))
		}, verify.Unverifiable, 1},
		"schema broken": {func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeySchema), []byte("x"))
		}, verify.Intact, 0},
		"head broken": {func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeyHead), []byte("x"))
		}, verify.Intact, 0},
		"meta gone":    {func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketMeta)) }, verify.Intact, 0},
		"derived gone": {func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketRuns)) }, verify.Intact, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := makeDB(t)
			update(t, path, c.change)
			before := readFile(t, path)
			want(t, verifyFile(t, path, verify.Options{}), c.verdict, c.seq)
			if !bytes.Equal(before, readFile(t, path)) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestForeignFiles: absent, empty, foreign and unreadable are told apart.
func TestForeignFiles(t *testing.T) {
	want(t, verifyFile(t, writeFile(t, "empty", nil), verify.Options{}), verify.Torn, 1)
	want(t, verifyFile(t, writeFile(t, "zeros", make([]byte, 1<<20)), verify.Options{}), verify.Malformed, 1)
	want(t, verifyFile(t, writeFile(t, "text", []byte("hello\nworld\n")), verify.Options{}), verify.Malformed, 1)
	want(t, verifyFile(t, writeFile(t, "json", []byte("{\"a\":1}\n")), verify.Options{}), verify.Malformed, 1)
	random := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	want(t, verifyFile(t, writeFile(t, "random", random), verify.Options{}), verify.Malformed, 1)
	other := filepath.Join(t.TempDir(), "other.db")
	update(t, other, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("users")); return err })
	want(t, verifyFile(t, other, verify.Options{}), verify.Malformed, 1)
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	db, err := bolt.Open(fresh, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	want(t, verifyFile(t, fresh, verify.Options{}), verify.Malformed, 1)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// A pipe that nobody writes to must not hold it.
	for _, path := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir(), pipe, "/dev/zero"} {
		if _, err := verify.File(context.Background(), path, verify.Options{}); err == nil {
			t.Errorf("%s: no error", path)
		}
		if _, err := verify.OpenSource(path); err == nil {
			t.Errorf("%s: a source", path)
		}
	}
}

const (
	childEnv   = "DOCKET_VERIFY_CHILD"
	childLimit = 3 << 30 // of address space, of which a Go program reserves much
)

// child verifies the files that are named on its input, one a line, and
// answers each with verdict and number of events.
func child() int {
	limit := syscall.Rlimit{Cur: childLimit, Max: childLimit}
	if !raceEnabled {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
			fmt.Println("limit:", err)
			return 1
		}
	}
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		r, err := verify.File(context.Background(), s.Text(), verify.Options{})
		if err != nil {
			fmt.Println("error", 0)
			continue
		}
		fmt.Println(r.Verdict, r.Events)
	}
	return 0
}

// mutations changes a database at random and has a child with little memory
// judge each within five seconds.
func mutations(t *testing.T, n int) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DOCKET_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("DOCKET_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const stored = 121
	path, _ := makeDBOf(t, stored)
	good := readFile(t, path)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	file := filepath.Join(t.TempDir(), "mutated.db")
	counts := map[string]int{}
	for i := range n {
		b, what := mutate(rnd, good)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		io.WriteString(in, file+"\n")
		line, err := answers.ReadString('\n')
		timer.Stop()
		var verdict string
		var events uint64
		if _, scanErr := fmt.Sscan(line, &verdict, &events); err != nil || scanErr != nil || verdict == "error" {
			t.Fatalf("mutation %d (%s): the child answered %q (%v)", i, what, line, err)
		}
		// With both checksums made right the state before the last commit,
		// of one event, is as good as any.
		older := events == stored-1 && strings.Contains(what, "sums made right")
		if counts[verdict]++; verdict == string(verify.Intact) && events < stored && !older {
			t.Fatalf("mutation %d (%s): intact with %d events", i, what, events)
		}
		// Pages in each other's place are what a copy finds that was taken
		// while the file was written: no reason to accuse anybody.
		if !strings.Contains(what, "byte") && verdict != string(verify.Intact) && verdict != string(verify.Torn) {
			t.Fatalf("mutation %d (%s): %s", i, what, verdict)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
	t.Logf("%v", counts)
}

// mutate changes a few bytes, mostly where pages keep their structure.
func mutate(rnd *rand.Rand, good []byte) (b []byte, what string) {
	b = bytes.Clone(good)
	pages := len(b) / 4096
	for range 1 + rnd.IntN(3) {
		page := rnd.IntN(pages)
		at := page * 4096
		switch rnd.IntN(6) {
		case 0: // the page's header
			at += rnd.IntN(16)
		case 1: // its entries
			at += 16 + rnd.IntN(256)
		case 2: // a meta page
			at = rnd.IntN(2)*4096 + rnd.IntN(80)
		case 3: // anywhere
			at += rnd.IntN(4096)
		case 4: // one page over another that is not a meta page
			if page < 2 {
				continue
			}
			from := rnd.IntN(pages) * 4096
			copy(b[at:at+4096], b[from:from+4096])
			what += fmt.Sprintf("page %d over %d; ", from/4096, page)
			continue
		case 5: // the end
			if rnd.IntN(8) == 0 {
				b = b[:at+1]
				pages = max(1, len(b)/4096)
			}
		}
		if at = min(at, len(b)-1); rnd.IntN(2) == 0 {
			b[at] ^= 1 << rnd.IntN(8)
		} else {
			b[at] = byte(rnd.Uint32())
		}
		what += fmt.Sprintf("byte %d; ", at)
		if rnd.IntN(4) == 0 && len(b) > 2*4096 {
			// With a checksum that fits, so that what it guards is read.
			for meta := range 2 {
				h := fnv.New64a()
				h.Write(b[meta*4096+16 : meta*4096+72])
				binary.LittleEndian.PutUint64(b[meta*4096+72:], h.Sum64())
			}
			what += "sums made right; "
		}
	}
	return b, what
}

func TestMutations(t *testing.T) { mutations(t, 2000) }
