package boundary

import (
	"fmt"
	"net/http"

	"github.com/docket-audit/docket/internal/meter"
)

// answerReader is what an observer needs of a meter.Reader.
type answerReader interface {
	Event(data []byte)
	Tail(data []byte)
	Body(b []byte)
	Unreadable(reason string)
	Finish() meter.Reading
}

// observer meters a copy of one answer. It takes the bytes as they came from
// upstream, in any cuts, and is asked for the Reading once, when the answer has
// ended, however it ended. It never fails and never keeps the bytes that it is
// given; what goes wrong in it, a panic included, costs the figures and never
// the call or its record. It is not safe for concurrent use.
type observer struct {
	call   meter.Call
	reader answerReader
	limit  int // bytes of a body that is read whole
	broken string

	codings []string
	encoded []byte // the compressed copy, where there are codings

	split   *splitter // nil: a body that is read whole
	events  int
	body    []byte
	dropped bool // the answer is past a limit: no more of it is kept
}

// newObserver meters the answer to c with this status and these headers.
func newObserver(c meter.Call, status int, h http.Header) *observer {
	contentType := h.Get("Content-Type")
	o := &observer{limit: maxDecoded}
	o.guard(func() {
		if c.Parsed == nil {
			req := meter.ParseRequest(c)
			c.Parsed = &req
		}
		o.reader = meter.NewReader(c, status, contentType)
	})
	o.call = c
	if meter.IsEventStream(contentType) {
		o.split = newSplitter(o.piece)
	}
	list, unknown := codings(h)
	if unknown != "" {
		o.drop(fmt.Sprintf("content coding %q is not one that docket decodes", unknown))
	}
	o.codings = list
	return o
}

// Write takes the next bytes from upstream. It always takes all of them.
func (o *observer) Write(p []byte) (int, error) {
	o.guard(func() {
		switch {
		case o.dropped:
		case len(o.codings) == 0:
			o.plain(p)
		case len(o.encoded)+len(p) > maxEncoded:
			o.encoded = nil
			o.drop("the answer is too large to be read, compressed as it is")
		default:
			o.encoded = append(o.encoded, p...)
		}
	})
	return len(p), nil
}

// Finish settles the call. The answer is over: what came is all there is.
func (o *observer) Finish() meter.Reading {
	var r meter.Reading
	o.guard(func() {
		if len(o.codings) > 0 && !o.dropped {
			if err := decode(o.codings, o.encoded, o.limit, o.plain); err != nil {
				o.reader.Unreadable(err.Error())
			}
		}
		if o.split != nil {
			o.split.finish()
			if o.events == 0 && o.split.odd > 0 {
				o.reader.Unreadable("the answer is called a stream of events and is none")
			}
		} else if !o.dropped {
			o.reader.Body(o.body)
		}
		r = o.reader.Finish()
	})
	o.body, o.encoded = nil, nil
	if o.broken != "" {
		return meter.Nothing(o.call, o.broken)
	}
	return r
}

// plain takes decoded bytes.
func (o *observer) plain(p []byte) {
	switch {
	case o.dropped:
	case o.split != nil:
		o.split.write(p)
	case len(o.body)+len(p) > o.limit:
		o.body = nil
		o.drop(fmt.Sprintf("the answer is larger than %d bytes", o.limit))
	default:
		o.body = append(o.body, p...)
	}
}

func (o *observer) piece(p piece) {
	switch {
	case p.kind == pieceLong && p.first:
		o.events++
		o.reader.Unreadable(fmt.Sprintf("an event of the stream is larger than %d bytes", o.split.limit))
	case p.kind == pieceEvent:
		data, _, ok := p.data()
		if !ok {
			return
		}
		o.events++
		if p.open {
			o.reader.Tail(data)
		} else {
			o.reader.Event(data)
		}
	}
}

// drop gives up on the rest of the answer.
func (o *observer) drop(reason string) {
	o.dropped = true
	o.guard(func() { o.reader.Unreadable(reason) })
}

// guard contains a panic of the meter. After one nothing more is metered: the
// figures could be those of half an event.
func (o *observer) guard(f func()) {
	if o.broken != "" {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			// What panicked may quote the answer, which has no place in a record.
			o.broken = fmt.Sprintf("metering broke off by a fault of docket (%T)", p)
			o.dropped = true
			o.body, o.encoded = nil, nil
		}
	}()
	f()
}
