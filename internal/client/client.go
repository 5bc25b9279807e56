package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoService: nobody answers at the socket. Nothing was done.
	ErrNoService = errors.New("no service answers")
	// ErrBroken: the connection ended before the answer did. What the
	// request asked for may have been done.
	ErrBroken = errors.New("connection broken before the answer")
)

// Error is an answer by which the service refused, or failed.
type Error struct {
	Status  int    // of the HTTP answer
	Code    string // one of the API's closed list
	Message string // what, and where
	Hint    string // what to do
}

func (e *Error) Error() string { return e.Message }

// Client calls the service behind one socket.
type Client struct {
	socket string
	http   *http.Client
}

// New makes a client of the service at the socket path. It doesn't connect.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w at %s: %w", ErrNoService, socket, err)
		}
		return c, err
	}
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 64},
		// The API has no redirects: one would be another program's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections that wait for another request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Socket is the path that the client calls.
func (c *Client) Socket() string { return c.socket }

// do sends a request and returns an answer of one of the statuses; any other
// is an *Error.
func (c *Client) do(ctx context.Context, method, path, media string, body io.Reader, statuses ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docket"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, cause(err)
	}
	for _, s := range statuses {
		if resp.StatusCode == s {
			return resp, nil
		}
	}
	defer resp.Body.Close()
	return nil, readError(resp)
}

// cause takes the request's address, which says nothing here, off an error of
// the HTTP client.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, ErrNoService) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if b, ok := errors.AsType[*bodyError](err); ok {
		return b.error
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// maxAnswer bounds an answer that is read whole. Lists of runs are the largest.
const maxAnswer = 1 << 30

func readError(resp *http.Response) error {
	var body struct {
		Error struct{ Code, Message, Hint string }
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(b, &body)
	}
	if err != nil || body.Error.Code == "" {
		return fmt.Errorf("the service answered %s without an error of its own: is it docketd that listens there?", resp.Status)
	}
	e := body.Error
	return &Error{resp.StatusCode, e.Code, e.Message, e.Hint}
}

// call sends v as JSON, or nothing where it is nil, and reads the answer into
// out.
func (c *Client) call(ctx context.Context, method, path string, v, out any, statuses ...int) (int, error) {
	var body io.Reader
	media := ""
	if v != nil {
		b, err := json.Marshal(v)
		if err != nil {
			return 0, fmt.Errorf("encode request: %w", err)
		}
		body, media = bytes.NewReader(b), "application/json"
	}
	resp, err := c.do(ctx, method, path, media, body, statuses...)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, decode(resp, out)
}

func decode(resp *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// stream wraps the body of an answer so that its early end is ErrBroken.
type stream struct{ io.ReadCloser }

func (s stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return n, err
}
