package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
	"go.etcd.io/bbolt"
)

// write is one write to the ledger file.
type write struct {
	off int64
	b   []byte
}

// recordWrites takes a copy of every write that db makes from now on. The
// field is bbolt's own hook for tests.
func recordWrites(db *bbolt.DB, to func(write)) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	inner := *hook
	*hook = func(b []byte, off int64) (int, error) {
		to(write{off, bytes.Clone(b)})
		return inner(b, off)
	}
}

// commitTrace is what one commit wrote: data, synced, and then one meta page,
// synced. Before it acked events were acknowledged, after it events are there.
type commitTrace struct {
	data          []write
	meta          write
	acked, events uint64
}

// crashRun appends by n commits of many kinds and returns what the file held
// before, what each commit wrote, and the events in the end.
func crashRun(t *testing.T, n int, random *rand.Rand) (base []byte, commits []commitTrace, events []chain.Event) {
	l := storetest.Open(t)
	base = usedBytes(t, l.Path())
	var now commitTrace
	recordWrites(l.DB(), func(w write) {
		if w.off < 2*store.PageSize {
			now.meta = w
			return
		}
		now.data = append(now.data, w)
	})
	for i := range n {
		now = commitTrace{acked: l.Head().Seq}
		crashStep(t, l.Store, i, random)
		now.events = l.Head().Seq
		if now.meta.b == nil || len(now.data) == 0 {
			t.Fatalf("commit %d wrote %d data pages and no meta page", i, len(now.data))
		}
		commits = append(commits, now)
	}
	return base, commits, readAll(t, l.Store)
}

// crashStep makes one commit.
func crashStep(t *testing.T, s *store.Store, i int, random *rand.Rand) {
	t.Helper()
	run := fmt.Sprint("r", i/10)
	var drafts []store.Draft
	add := func(h chain.Header, size int) {
		drafts = append(drafts, store.Draft{Header: h, Content: fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte("x"), size))})
	}
	if i%10 == 0 {
		add(chain.Header{Type: chain.TypeRunOpened, Run: run}, 1)
	}
	body := map[string]chain.Part{"request": {Media: "x/y"}}
	answer := map[string]chain.Part{"response": {Media: "x/y"}}
	next := s.Head().Seq + uint64(len(drafts)) + 1
	switch i % 5 {
	case 0, 1:
		cost, err := chain.ParseAmount("0.000021")
		if err != nil {
			t.Fatal(err)
		}
		price, err := chain.ParsePrice("3")
		if err != nil {
			t.Fatal(err)
		}
		add(chain.Header{Type: chain.TypeRequest, Run: run, Parts: body}, 100)
		add(chain.Header{Type: chain.TypeResponse, Run: run, Call: next, Parts: answer, Meter: &chain.Meter{
			Model: "m", Provider: fmt.Sprint("p", i%3), Source: chain.SourceReported,
			Usage: map[string]uint64{"input": 7}, Prices: map[string]chain.Decimal{"input": price}, Cost: &cost,
		}}, 200)
	case 2:
		add(chain.Header{Type: "tool.call", Run: run, Key: fmt.Sprint("k", i)}, random.IntN(20_000))
	case 3:
		for range random.IntN(12) + 1 {
			add(chain.Header{Type: "tool.call", Run: run}, random.IntN(900))
		}
	case 4:
		add(chain.Header{Type: "note.taken", Key: fmt.Sprint("k", i)}, 0)
	}
	if _, err := s.AppendAll(t.Context(), drafts); err != nil {
		t.Fatal(err)
	}
}

// usedBytes is the file at path without the zeros behind its pages.
func usedBytes(t *testing.T, path string) []byte {
	b := bytes.TrimRight(bytesOf(t, path), "\x00")
	return append(b, make([]byte, (store.PageSize-len(b)%store.PageSize)%store.PageSize)...)
}

// apply writes w into image, which grows.
func (w write) apply(image []byte) []byte {
	if need := int(w.off) + len(w.b); need > len(image) {
		image = append(image, make([]byte, need-len(image))...)
	}
	copy(image[w.off:], w.b)
	return image
}

