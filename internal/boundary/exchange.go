package boundary

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/meter"
)

// exchange is one call that was recorded and now leaves. It is also the
// ResponseWriter that httputil copies the answer to: each piece goes to the
// client first, then to the meter and into the commitment. Exactly one outcome
// is recorded, by whichever path the exchange ends on, and before the client
// can see the answer's end.
//
// But for the 1xx heads, which the transport hands over from a goroutine of its
// own and which touch no field, it is used by the handler's goroutine alone.
type exchange struct {
	h       *Handler
	up      upstream
	call    Call
	metered meter.Call
	began   time.Time
	run     string

	w        http.ResponseWriter
	target   *url.URL
	out      []byte // the body that goes upstream
	filtered bool   // usage was asked for on the client's behalf
	cancel   context.CancelCauseFunc
	ctx      context.Context
	unwatch  func() bool  // stops watching the call's context
	silence  *time.Timer  // ends ctx when upstream says nothing for too long
	attempts atomic.Int32 // connections that the request's head was written to

	// From the head on:
	status   int // 0: no head yet
	observer *observer
	part     *engine.PartWriter
	filter   *usageFilter // nil: bytes pass as they are
	decoded  bool         // what is copied is not what came: take sees the raw bytes
	left     int64        // bytes of a declared length that the client has not got; -1: none declared
	whole    bool         // upstream ended the body

	settled bool
	failed  error // what recording the outcome came to
}

// serve forwards the call. It returns when the outcome is durable and the
// answer, but for the end that the server adds, is with the client; where it
// is not, it panics with http.ErrAbortHandler.
func (e *exchange) serve(r *http.Request) {
	e.ctx, e.cancel = context.WithCancelCause(r.Context())
	e.unwatch = context.AfterFunc(e.call.Context(), func() { e.cancel(errStopped) })
	e.silence = time.AfterFunc(e.h.headWait, func() { e.cancel(errSilent) })
	defer func() {
		p := recover()
		e.silence.Stop()
		e.settle(e.ending())
		e.cancel(nil)
		switch {
		case p != nil:
			panic(p)
		case e.failed != nil:
			panic(http.ErrAbortHandler)
		}
	}()
	proxy := &httputil.ReverseProxy{
		Rewrite: e.rewrite, ModifyResponse: e.head, ErrorHandler: e.headless,
		Transport: e.h.transport, FlushInterval: -1, BufferPool: &e.h.buffers, ErrorLog: e.h.quiet,
	}
	proxy.ServeHTTP(e, r.WithContext(e.ctx))
	if e.settled {
		return
	}
	// httputil panics on a body that breaks off only where it knows the server.
	if !e.whole {
		panic(http.ErrAbortHandler)
	}
	if e.filter != nil && e.send(e.filter.finish()) != nil {
		panic(http.ErrAbortHandler)
	}
}

// rewrite makes the request that goes upstream.
func (e *exchange) rewrite(p *httputil.ProxyRequest) {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { e.attempts.Add(1) }}
	p.Out = p.Out.WithContext(httptrace.WithClientTrace(p.Out.Context(), trace))
	p.Out.URL, p.Out.Host = e.target, e.target.Host
	p.Out.Trailer, p.Out.TransferEncoding = nil, nil
	outbound(p.Out.Header, e.filtered)
	p.Out.ContentLength = int64(len(e.out))
	p.Out.Body, p.Out.GetBody = http.NoBody, nil
	if len(e.out) == 0 {
		return
	}
	p.Out.Body = io.NopCloser(bytes.NewReader(e.out))
	// A request that the provider never got, because an idle connection had
	// gone, may be sent on another one.
	p.Out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(e.out)), nil }
}

// head takes the answer's head.
func (e *exchange) head(res *http.Response) error {
	e.silence.Stop()
	e.status = res.StatusCode
	e.observer = newObserver(e.metered, res.StatusCode, res.Header)
	e.part = engine.NewPart("response", mediaOf(res.Header))
	e.left = res.ContentLength
	if res.Request.Method == http.MethodHead || res.Body == http.NoBody {
		e.left = 0
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errSwitched
	}
	if res.StatusCode < 100 {
		return errStatus
	}
	// The server would make up what the provider did not say.
	for _, name := range []string{"Content-Type", "Date"} {
		if res.Header[name] == nil {
			e.w.Header()[name] = nil
		}
	}
	res.Body = &source{ReadCloser: res.Body, e: e}
	if e.filtered && e.left != 0 && meter.IsEventStream(res.Header.Get("Content-Type")) {
		e.startFilter(res)
	}
	return nil
}

// startFilter arranges that the client gets the stream without what is in it
// because docket asked for usage. An upstream that encodes the stream although
// it was asked not to is decoded for the client; one whose coding docket does
// not know is passed as it is, the extra chunk in it.
func (e *exchange) startFilter(res *http.Response) {
	list, unknown := codings(res.Header)
	if unknown != "" {
		e.h.log.WarnContext(e.ctx, "stream passed with the usage that docket asked for", "run", e.run, "upstream", e.up.name, "reason", "unknown content coding")
		return
	}
	if len(list) > 0 {
		e.decoded = true
		res.Header.Del("Content-Encoding")
		res.Body = &decodedBody{list: list, raw: res.Body}
	}
	e.filter = newUsageFilter()
	res.Header.Del("Content-Length")
	e.left = -1
}

