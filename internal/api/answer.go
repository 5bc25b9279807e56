package api

import (
	"io"
	"net/http"
	"time"
)

// stall is how long one read of a body or one write of an answer may take. A
// stream as a whole may last for ever.
const stall = 60 * time.Second

// answer knows whether a response has begun, and moves the write deadline on
// with each write.
type answer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(stall)) // a recorder in a test has none
	return a.ResponseWriter.Write(p)
}

func (a *answer) flush() error { return http.NewResponseController(a.ResponseWriter).Flush() }

// clearDeadlines leaves none to the connection's next request: net/http resets
// the one for reading by itself, the one for writing only where it has set it.
func (a *answer) clearDeadlines() {
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Time{}) // as above
}

// slowReader gives a body a rolling deadline, and takes it away at the body's
// end: the server goes on reading to learn whether the client is still there,
// and a deadline would then look like a client that left.
type slowReader struct {
	w http.ResponseWriter
	r io.Reader
}

func (s slowReader) Read(p []byte) (int, error) {
	c := http.NewResponseController(s.w)
	_ = c.SetReadDeadline(time.Now().Add(stall)) // as above
	n, err := s.r.Read(p)
	if err != nil {
		_ = c.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}