// images calls fn with every state in which a power cut during c can leave the
// file: any subset of the data written since the last sync, each write whole
// or torn at a sector, and after the data's sync the meta page likewise. Where
// the subsets are too many, as many as most are drawn.
func (c commitTrace) images(before []byte, most int, random *rand.Rand, fn func(what string, image []byte)) {
	const sector = 512
	subset := func(mask uint64, torn int, cut int) []byte {
		image := bytes.Clone(before)
		for i, w := range c.data {
			if mask>>i&1 == 0 {
				continue
			}
			if i == torn {
				w.b = w.b[:cut]
			}
			image = w.apply(image)
		}
		return image
	}
	all := uint64(1)<<len(c.data) - 1
	masks := map[uint64]bool{0: true, all: true}
	for mask := uint64(0); all < uint64(most) && mask <= all; mask++ {
		masks[mask] = true
	}
	for len(masks) < min(most, int(all)) {
		masks[random.Uint64()&all] = true
	}
	for mask := range maps.Keys(masks) {
		fn(fmt.Sprintf("data %b", mask), subset(mask, -1, 0))
	}
	for i, w := range c.data {
		cut := sector * (1 + random.IntN(len(w.b)/sector-1))
		fn(fmt.Sprintf("data %d torn at %d", i, cut), subset(all, i, cut))
	}
	synced := subset(all, -1, 0)
	for _, cut := range []int{0, sector, sector * (2 + random.IntN(10)), len(c.meta.b)} {
		image := bytes.Clone(synced)
		fn(fmt.Sprintf("meta torn at %d", cut), write{c.meta.off, c.meta.b[:cut]}.apply(image))
	}
	image := bytes.Clone(synced)
	fn("meta without its first sector", write{c.meta.off + sector, c.meta.b[sector:]}.apply(image))
}

// after is the file when c is done.
func (c commitTrace) after(image []byte) []byte {
	for _, w := range c.data {
		image = w.apply(image)
	}
	return c.meta.apply(image)
}

// Whatever a power cut leaves of a commit, the file is a ledger: every event
// that was acknowledged is there, the group in flight is there wholly or not
// at all, and what is derived fits. Some images are also taken up by a store.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	image, traces, events := crashRun(t, crashCommits, random)
	path := filepath.Join(t.TempDir(), "ledger.db")
	judged := 0
	for i, c := range traces {
		c.images(image, crashSubsets, random, func(what string, image []byte) {
			judged++
			if t.Failed() {
				return
			}
			judgeImage(t, path, fmt.Sprintf("commit %d: %s", i, what), image, c, events)
			if judged%60 == 0 {
				takeUp(t, path, c)
			}
		})
		image = c.after(image)
	}
	t.Logf("%d images of %d commits", judged, len(traces))
	if judged < 10*crashCommits {
		t.Errorf("only %d images", judged)
	}
}

// The images would show a storage that doesn't keep the order: with the meta
// page on the disk and a page of the data not, some are no longer the ledger.
func TestPowerCutIsSeen(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 1))
	image, traces, events := crashRun(t, 10, random)
	path := filepath.Join(t.TempDir(), "ledger.db")
	seen := 0
	for _, c := range traces {
		for lost := range c.data {
			broken := bytes.Clone(image)
			for i, w := range c.data {
				if i != lost {
					broken = w.apply(broken)
				}
			}
			if err := os.WriteFile(path, c.meta.apply(broken), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := verify.File(t.Context(), path, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != verify.Intact || r.Events != c.events || r.Head != events[c.events-1].Hash.String() {
				seen++
			}
		}
		image = c.after(image)
	}
	if seen < len(traces) {
		t.Errorf("of %d commits that lost a page each, %d were noticed", len(traces), seen)
	}
}

// judgeImage writes the image to path and judges it.
func judgeImage(t *testing.T, path, what string, image []byte, c commitTrace, events []chain.Event) {
	t.Helper()
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	r := storetest.Check(t, path, verify.Intact)
	if r == nil {
		t.Fatal(what)
	}
	if r.Events != c.acked && r.Events != c.events {
		t.Errorf("%s: %d events; %d were acknowledged, %d are in flight", what, r.Events, c.acked, c.events-c.acked)
		return
	}
	if want := events[r.Events-1].Hash.String(); r.Head != want {
		t.Errorf("%s: head %s, not %s: another history", what, r.Head, want)
	}
}

// takeUp lets a store of the next boot go on from the image at path.
func takeUp(t *testing.T, path string, c commitTrace) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"boot": "another", "closed": false, "storage_error": false, "durable": 0, "unavailable": 0, "pid": 1, "host": "h", "started": "s"})
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, bytes.Repeat([]byte(" "), store.MarkerSize-1-len(b))...)
	if err := os.WriteFile(store.MarkerPath(path), append(b, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), path, store.Options{Verify: storetest.Verify})
	if err != nil {
		t.Error(err)
		return
	}
	if got := s.Head().Seq; got != c.acked && got != c.events {
		t.Errorf("taken up at %d", got)
	}
	mustAppend(t, s, keyed("after-the-cut", "x"))
	mustClose(t, s)
	storetest.Check(t, path, verify.Intact)
}
