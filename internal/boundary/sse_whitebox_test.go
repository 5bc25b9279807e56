package boundary

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"
)

// sseEvent is what a test compares of an event.
type sseEvent struct {
	data string
	open bool
}

// split gives the events of a stream cut into pieces of size bytes, and checks
// that the pieces, joined, are the stream.
func split(t testing.TB, stream []byte, size, limit int) (events []sseEvent, long int, odd int) {
	t.Helper()
	var joined []byte
	s := newSplitter(nil)
	s.limit = limit
	s.emit = func(p piece) {
		joined = append(joined, p.raw...)
		if p.first {
			long++
		}
		if data, spans, ok := p.data(); ok {
			events = append(events, sseEvent{string(data), p.open})
			for _, sp := range spans {
				if got, want := p.raw[sp.raw:sp.raw+sp.length], data[sp.data:sp.data+sp.length]; !bytes.Equal(got, want) {
					t.Fatalf("span %+v is %q in the piece and %q in the data", sp, got, want)
				}
			}
		}
	}
	for piece := range slices.Chunk(stream, max(size, 1)) {
		s.write(slices.Clone(piece))
	}
	s.finish()
	if !bytes.Equal(joined, stream) {
		t.Fatalf("in pieces of %d the stream %q came out as %q", size, clipped(stream), clipped(joined))
	}
	return events, long, s.odd
}

func clipped(b []byte) string {
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []sseEvent
		odd          int
	}{
		{"LF", "data: a\n\ndata: b\n\n", []sseEvent{{"a", false}, {"b", false}}, 0},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []sseEvent{{"a", false}, {"b", false}}, 0},
		{"CR", "data: a\r\rdata: b\r\r", []sseEvent{{"a", false}, {"b", false}}, 0},
		{"mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []sseEvent{{"a", false}, {"b", false}, {"c", false}}, 0},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []sseEvent{{"a", false}}, 0},
		{"byte order mark, then a comment", "\xef\xbb\xbf: hi\n\ndata: a\n\n", []sseEvent{{"a", false}}, 0},
		{"byte order mark later on is text", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []sseEvent{{"a", false}}, 1},
		{"byte order mark alone", "\xef\xbb\xbf", nil, 0},
		{"one space only", "data:  a\n\ndata:b\n\n", []sseEvent{{" a", false}, {"b", false}}, 0},
		{"several data lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []sseEvent{{"a\nb\n\nc", false}}, 0},
		{"fields around", "id: 1\nevent: x\ndata: a\nretry: 5\n\n", []sseEvent{{"a", false}}, 0},
		{"comment inside", ": one\ndata: a\n: two\ndata: b\n\n", []sseEvent{{"a\nb", false}}, 0},
		{"no data", "event: ping\n\nretry: 3\n\ndata\n\ndata:\n\n", nil, 0},
		{"two empty data lines", "data\ndata\n\n", []sseEvent{{"\n", false}}, 0},
		{"closed by the end", "data: a\n\ndata: b", []sseEvent{{"a", false}, {"b", true}}, 0},
		{"closed by the end after a line end", "data: a\n\ndata: b\n", []sseEvent{{"a", false}, {"b", true}}, 0},
		{"closed by the end after CR", "data: b\r", []sseEvent{{"b", true}}, 0},
		{"other line separators are text", "data: a\u2028b\u0085c\vd\n\n", []sseEvent{{"a\u2028b\u0085c\vd", false}}, 0},
		{"no stream of events", "<html>\n<body>\n\n", nil, 2},
		{"colons in data", "data: a:b: c\n\n", []sseEvent{{"a:b: c", false}}, 0},
		{"empty", "", nil, 0},
		{"blank lines", "\n\r\n\r\n\n", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.stream)+1; size++ {
				got, long, odd := split(t, []byte(c.stream), size, maxEvent)
				if !slices.Equal(got, c.want) || odd != c.odd || long != 0 {
					t.Fatalf("in pieces of %d: %+v, %d odd lines, %d long events; want %+v, %d and 0", size, got, odd, long, c.want, c.odd)
				}
			}
		})
	}
}

