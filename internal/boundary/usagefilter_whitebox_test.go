package boundary

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// filter runs a stream cut into pieces of size bytes through a usageFilter.
func filter(stream []byte, size int) []byte {
	var out []byte
	f := newUsageFilter()
	for piece := range slices.Chunk(stream, max(size, 1)) {
		out = append(out, f.write(slices.Clone(piece))...)
	}
	return append(out, f.finish()...)
}

func TestUsageFilter(t *testing.T) {
	const extra = `{"id":"c","choices":[],"usage":{"prompt_tokens":1}}`
	for _, c := range []struct{ name, in, want string }{
		{"the chunk and the nulls",
			"data: {\"choices\":[{\"a\":1}],\"usage\":null}\n\ndata: " + extra + "\n\ndata: [DONE]\n\n",
			"data: {\"choices\":[{\"a\":1}]}\n\ndata: [DONE]\n\n"},
		{"CRLF", "data: " + extra + "\r\n\r\ndata: [DONE]\r\n\r\n", "data: [DONE]\r\n\r\n"},
		{"CR", "data: " + extra + "\r\rdata: [DONE]\r\r", "data: [DONE]\r\r"},
		{"null first", `data: {"usage":null,"choices":[1]}` + "\n\n", `data: {"choices":[1]}` + "\n\n"},
		{"null first with spaces", `data: { "usage" : null , "choices":[1] }` + "\n\n", `data: { "choices":[1] }` + "\n\n"},
		{"null in the middle with spaces", `data: {"choices": [1], "usage": null, "b": 2}` + "\n\n", `data: {"choices": [1], "b": 2}` + "\n\n"},
		{"null deeper down is another's", `data: {"choices":[{"usage":null}]}` + "\n\n", `data: {"choices":[{"usage":null}]}` + "\n\n"},
		{"null with empty choices", `data: {"choices":[],"usage":null,"x":1}` + "\n\n", `data: {"choices":[],"x":1}` + "\n\n"},
		{"usage with text stays", `data: {"choices":[{"t":"x"}],"usage":{"prompt_tokens":1}}` + "\n\n", `data: {"choices":[{"t":"x"}],"usage":{"prompt_tokens":1}}` + "\n\n"},
		{"an error stays", `data: {"error":{"m":1},"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n", `data: {"error":{"m":1},"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n"},
		{"no choices", `data: {"usage":null}` + "\n\n", `data: {"usage":null}` + "\n\n"},
		{"usage twice", `data: {"choices":[1],"usage":null,"usage":null}` + "\n\n", `data: {"choices":[1],"usage":null,"usage":null}` + "\n\n"},
		{"choices twice", `data: {"choices":[],"usage":null,"choices":[1]}` + "\n\n", `data: {"choices":[],"usage":null,"choices":[1]}` + "\n\n"},
		{"broken JSON", `data: {"choices":[],"usage":null` + "\n\n", `data: {"choices":[],"usage":null` + "\n\n"},
		{"two values", "data: " + extra + extra + "\n\n", "data: " + extra + extra + "\n\n"},
		{"no JSON", "data: hello\n\n: c\n\nevent: x\n\n", "data: hello\n\n: c\n\nevent: x\n\n"},
		{"fields of the chunk go with it", "event: message\nid: 7\ndata: " + extra + "\n\ndata: b\n\n", "data: b\n\n"},
		{"a comment in it stays", ": a\nevent: message\n: b\ndata: " + extra + "\n: c\n\ndata: b\n\n", ": a\n: b\n: c\ndata: b\n\n"},
		{"a byte order mark stays", "\xef\xbb\xbfdata: " + extra + "\n\ndata: b\n\n", "\xef\xbb\xbfdata: b\n\n"},
		{"over several lines", "data: {\"choices\":[1]\ndata: ,\"usage\":\ndata: null}\n\n", "data: {\"choices\":[1]}\n\n"},
		{"over several lines with CRLF", "data: {\"choices\":[1],\r\ndata:\"usage\":null\r\ndata:}\r\n\r\n", "data: {\"choices\":[1]\r\ndata:}\r\n\r\n"},
		{"over several lines, first", "data: {\ndata: \"usage\":null\ndata: ,\"choices\":[1]}\n\n", "data: {\"choices\":[1]}\n\n"},
		{"the chunk over several lines", "data: {\"choices\":[],\ndata: \"usage\":{}}\n\ndata: b\n\n", "data: b\n\n"},
		{"another line inside", "data: {\"choices\":[1]\n: c\ndata: ,\"usage\":null}\n\n", "data: {\"choices\":[1]\n: c\ndata: ,\"usage\":null}\n\n"},
		{"the chunk at the end, not closed", "data: b\n\ndata: " + extra, "data: b\n\n"},
		{"the chunk cut off", "data: b\n\ndata: " + extra[:20], "data: b\n\ndata: " + extra[:20]},
		{"a CR of the chunk at the end", "data: " + extra + "\r\n\r", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.in)+1; size++ {
				if got := filter([]byte(c.in), size); string(got) != c.want {
					t.Fatalf("in pieces of %d:\n got %q\nwant %q", size, got, c.want)
				}
			}
		})
	}
}

