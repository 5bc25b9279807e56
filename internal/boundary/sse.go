package boundary

import "bytes"

// maxEvent bounds one event of a stream. Real ones reach a few hundred KiB;
// past the limit an event is passed over, never the stream.
const maxEvent = 32 << 20

// pieceKind says what a piece of a stream is.
type pieceKind int

const (
	pieceEvent pieceKind = iota // the lines of one event, its blank line included
	pieceOther                  // blank lines and comments between events
	pieceTail                   // the LF of a CRLF whose CR ended the piece before
	pieceLong                   // a part of an event that is over the limit
)

// piece is a run of a stream's bytes. The pieces of a stream, joined, are the
// stream. What a piece holds is valid until the function it went to returns.
type piece struct {
	kind pieceKind
	raw  []byte
	// Of an event only:
	lines []line
	open  bool // the end of the stream closed it, not a blank line
	// Of the first part of a long event only.
	first bool
}

// line is a line of an event, by offsets into its piece.
type line struct {
	start, end int // without its line end, and without a byte order mark
	next       int // where the next line starts
}

// splitter cuts a stream into pieces by docs/design/metering.md, section 8:
// lines end with LF, CRLF or CR, whichever way the stream is cut into reads. A
// piece is emitted as soon as its last byte is there; the LF that may follow a
// CR is not waited for.
type splitter struct {
	emit  func(piece)
	limit int // bytes of one event; maxEvent but in tests

	buf     []byte // the pending event, and the line that is not complete
	at      int    // where in buf that line starts
	lines   []line // the complete lines of the pending event
	afterCR bool   // the byte before was a CR that ended a line
	begun   bool   // a line of the stream is behind us: no byte order mark can follow
	odd     int    // lines that are neither field nor comment

	long      bool // inside an event over the limit
	longBytes bool // the current line of it has bytes
}

func newSplitter(emit func(piece)) *splitter { return &splitter{emit: emit, limit: maxEvent} }

// write takes the next bytes of the stream.
func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				s.lineFeed()
				p = p[1:]
				continue
			}
		}
		if s.long {
			p = s.writeLong(p)
			continue
		}
		i := bytes.IndexAny(p, "\r\n")
		content, take := i, i+1
		if i < 0 {
			content, take = len(p), len(p)
		}
		// A line's end is let over the limit, so that it does not matter
		// where the stream is cut.
		if size := len(s.buf) + content; size > s.limit && size > s.at {
			s.overflow()
			continue
		}
		s.buf = append(s.buf, p[:take]...)
		if i >= 0 {
			s.afterCR = p[i] == '\r'
			s.endLine(len(s.buf) - 1)
		}
		p = p[take:]
	}
}

// lineFeed takes the LF of a CRLF: a part of the line that the CR ended.
func (s *splitter) lineFeed() {
	if len(s.lines) == 0 || s.long {
		s.emit(piece{kind: pieceTail, raw: []byte{'\n'}})
		return
	}
	s.buf = append(s.buf, '\n')
	s.at = len(s.buf)
	s.lines[len(s.lines)-1].next = s.at
}

// endLine takes the line that ends before offset end of buf, at whose line end
// buf ends.
func (s *splitter) endLine(end int) {
	l := line{start: s.at, end: end, next: len(s.buf)}
	if !s.begun {
		s.begun = true
		if bytes.HasPrefix(s.buf[l.start:l.end], byteOrderMark) {
			l.start += len(byteOrderMark)
		}
	}
	s.at = len(s.buf)
	content := s.buf[l.start:l.end]
	switch {
	case len(content) == 0 && len(s.lines) > 0:
		s.lines = append(s.lines, l)
		s.flush(piece{kind: pieceEvent})
	case len(s.lines) == 0 && (len(content) == 0 || content[0] == ':'):
		s.flush(piece{kind: pieceOther})
	default:
		s.note(content)
		s.lines = append(s.lines, l)
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// note counts lines that no stream of events has.
func (s *splitter) note(content []byte) {
	name, _ := fieldOf(content)
	switch string(name) {
	case "", "data", "event", "id", "retry":
	default:
		s.odd++
	}
}

// flush emits what is pending as p.
func (s *splitter) flush(p piece) {
	p.raw = s.buf
	if p.kind == pieceEvent {
		p.lines = s.lines
	}
	s.emit(p)
	s.buf, s.lines, s.at = s.buf[:0], s.lines[:0], 0
	// A rare large event does not keep its memory for the rest of the stream.
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

// overflow gives up the pending event: its bytes go on, unread.
func (s *splitter) overflow() {
	s.long, s.begun = true, true
	s.longBytes = len(s.buf) > s.at
	s.flush(piece{kind: pieceLong, first: true})
}

// writeLong passes on bytes of an event over the limit, up to its end.
func (s *splitter) writeLong(p []byte) (rest []byte) {
	i := bytes.IndexAny(p, "\r\n")
	if i < 0 {
		s.longBytes = true
		s.emit(piece{kind: pieceLong, raw: p})
		return nil
	}
	s.afterCR = p[i] == '\r'
	blank := i == 0 && !s.longBytes
	s.longBytes = false
	s.emit(piece{kind: pieceLong, raw: p[:i+1]})
	s.long = !blank
	return p[i+1:]
}

// finish ends the stream: what no blank line closed counts all the same.
func (s *splitter) finish() {
	if len(s.buf) > s.at {
		s.endLine(len(s.buf))
	}
	switch {
	case len(s.lines) > 0:
		s.flush(piece{kind: pieceEvent, open: true})
	case len(s.buf) > 0:
		s.flush(piece{kind: pieceOther})
	}
}

// fieldOf splits a line at its colon; one space after it is no part of the
// value. A comment has the name "".
func fieldOf(content []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(content, []byte(":"))
	return name, bytes.TrimPrefix(value, []byte(" "))
}

// dataSpan says where a run of an event's data stands in its piece.
type dataSpan struct {
	data, raw, length int
	line              int // index into lines
}

// data is the event's data lines joined by LF, and where each stands. ok is
// false for an event without data, which browsers do not dispatch either.
func (p piece) data() (data []byte, spans []dataSpan, ok bool) {
	for i, l := range p.lines {
		name, value := fieldOf(p.raw[l.start:l.end])
		if string(name) != "data" {
			continue
		}
		if len(spans) > 0 {
			data = append(data, '\n')
		}
		spans = append(spans, dataSpan{data: len(data), raw: l.end - len(value), length: len(value), line: i})
		if len(spans) == 1 {
			data = value[:len(value):len(value)] // most events have one line: no copy
			continue
		}
		data = append(data, value...)
	}
	return data, spans, len(data) > 0
}
