package api

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

// batch is how many events are read at a time, so that no read holds the
// ledger's pages for long, whatever the client's pace.
const batch = 256

// eventsQuery is what GET /v1/events is asked for.
type eventsQuery struct {
	from, to        uint64 // to 0: up to the head
	typ, run        string
	follow, trailer bool
}

// query reads the query's members by name: each of known once at most, and no
// other.
func query(r *http.Request, known ...string) (url.Values, error) {
	const hint = "spell it as name=value&name=value"
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(BadRequest, hint, "the query can't be read")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, refuse(BadRequest, hint, "the query has an unknown member %q", name)
		}
		if len(values) != 1 {
			return nil, refuse(BadRequest, hint, "the query has %q more than once", name)
		}
	}
	return q, nil
}

// number reads a member that is an event's number; 0 where it is left out.
func number(q url.Values, name string) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n == 0 || n > chain.MaxInt {
		return 0, refuse(BadRequest, "events are numbered from 1", "%s=%q is not an event's number", name, q.Get(name))
	}
	return n, nil
}

// flag reads a member that is true or false; false where it is left out.
func flag(q url.Values, name string) (bool, error) {
	switch v := q.Get(name); {
	case !q.Has(name), v == "false", v == "0":
		return false, nil
	case v == "true", v == "1", v == "":
		return true, nil
	default:
		return false, refuse(BadRequest, "use "+name+"=true", "%s=%q is neither true nor false", name, v)
	}
}

func parseEventsQuery(r *http.Request) (q eventsQuery, err error) {
	v, err := query(r, "from", "to", "type", "run", "follow", "trailer")
	if err != nil {
		return q, err
	}
	if q.from, err = number(v, "from"); err != nil {
		return q, err
	}
	if q.to, err = number(v, "to"); err != nil {
		return q, err
	}
	if q.follow, err = flag(v, "follow"); err != nil {
		return q, err
	}
	if q.trailer, err = flag(v, "trailer"); err != nil {
		return q, err
	}
	if q.typ = v.Get("type"); v.Has("type") && chain.CheckType(q.typ) != nil {
		return q, refuse(BadRequest, "types are spelled as in \"tool.call\"", "type=%q is no event type", q.typ)
	}
	if q.run = v.Get("run"); v.Has("run") && chain.CheckToken(q.run) != nil {
		return q, refuse(BadRequest, "GET /v1/runs lists the runs", "run=%q is no run id", q.run)
	}
	switch {
	case q.to != 0 && q.from > q.to:
		return q, refuse(BadRequest, "let from be the smaller one", "from=%d is behind to=%d", q.from, q.to)
	case q.trailer && (q.typ != "" || q.run != "" || q.follow):
		return q, refuse(BadRequest, "leave type, run and follow out", "a whole export has every event of its range")
	}
	q.from = max(q.from, 1)
	return q, nil
}

// getEvents writes export lines: an export with its trailer, which leaves its
// own event, or the events asked for, without one.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := parseEventsQuery(r)
	if err != nil {
		return err
	}
	out := &stream{w: w.(*answer), media: "application/x-ndjson"}
	buf := bufio.NewWriterSize(out, 256<<10)
	if q.trailer {
		err = s.engine.Export(r.Context(), buf, engine.ExportSpec{From: q.from, To: q.to, Peer: peer(r)})
	} else {
		err = s.lines(r.Context(), buf, out, q)
	}
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return err
	}
	return out.end()
}

// stream begins its answer with the first byte, so that an error before that
// still gets a status of its own.
type stream struct {
	w     *answer
	media string
}

func (s *stream) begin() {
	if !s.w.begun {
		s.w.Header().Set("Content-Type", s.media)
		s.w.WriteHeader(http.StatusOK)
	}
}

func (s *stream) Write(p []byte) (int, error) {
	s.begin()
	return s.w.Write(p)
}

// end begins an answer that has no byte.
func (s *stream) end() error {
	s.begin()
	return nil
}

// lines writes the events of q. Without follow the end is fixed before the
// first read: what comes later is not part of the answer.
func (s *Server) lines(ctx context.Context, w *bufio.Writer, out *stream, q eventsQuery) error {
	end := s.engine.Head().Seq
	if q.to != 0 && (q.to < end || q.follow) {
		end = q.to
	} else if q.follow {
		end = chain.MaxInt
	}
	for next := q.from; next <= end; {
		events, err := s.engine.Read(next, int(min(batch, end-next+1)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			if more, err := s.await(ctx, w, out, next); !more {
				return err
			}
			continue
		}
		for i := range events {
			if err := writeLine(w, &events[i], q); err != nil {
				return err
			}
		}
		next += uint64(len(events))
	}
	return nil
}

// await hands out what is written and waits until event seq is durable; false
// where the service stops or the client is gone.
func (s *Server) await(ctx context.Context, w *bufio.Writer, out *stream, seq uint64) (bool, error) {
	if err := w.Flush(); err != nil {
		return false, err
	}
	out.begin()
	if err := out.w.flush(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := s.engine.Wait(ctx, seq)
	if ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

func writeLine(w *bufio.Writer, e *chain.Event, q eventsQuery) error {
	if q.typ != "" || q.run != "" {
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			return err
		}
		if q.typ != "" && h.Type != q.typ || q.run != "" && h.Run != q.run {
			return nil
		}
	}
	_, err := w.Write(append(e.AppendLine(w.AvailableBuffer()), '\n'))
	return err
}
