package boundary

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/docket-audit/docket/chain"
	"github.com/klauspost/compress/zstd"
)

// encode applies one content coding.
func encode(t testing.TB, coding string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriterLevel(&b, brotli.BestSpeed)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		t.Fatalf("no encoder for %s", coding)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var allCodings = []string{"gzip", "br", "zstd"}

// TestGoldenEncoded: the worked cases come out the same in every coding, and
// in two at once.
func TestGoldenEncoded(t *testing.T) {
	for _, c := range goldenCases(t) {
		table := c.table(t)
		for _, list := range [][]string{{"gzip"}, {"br"}, {"zstd"}, {"gzip", "br"}} {
			body, h := []byte(c.Body), c.header()
			for _, coding := range list {
				body = encode(t, coding, body)
			}
			h.Set("Content-Encoding", strings.Join(list, ", "))
			for _, size := range []int{0, 1, 7} {
				o := newObserver(c.call(), c.Status, h)
				feed(o, body, size)
				if err := c.check(table, o.Finish()); err != nil {
					t.Errorf("%s, %v in pieces of %d: %v", c.ID, list, size, err)
				}
			}
		}
	}
}

// TestDecodeCut: what came before a cut is decoded, and the cut is no fault.
func TestDecodeCut(t *testing.T) {
	plain := []byte(strings.Repeat("an answer that does not repeat itself much: 0123456789 ", 40))
	for _, coding := range allCodings {
		body := encode(t, coding, plain)
		for n := range len(body) + 1 {
			var got []byte
			err := decode([]string{coding}, body[:n], maxDecoded, func(p []byte) { got = append(got, p...) })
			if err != nil || !bytes.HasPrefix(plain, got) {
				t.Fatalf("%s cut at %d of %d: %q, %v", coding, n, len(body), got, err)
			}
			if n == len(body) && !bytes.Equal(got, plain) {
				t.Fatalf("%s whole: %d of %d bytes", coding, len(got), len(plain))
			}
		}
	}
}

func TestDecodeBroken(t *testing.T) {
	for _, coding := range allCodings {
		err := decode([]string{coding}, []byte("\x00\xffthis was never encoded at all, whatever the header says"), maxDecoded, func([]byte) {})
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want %v", coding, err, errBroken)
		}
	}
}

// TestDecodeBomb: a small body that decodes to very much stops at the limit,
// and the memory does not grow with what it claims to be.
func TestDecodeBomb(t *testing.T) {
	const limit = 256 << 10
	bomb := make([]byte, 16<<20)
	for _, coding := range allCodings {
		body := encode(t, coding, bomb)
		if len(body) > limit/4 {
			t.Fatalf("%s: %d bytes are no bomb", coding, len(body))
		}
		fed := 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode([]string{coding}, body, limit, func(p []byte) { fed += len(p) })
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errTooLarge) || fed > limit {
			t.Errorf("%s: %d bytes fed, %v", coding, fed, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 12<<20 {
			t.Errorf("%s: %d bytes taken for %d", coding, grown, limit)
		}
	}
}

func TestCodings(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    []string
		unknown string
	}{
		{nil, nil, ""},
		{[]string{"identity"}, nil, ""},
		{[]string{"GZIP"}, []string{"gzip"}, ""},
		{[]string{"gzip", "br, identity"}, []string{"gzip", "br"}, ""},
		{[]string{"x-gzip,zstd"}, []string{"x-gzip", "zstd"}, ""},
		{[]string{"deflate"}, nil, "deflate"},
		{[]string{"gzip, aes128gcm"}, nil, "aes128gcm"},
		{[]string{"br, br, br, br"}, nil, "br, br, br, br"},
	} {
		got, unknown := codings(http.Header{"Content-Encoding": c.headers})
		if !slices.Equal(got, c.want) || unknown != c.unknown {
			t.Errorf("%q: %q, unknown %q; want %q, %q", c.headers, got, unknown, c.want, c.unknown)
		}
	}
}

// TestUnreadableEncodings: an answer that can't be decoded is source none, an
// error status without usage has cost nothing all the same.
func TestUnreadableEncodings(t *testing.T) {
	body := []byte(`{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	for _, c := range []struct {
		coding string
		body   []byte
		status int
		source string
	}{
		{"deflate", body, 200, chain.SourceNone},
		{"gzip", body, 200, chain.SourceNone},
		{"gzip", encode(t, "gzip", body), 200, chain.SourceReported},
		{"gzip", encode(t, "gzip", body)[:20], 200, chain.SourceNone},
		{"deflate", body, 500, chain.SourceReported},
	} {
		h := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {c.coding}}
		o := newObserver(chatCall(), c.status, h)
		feed(o, c.body, 5)
		if r := o.Finish(); r.Source != c.source || (r.Source == chain.SourceNone) != (r.Note != "") {
			t.Errorf("%s, status %d: source %s (%s), want %s", c.coding, c.status, r.Source, r.Note, c.source)
		}
	}
}
