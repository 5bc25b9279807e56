package boundary

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// usageFilter takes out of a chat completion's stream what is there only
// because docket asked for usage on the client's behalf: the extra chunk, whose
// choices are empty and whose usage is set, and the "usage":null members of the
// other chunks. Every other byte reaches the client as it came, an event as
// soon as it is complete. It works on the plain stream, so the upstream has to
// be asked for no content encoding. It is not safe for concurrent use.
type usageFilter struct {
	split   *splitter
	out     []byte
	dropped bool // the piece before was taken out
}

func newUsageFilter() *usageFilter {
	f := &usageFilter{}
	f.split = newSplitter(f.piece)
	return f
}

// write takes the next bytes from upstream and gives those that the client
// gets now, valid until the next call.
func (f *usageFilter) write(p []byte) []byte {
	f.out = f.out[:0]
	f.split.write(p)
	return f.out
}

// finish gives what is left when upstream ended: a stream that breaks off
// reaches the client as far as it came.
func (f *usageFilter) finish() []byte {
	f.out = f.out[:0]
	f.split.finish()
	return f.out
}

func (f *usageFilter) piece(p piece) {
	switch {
	case p.kind == pieceTail && f.dropped:
		return
	case p.kind != pieceEvent:
		f.dropped = false
		f.out = append(f.out, p.raw...)
		return
	}
	f.dropped = false
	data, spans, ok := p.data()
	if !ok {
		f.out = append(f.out, p.raw...)
		return
	}
	switch extra, start, end := usageIn(data); {
	case extra:
		f.dropped = true
		f.keepAround(p)
	case end > start:
		f.cut(p, spans, start, end)
	default:
		f.out = append(f.out, p.raw...)
	}
}

// keepAround passes what stands between the lines of an event that is taken
// out but is no part of it: comments, and a byte order mark.
func (f *usageFilter) keepAround(p piece) {
	f.out = append(f.out, p.raw[:p.lines[0].start]...)
	for _, l := range p.lines {
		if l.end > l.start && p.raw[l.start] == ':' {
			f.out = append(f.out, p.raw[l.start:l.next]...)
		}
	}
}

// cut passes an event without the data from start to end. Where the member
// spreads over lines, the line end between them goes with it, unless a line of
// another kind stands there: then the event stays whole.
func (f *usageFilter) cut(p piece, spans []dataSpan, start, end int) {
	from, first := place(spans, start-1)
	to, last := place(spans, end-1)
	adjacent := true
	for i := first; i < last; i++ {
		adjacent = adjacent && spans[i].line+1 == spans[i+1].line
	}
	if !adjacent {
		f.out = append(f.out, p.raw...)
		return
	}
	f.out = append(f.out, p.raw[:from+1]...)
	f.out = append(f.out, p.raw[to+1:]...)
}

// place is where the data's byte at offset i stands in the piece, and the index
// of its span. The byte is none of the LFs that join lines.
func place(spans []dataSpan, i int) (raw, span int) {
	for n, s := range spans {
		if i < s.data+s.length {
			return s.raw + i - s.data, n
		}
	}
	panic("boundary: offset outside the event's data")
}

// chunkParts is what decides about a chunk.
type chunkParts struct {
	usage, choices jsontext.Kind // 0: not there
	empty          bool          // choices has no element
	failed         bool          // there is an error
	start, end     int           // the usage member and one comma
}

// usageIn judges a chunk. extra: it is the chunk that tells the usage and
// nothing else. Otherwise start and end are what to cut, its "usage":null and
// one comma; both are 0 where there is nothing. The bytes right before start
// and end are never white space. A chunk that docket does not understand in
// full is left alone.
func usageIn(data []byte) (extra bool, start, end int) {
	c, ok := readChunk(data)
	switch {
	case !ok || c.choices != '[':
		return false, 0, 0
	case c.usage == '{' && c.empty && !c.failed:
		return true, 0, 0
	case c.usage == 'n':
		return false, c.start, c.end
	}
	return false, 0, 0
}

func readChunk(data []byte) (c chunkParts, ok bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return c, false
	}
	before := int(d.InputOffset()) // the end of what stands before the member
	for first := true; d.PeekKind() != '}'; first = false {
		name, err := d.ReadValue()
		if err != nil {
			return c, false
		}
		key := string(name)
		value, err := d.ReadValue()
		if err != nil {
			return c, false
		}
		after := int(d.InputOffset())
		switch {
		case key == `"usage"` && c.usage == 0:
			c.usage, c.start, c.end = value.Kind(), before, after
			if comma := bytes.IndexByte(data[after:], ','); first && comma >= 0 {
				c.end = after + comma + 1
			}
		case key == `"choices"` && c.choices == 0:
			c.choices = value.Kind()
			c.empty = c.choices == '[' && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
		case key == `"usage"`, key == `"choices"`:
			return c, false // twice: which of them counts is not docket's to say
		case key == `"error"`:
			c.failed = c.failed || value.Kind() != 'n'
		}
		before = after
	}
	if _, err := d.ReadToken(); err != nil {
		return c, false
	}
	_, err := d.ReadToken()
	return c, errors.Is(err, io.EOF)
}
