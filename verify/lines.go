package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/docket-audit/docket/chain"
)

// lineFeeder cuts an export into lines. A line over the limit is handed out
// as its beginning, which is malformed by its length, and skipped.
type lineFeeder struct {
	r        io.Reader
	off      int64  // input offset of what the next chunk begins with
	carry    []byte // read and not handed out yet
	skipping bool   // inside a line that is too long
	ended    bool   // r has nothing more
}

func (f *lineFeeder) fill(c *chunk) error {
	c.reset()
	c.data = append(c.data, f.carry...)
	complete := bytes.IndexByte(c.data, '\n') >= 0
	for !f.ended && (len(c.data) < chunkBytes || !complete && len(c.data) <= chain.MaxLine) {
		n := len(c.data)
		if err := f.read(c); err != nil {
			return err
		}
		if f.skipping {
			f.skip(c)
			n = 0
		}
		complete = complete || bytes.IndexByte(c.data[n:], '\n') >= 0
	}
	c.tail = f.ended && f.skipping
	f.cut(c)
	c.end = f.off
	if f.ended && len(f.carry) == 0 {
		return io.EOF
	}
	return nil
}

func (c *chunk) reset() {
	c.data, c.pieces = c.data[:0], c.pieces[:0]
	c.tail, c.stored, c.end = false, false, 0
}

// read appends the next bytes of the input to the chunk.
func (f *lineFeeder) read(c *chunk) error {
	const step = 128 << 10
	n := len(c.data)
	c.data = append(c.data, make([]byte, step)...)
	got, err := f.r.Read(c.data[n:])
	c.data = c.data[:n+got]
	if errors.Is(err, io.EOF) {
		f.ended = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	return nil
}

// skip drops what belongs to a line that is too long.
func (f *lineFeeder) skip(c *chunk) {
	i := bytes.IndexByte(c.data, '\n')
	if i < 0 {
		i = len(c.data) - 1
	} else {
		f.skipping = false
	}
	f.off += int64(i + 1)
	c.data = append(c.data[:0], c.data[i+1:]...)
}

// cut makes pieces of the complete lines and carries the rest over.
func (f *lineFeeder) cut(c *chunk) {
	at := 0
	for len(c.pieces) < chunkItems {
		i := bytes.IndexByte(c.data[at:], '\n')
		if i < 0 {
			break
		}
		c.pieces = append(c.pieces, piece{start: at, end: at + i, off: f.off + int64(at)})
		at += i + 1
	}
	rest := c.data[at:]
	switch {
	case bytes.IndexByte(rest, '\n') >= 0 || !f.ended && len(rest) <= chain.MaxLine:
		f.off += int64(at)
		f.carry = append(f.carry[:0], rest...)
		return
	case len(rest) > chain.MaxLine:
		c.pieces = append(c.pieces, piece{start: at, end: at + chain.MaxLine + 1, off: f.off + int64(at)})
		f.skipping = true
		c.tail = f.ended
	case len(rest) > 0:
		c.tail = true
	}
	f.off += int64(len(c.data))
	f.carry = f.carry[:0]
}