// headless ends a call that got no head, or one that can't be passed on.
func (e *exchange) headless(_ http.ResponseWriter, r *http.Request, err error) {
	e.silence.Stop()
	why := refusal{status: http.StatusBadGateway, message: "no answer from upstream " + e.up.name + ": " + kindOf(err)}
	if e.observer != nil {
		e.settle(engine.EndedCut)
	} else {
		reason := failReason(context.Cause(e.ctx), err)
		e.settle(reason)
		switch reason {
		case engine.FailedTimeout:
			why.status = http.StatusGatewayTimeout
			why.message = "no answer from upstream " + e.up.name + " in time"
		case engine.FailedStopped:
			why.status = http.StatusServiceUnavailable
			why.message = "the call was given up: " + errStopped.Error()
		case engine.FailedClient:
			return
		}
	}
	if e.failed != nil {
		return // serve ends the connection
	}
	clear(e.w.Header())
	e.h.writeError(e.w, r, e.up.dialect, why)
}

// ending says how an exchange that nobody settled yet has ended.
func (e *exchange) ending() string {
	cause := context.Cause(e.ctx)
	switch {
	case e.observer == nil:
		return failReason(cause, nil)
	case e.whole:
		return engine.EndedComplete
	}
	return endReason(cause)
}

// settle records the outcome, once: how is the reason of a failure where no
// head came, else the way in which the answer ended.
func (e *exchange) settle(how string) {
	if e.settled {
		return
	}
	e.settled = true
	e.unwatch() // a settled call's context ends, and that is no reason to stop
	took := time.Since(e.began)
	if e.observer == nil {
		_, e.failed = e.call.Fail(how, took)
	} else {
		_, e.failed = e.call.Respond(engine.Response{
			HTTPStatus: e.status, Ended: how, Reading: e.observer.Finish(), Body: e.part.Part(), Duration: took,
		})
	}
	log := e.h.log.With("run", e.run, "upstream", e.up.name, "http_status", e.status, "ended", how, "took", took)
	switch {
	case e.failed != nil:
		log.ErrorContext(e.ctx, "outcome not recorded", "error", e.failed)
	case e.attempts.Load() > 1:
		log.WarnContext(e.ctx, "call", "attempts", e.attempts.Load())
	default:
		log.InfoContext(e.ctx, "call")
	}
}

// Header, with Write, WriteHeader and FlushError, is the ResponseWriter that
// the answer is copied to.
func (e *exchange) Header() http.Header { return e.w.Header() }

// WriteHeader passes the head. Where nothing can follow it, it is the answer's
// end, and the outcome goes first.
func (e *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && e.left == 0 {
		e.whole = true
		e.settle(engine.EndedComplete)
		if e.failed != nil {
			panic(http.ErrAbortHandler)
		}
	}
	e.h.extend(e.w)
	e.w.WriteHeader(status)
}

// Write passes a piece of the answer, then meters it. The last byte of a
// declared length is the answer's end: it is held until the outcome is durable.
func (e *exchange) Write(p []byte) (int, error) {
	out, last := p, []byte(nil)
	switch {
	case e.filter != nil:
		out = e.filter.write(p)
	case e.left > 0 && int64(len(p)) >= e.left:
		out, last = p[:len(p)-1], p[len(p)-1:]
		e.whole = true
	}
	err := e.send(out)
	if !e.decoded {
		e.take(p)
	}
	if e.left > 0 {
		e.left -= int64(len(p))
	}
	if last != nil {
		e.settle(engine.EndedComplete)
		err = errors.Join(err, e.failed)
		if err == nil {
			err = e.send(last)
		}
	}
	if err != nil {
		e.cancel(errLeft)
		return 0, err
	}
	return len(p), nil
}

// send writes to the client and flushes: nothing waits for what comes next.
func (e *exchange) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	e.h.extend(e.w)
	if _, err := e.w.Write(p); err != nil {
		return err
	}
	return e.FlushError()
}

// FlushError flushes what was written, the head too.
func (e *exchange) FlushError() error {
	if err := http.NewResponseController(e.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// take meters bytes as they came from upstream and commits to them.
func (e *exchange) take(p []byte) {
	// Neither has anything to fail with.
	_, _ = e.part.Write(p)
	_, _ = e.observer.Write(p)
}

// source reads the answer's body and watches for its end and for silence.
type source struct {
	io.ReadCloser
	e *exchange
}

func (s *source) Read(p []byte) (int, error) {
	s.e.silence.Reset(s.e.h.idle)
	n, err := s.ReadCloser.Read(p)
	s.e.silence.Stop()
	if err == io.EOF {
		s.e.whole = true
	}
	if s.e.decoded && n > 0 {
		s.e.take(p[:n])
	}
	return n, err
}

// decodedBody decodes an answer for the client. The decoders are made at the
// first read, since making one waits for the body to begin.
type decodedBody struct {
	list  []string
	raw   io.ReadCloser
	plain io.Reader
	close []func()
}

func (d *decodedBody) Read(p []byte) (int, error) {
	if d.plain == nil {
		var r io.Reader = d.raw
		for i := len(d.list) - 1; i >= 0; i-- {
			next, closer, err := decoder(d.list[i], r)
			if err != nil {
				return 0, err
			}
			d.close = append(d.close, closer)
			r = next
		}
		d.plain = r
	}
	n, err := d.plain.Read(p)
	if err == io.EOF {
		// What stands behind the encoded stream is nothing to the client, but
		// it is a part of the answer that the record commits to.
		if _, rest := io.Copy(io.Discard, d.raw); rest != nil {
			return n, rest
		}
	}
	return n, err
}

// Close closes decoders and body.
func (d *decodedBody) Close() error {
	for _, c := range d.close {
		c()
	}
	return d.raw.Close()
}
