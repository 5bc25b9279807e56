package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"golang.org/x/sys/unix"
)

// slice is how long one side of the comparison runs before the other has its
// turn: disks and neighbours change over longer times.
const slice = 70 * time.Millisecond

// BenchmarkAppend appends by n goroutines that each wait for their answer, and
// reports the rate, and its ratio to a floor that is measured in the same
// moments: the same bytes written to a growing file, grouped alike, fdatasync
// after each group. Sync mode: every answer durable.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{300, 2048} {
		for _, n := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("bytes=%d/appenders=%d", size, n), func(b *testing.B) { benchAppend(b, size, n) })
		}
	}
}

func benchAppend(b *testing.B, size, n int) {
	path := newLedger(b)
	s := open(b, path)
	commits := s.Interpose(false, nil)
	d := draftOf(b, size)
	floor := newFloor(b, size)
	defer floor.close()
	var events, floorEvents int64
	var took, floorTook time.Duration
	run := func(append func() error) (int64, time.Duration) {
		var done atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for range n {
			wg.Go(func() {
				for time.Since(start) < slice {
					if err := append(); err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		wg.Wait()
		return done.Load(), time.Since(start)
	}
	for b.Loop() {
		e, t := run(func() error { _, err := s.Append(b.Context(), d); return err })
		events, took = events+e, took+t
		e, t = run(floor.append)
		floorEvents, floorTook = floorEvents+e, floorTook+t
	}
	rate := float64(events) / took.Seconds()
	floorRate := float64(floorEvents) / floorTook.Seconds()
	b.ReportMetric(rate, "events/s")
	b.ReportMetric(floorRate, "floor/s")
	b.ReportMetric(rate/floorRate, "of-floor")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(events)/float64(commits.Commits), "events/commit")
	b.ReportMetric(0, "ns/op")
}

// draftOf is a tool.call whose header, content and salt take about size bytes.
func draftOf(tb testing.TB, size int) store.Draft {
	tb.Helper()
	d := store.Draft{Header: chain.Header{Type: "tool.call", Run: "run-1"}}
	h := d.Header
	h.TS, h.Seq, h.RunSeq = "2026-11-30T00:00:00.000000000Z", 100000, 100000
	fixed := len(h.Append(nil)) + len(chain.Salt{}) + len(`{"name":""}`)
	d.Content = fmt.Appendf(nil, `{"name":"%s"}`, strings.Repeat("x", max(0, size-fixed)))
	return d
}

// floor is the least that a durable append can do: it writes bytes behind
// others and syncs once for everybody who came meanwhile.
type floor struct {
	file    *os.File
	size    int
	mu      sync.Mutex
	cond    *sync.Cond
	waiting []chan error
	stop    bool
	done    chan struct{}
}

func newFloor(tb testing.TB, size int) *floor {
	tb.Helper()
	f, err := os.Create(filepath.Join(tb.TempDir(), "floor"))
	if err != nil {
		tb.Fatal(err)
	}
	fl := &floor{file: f, size: size, done: make(chan struct{})}
	fl.cond = sync.NewCond(&fl.mu)
	go fl.loop()
	return fl
}

func (f *floor) append() error {
	c := make(chan error, 1)
	f.mu.Lock()
	f.waiting = append(f.waiting, c)
	f.cond.Signal()
	f.mu.Unlock()
	return <-c
}

func (f *floor) loop() {
	defer close(f.done)
	buf := make([]byte, 1<<22)
	for {
		f.mu.Lock()
		for len(f.waiting) == 0 && !f.stop {
			f.cond.Wait()
		}
		if f.stop {
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.gather()
		f.mu.Lock()
		group := f.waiting
		f.waiting = nil
		f.mu.Unlock()
		_, err := f.file.Write(buf[:len(group)*f.size])
		if err == nil {
			err = unix.Fdatasync(int(f.file.Fd()))
		}
		for _, c := range group {
			c <- err
		}
	}
}

// gather is the store's own way to let a group fill.
func (f *floor) gather() {
	before := 0
	for range 50 {
		f.mu.Lock()
		n := len(f.waiting)
		f.mu.Unlock()
		if n == before {
			return
		}
		before = n
		runtime.Gosched()
	}
}

func (f *floor) close() {
	f.mu.Lock()
	f.stop = true
	f.cond.Signal()
	f.mu.Unlock()
	<-f.done
	f.file.Close()
}