// TestSplitterEmitsAtOnce: an event is there with its last byte; with CR or
// CRLF the LF that may follow is not waited for.
func TestSplitterEmitsAtOnce(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r"} {
		n := 0
		s := newSplitter(func(p piece) { n++ })
		s.write([]byte("data: a" + end))
		if n != 1 {
			t.Errorf("%q: %d pieces after the event's last byte, want 1", end, n)
		}
	}
	n := 0
	s := newSplitter(func(p piece) { n++ })
	s.write([]byte(": keep-alive\n"))
	if n != 1 {
		t.Errorf("%d pieces after a comment, want 1: it is not held for an event", n)
	}
}

// TestSplitterLongEvent: an event over the limit is flagged and passed over,
// and what follows is read, wherever the stream is cut.
func TestSplitterLongEvent(t *testing.T) {
	const limit = 20
	for _, nl := range []string{"\n", "\r\n", "\r"} {
		for n := range 40 {
			stream := "data: a" + nl + nl + "event: x" + nl + "data: " + strings.Repeat("y", n) + nl + nl + "data: b" + nl + nl + "data: c"
			inEvent := len("event: x"+nl+"data: ") + n
			for size := 1; size <= len(stream); size++ {
				got, long, _ := split(t, []byte(stream), size, limit)
				want := []sseEvent{{"a", false}, {strings.Repeat("y", n), false}, {"b", false}, {"c", true}}
				wantLong := 0
				if n == 0 {
					want = slices.Delete(want, 1, 2)
				} else if inEvent > limit {
					want, wantLong = slices.Delete(want, 1, 2), 1
				}
				if !slices.Equal(got, want) || long != wantLong {
					t.Fatalf("%d bytes in pieces of %d: %+v, %d long; want %+v, %d", n, size, got, long, want, wantLong)
				}
			}
		}
	}
}

// TestSplitterAgainstOracle compares well-formed random streams with another
// implementation, cut at every size.
func TestSplitterAgainstOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	events := 0
	for range 150 {
		stream := randomStream(rnd)
		var want []sseEvent
		for e, err := range sse.Read(strings.NewReader(stream), nil) {
			if err != nil {
				t.Fatalf("oracle: %v in %q", err, stream)
			}
			if e.Data != "" {
				want = append(want, sseEvent{e.Data, false})
			}
		}
		events += len(want)
		for size := 1; size <= len(stream); size++ {
			if got, _, _ := split(t, []byte(stream), size, maxEvent); !slices.Equal(got, want) {
				t.Fatalf("%q in pieces of %d:\n got %+v\nwant %+v", stream, size, got, want)
			}
		}
	}
	if events < 100 {
		t.Fatalf("%d events in all: the streams are too poor", events)
	}
}

// randomStream is a well-formed stream of up to ten events.
func randomStream(rnd *rand.Rand) string {
	var b strings.Builder
	nl := []string{"\n", "\r\n", "\r"}[rnd.IntN(3)]
	if rnd.IntN(4) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	for range 1 + rnd.IntN(10) {
		for range 1 + rnd.IntN(4) {
			b.WriteString(pick("data: ", "data:", "data:  ", "event: ", "id: ", ": ", ":", "retry: "))
			b.WriteString(pick("", "x", "{\"a\":1}", "ünïcode ✓", "a:b", " ", "7") + nl)
		}
		fmt.Fprintf(&b, "data: %d%s%s", rnd.IntN(1000), nl, nl)
	}
	return b.String()
}

func FuzzSplitter(f *testing.F) {
	seeds := goldenCasesFor(f)
	if len(seeds) == 0 {
		f.Fatal("no seed")
	}
	for _, s := range seeds {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		// split itself checks that nothing is lost; the cut may not matter.
		for _, limit := range []int{maxEvent, 64} {
			whole, long, odd := split(t, stream, len(stream), limit)
			cut, longCut, oddCut := split(t, stream, int(size), limit)
			if !slices.Equal(whole, cut) || long != longCut || odd != oddCut {
				t.Fatalf("whole: %+v, %d, %d; in pieces of %d: %+v, %d, %d", whole, long, odd, size, cut, longCut, oddCut)
			}
		}
	})
}

// goldenCasesFor are the streams among the worked cases that are not too long.
func goldenCasesFor(t testing.TB) (streams []string) {
	t.Helper()
	for _, c := range goldenCases(t) {
		if strings.HasPrefix(c.Headers["content-type"], "text/event-stream") && len(c.Body) < 4096 {
			streams = append(streams, c.Body)
		}
	}
	return streams
}
