package boundary

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxDecoded bounds what is read of an answer after decoding: a small
	// compressed body can stand for any amount of memory.
	maxDecoded = 64 << 20
	// maxEncoded bounds the compressed copy that is kept until the answer
	// ends. Text of maxDecoded is far smaller than this.
	maxEncoded = 32 << 20
	// maxCodings bounds the codings of one body; more than one is rare.
	maxCodings = 3
)

var (
	errTooLarge = errors.New("the answer is too large to be read once decoded")
	errBroken   = errors.New("the answer's content coding is broken")
)

// codings lists the content codings of an answer in the order they were
// applied, without identity. unknown is one that docket can't decode, or "".
func codings(h http.Header) (list []string, unknown string) {
	for _, c := range strings.Split(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		switch c = strings.ToLower(strings.TrimSpace(c)); c {
		case "", "identity":
		case "gzip", "x-gzip", "br", "zstd":
			list = append(list, c)
		default:
			return nil, c
		}
	}
	if len(list) > maxCodings {
		return nil, strings.Join(list, ", ")
	}
	return list, ""
}

// decode feeds sink the decoded bytes of body, which breaks off wherever the
// answer did: what could be decoded is fed, and a missing rest is no error. The
// error wraps errTooLarge past limit bytes, or errBroken.
func decode(list []string, body []byte, limit int, sink func([]byte)) error {
	var r io.Reader = bytes.NewReader(body)
	for i := len(list) - 1; i >= 0; i-- {
		next, closer, err := decoder(list[i], r)
		if err != nil {
			return codingFault(list[i], err)
		}
		defer closer()
		r = next
	}
	buf := make([]byte, 32<<10)
	for total := 0; ; {
		n, err := r.Read(buf)
		if total += n; total > limit {
			return fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
		}
		sink(buf[:n])
		if err != nil {
			return codingFault(strings.Join(list, ", "), err)
		}
	}
}

// codingFault tells an end and a cut, which are no faults, from the rest.
func codingFault(coding string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", errBroken, coding, err)
}

// decoder starts no goroutine, so that an answer can be dropped at any time.
func decoder(coding string, r io.Reader) (next io.Reader, closer func(), err error) {
	switch coding {
	case "br":
		return brotli.NewReader(r), func() {}, nil
	case "zstd":
		// Concurrency 1 decodes in the caller's goroutine.
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	default:
		d, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		return d, func() {}, nil
	}
}
