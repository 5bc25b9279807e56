package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/docket-audit/docket/chain"
)

// input is the file under verification: opened once, never written.
type input struct {
	ra   io.ReaderAt
	file *os.File // what ra reads; nil where it is memory or a copy of ours
	size int64
	opts *Options
	zst  bool
	temp *os.File     // what .zst holds, where it had to be kept
	read atomic.Int64 // bytes read, for progress

	cutShort bool  // the compressed stream ends early
	damaged  error // the compressed stream can't be read on
}

// sniffBytes is how far the kind of an input is looked for.
const sniffBytes = 64 << 10

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// sniff tells by content what the input is.
func sniff(in *input) (Kind, error) {
	if isDatabase(in.ra) {
		return KindDatabase, nil
	}
	var magic [4]byte
	n, err := in.ra.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	in.zst = bytes.Equal(magic[:n], zstdMagic)
	head, err := in.head(sniffBytes)
	if err == nil && len(head) == sniffBytes && beginsObject(head) == nil {
		// The first line may be damaged; the next one begins within its limit.
		head, err = in.head(chain.MaxLine + sniffBytes)
	}
	return sniffText(head), err
}

// head is the beginning of the text.
func (in *input) head(n int) ([]byte, error) {
	r, done, err := in.lines(0)
	if err != nil {
		return nil, err
	}
	defer done()
	return io.ReadAll(io.LimitReader(r, int64(n)))
}

// beginsObject is the text from its first brace on, nil where something else
// stands in front of that.
func beginsObject(head []byte) []byte {
	text := bytes.TrimLeft(head, " \t\r\n\ufeff")
	if bytes.HasPrefix(text, []byte("{")) {
		return text
	}
	return nil
}

// sniffText tells an export from a receipt by the first member of the first
// object; what begins otherwise is an export with a damaged first line, as
// long as it has lines at all.
func sniffText(head []byte) Kind {
	text := beginsObject(head)
	if text == nil {
		if len(head) == 0 || bytes.Contains(head, []byte("\n{\"")) {
			return KindExport
		}
		return KindUnknown
	}
	name, _, _ := bytes.Cut(bytes.TrimLeft(text[1:], " \t\r\n"), []byte(":"))
	switch string(bytes.TrimSpace(name)) {
	case `"content"`, `"hash"`, `"header"`, `"body"`, `"trailer"`, `"salt"`, `"parts"`:
		return KindExport
	case `"anchors"`, `"checkpoint"`, `"complete"`, `"erasures"`, `"findings"`, `"format"`, `"genesis"`, `"issued"`, `"ledger"`, `"limits"`, `"rotations"`, `"rows"`, `"run"`, `"totals"`:
		return KindReceipt
	}
	if bytes.Contains(head, []byte(`"format":"docketd.receipt/`)) {
		return KindReceipt
	}
	return KindExport
}

// lines opens the text of the input at an offset; done has to be called. At
// an offset other than 0 the input has to be seekable.
func (in *input) lines(from int64) (r io.Reader, done func(), err error) {
	if in.temp != nil {
		return io.NewSectionReader(in.temp, from, 1<<62), func() {}, nil
	}
	in.read.Store(from)
	plain := &countingReader{io.NewSectionReader(in.ra, from, in.size-from), &in.read}
	if !in.zst {
		return plain, func() {}, nil
	}
	// One decoder goroutine beside ours, and a window that every level of
	// the usual compressors stays within.
	d, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, nil, fmt.Errorf("open compressed input: %w", err)
	}
	return &zstdReader{d, in}, d.Close, nil
}

type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// zstdReader turns what is wrong with a compressed stream into its end: what
// came before is judged, and the rest is a verdict, not an error.
type zstdReader struct {
	d  *zstd.Decoder
	in *input
}

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.d.Read(p)
	var failed *os.PathError
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.As(err, &failed):
	case errors.Is(err, io.ErrUnexpectedEOF):
		z.in.cutShort, err = true, io.EOF
	default:
		z.in.damaged, err = err, io.EOF
	}
	return n, err
}

// seekable is the input as text that can be read at an offset. A compressed
// one is kept in a temporary file for that.
func (in *input) seekable(ctx context.Context) (io.ReaderAt, error) {
	if !in.zst {
		return in.ra, nil
	}
	if in.temp == nil {
		r, done, err := in.lines(0)
		if err != nil {
			return nil, err
		}
		defer done()
		if in.temp, err = spool(ctx, r, in.opts); err != nil {
			return nil, fmt.Errorf("keep decompressed input: %w", err)
		}
	}
	return in.temp, nil
}

func (in *input) close() {
	if in.temp != nil {
		in.temp.Close()
	}
}

// textSize bounds what seekable gives.
func (in *input) textSize() (int64, error) {
	if in.temp == nil {
		return in.size, nil
	}
	info, err := in.temp.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat kept input: %w", err)
	}
	return info.Size(), nil
}

// changed says whether the file changed since it was opened.
func (in *input) changed(before os.FileInfo) (bool, error) {
	after, err := in.file.Stat()
	if err != nil {
		return false, fmt.Errorf("stat input: %w", err)
	}
	return after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()), nil
}

// maxKeptStream is how much of a stream is kept in memory; a longer one goes
// into a temporary file.
const maxKeptStream = 4 << 20

// keep makes an input of a stream. done has to be called.
func keep(ctx context.Context, r io.Reader, o *Options) (in *input, done func(), err error) {
	var head bytes.Buffer
	n, err := io.Copy(&head, io.LimitReader(r, maxKeptStream))
	if err != nil {
		return nil, nil, err
	}
	if n < maxKeptStream {
		return &input{ra: bytes.NewReader(head.Bytes()), size: n, opts: o}, func() {}, nil
	}
	f, err := spool(ctx, io.MultiReader(&head, r), o)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &input{ra: f, size: info.Size(), opts: o}, func() { f.Close() }, nil
}

// spool copies r into a temporary file that has no name any more.
func spool(ctx context.Context, r io.Reader, o *Options) (*os.File, error) {
	f, err := os.CreateTemp(o.TempDir, "docket-verify-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	p := progress{call: o.Progress}
	buf := make([]byte, 256<<10)
	var total int64
	for {
		n, err := r.Read(buf)
		if _, werr := f.Write(buf[:n]); werr != nil {
			f.Close()
			return nil, werr
		}
		total += int64(n)
		p.at(total)
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
}

// rereader calls line with each line of ra between two offsets.
func rereader(ra io.ReaderAt) func(from, to int64, line func([]byte)) error {
	return func(from, to int64, line func([]byte)) error {
		f := &lineFeeder{r: io.NewSectionReader(ra, from, to-from)}
		var c chunk
		for {
			err := f.fill(&c)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			for _, p := range c.pieces {
				line(c.data[p.start:p.end])
			}
			if err != nil {
				return nil
			}
		}
	}
}

// lastLine is the last complete line of a plain export, nil where it is too
// long for a trailer.
func lastLine(ra io.ReaderAt, size int64) ([]byte, error) {
	n := min(size, sniffBytes)
	b := make([]byte, n)
	if _, err := ra.ReadAt(b, size-n); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read end of input: %w", err)
	}
	b, ended := bytes.CutSuffix(b, []byte("\n"))
	i := bytes.LastIndexByte(b, '\n')
	if !ended || i < 0 && n < size || len(b)-i-1 > chain.MaxLine {
		return nil, nil
	}
	return b[i+1:], nil
}