// TestUsageFilterOnGolden: the worked streams without what the filter takes
// out are what a provider sends to a client that did not ask.
func TestUsageFilterOnGolden(t *testing.T) {
	changed := 0
	for _, stream := range goldenCasesFor(t) {
		want := []byte(strings.ReplaceAll(stream, `,"usage":null`, ""))
		for size := range 200 {
			got := filter([]byte(stream), size+1)
			var events, left []sseEvent
			events, _, _ = split(t, want, len(want), maxEvent)
			left, _, _ = split(t, got, max(len(got), 1), maxEvent)
			events = slices.DeleteFunc(events, func(e sseEvent) bool {
				return strings.Contains(e.data, `"choices":[]`) && strings.Contains(e.data, `"usage":{`) ||
					strings.Contains(e.data, "\"choices\":[]\n,\"usage\":{")
			})
			if !slices.Equal(left, events) {
				t.Fatalf("in pieces of %d, %q:\n got %+v\nwant %+v", size+1, stream, left, events)
			}
			if !bytes.Equal(got, []byte(stream)) {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("no worked stream was changed: the filter was not tried")
	}
}

// TestUsageFilterHoldsNothing: an event leaves with its last byte.
func TestUsageFilterHoldsNothing(t *testing.T) {
	f := newUsageFilter()
	for _, e := range []string{"data: {\"choices\":[1]}\n\n", ": keep-alive\n", "\n", "data: [DONE]\r\n\r", "\n", "event: x\ndata: y\r\r"} {
		if got := f.write([]byte(e)); string(got) != e {
			t.Errorf("%q gave %q", e, got)
		}
	}
}

// TestUsageFilterLongEvent: an event over the limit passes untouched.
func TestUsageFilterLongEvent(t *testing.T) {
	stream := "data: {\"choices\":[\"" + strings.Repeat("x", 100) + "\"],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{}}\n\nend"
	want := stream[:strings.Index(stream, "data: {\"choices\":[],")] + "end"
	for size := 1; size <= len(stream); size++ {
		f := newUsageFilter()
		f.split.limit = 64
		var got []byte
		for piece := range slices.Chunk([]byte(stream), size) {
			got = append(got, f.write(piece)...)
		}
		if got = append(got, f.finish()...); string(got) != want {
			t.Fatalf("in pieces of %d: %q", size, got)
		}
	}
}

func FuzzUsageFilter(f *testing.F) {
	seeds := goldenCasesFor(f)
	if len(seeds) == 0 {
		f.Fatal("no seed")
	}
	for _, s := range seeds {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole := filter(stream, len(stream))
		if cut := filter(stream, int(size)); !bytes.Equal(whole, cut) {
			t.Fatalf("whole %q, in pieces of %d %q", whole, size, cut)
		}
		if !bytes.Contains(stream, []byte(`"usage"`)) && !bytes.Equal(whole, stream) {
			t.Fatalf("nothing to take out of %q, got %q", stream, whole)
		}
	})
}
