package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/docket-audit/docket/demo/loopback"
)

// callLimit bounds one call: a demo that hangs shows nothing.
const callLimit = 30 * time.Second

// endpoint is where and how an upstream is called.
type endpoint struct {
	dialect string // anthropic or openai: which SDK calls
	base    string // the SDK's base URL
	key     string
}

// result is one call as the client saw it.
type result struct {
	call     *loopback.Call
	status   int    // 0: no answer came
	sent     []byte // body of the request, as the client sent it
	received []byte // body of the answer, as the client got it
	text     string // what the model wrote, as the SDK read it
	usage    bool   // a stream had a chunk with usage and nothing else
	left     bool   // the client left on its own
	err      error  // what the SDK said
}

// askAll makes the calls, from as many goroutines as there are workers, each
// of which takes the next call when it has done one. The results have the
// order of the calls.
func askAll(ctx context.Context, calls []loopback.Call, at map[string]endpoint, workers int) []result {
	clients := newClients(at)
	defer clients.close()
	results := make([]result, len(calls))
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				results[i] = clients.ask(ctx, &calls[i])
			}
		})
	}
	for i := range calls {
		next <- i
	}
	close(next)
	wg.Wait()
	return results
}

// prompt is what the agent has to say in a call: the case's request, taken
// apart so that the SDK puts it together again.
type prompt struct {
	model     string
	text      string
	maxTokens int64
	extra     map[string]any // members that are the same in every API, as service_tier
}

func promptOf(c *loopback.Case) (prompt, error) {
	var all map[string]any
	var req struct {
		Model     string `json:"model"`
		MaxTokens int64  `json:"max_tokens"`
		Messages  []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := errors.Join(json.Unmarshal(c.Request, &req), json.Unmarshal(c.Request, &all)); err != nil {
		return prompt{}, fmt.Errorf("case %s: read request: %w", c.ID, err)
	}
	if len(req.Messages) != 1 || req.Messages[0].Role != "user" {
		return prompt{}, fmt.Errorf("case %s: the request is not one message of a user", c.ID)
	}
	for _, known := range []string{"model", "max_tokens", "messages", "stream", "stream_options"} {
		delete(all, known)
	}
	return prompt{model: req.Model, text: req.Messages[0].Content, maxTokens: req.MaxTokens, extra: all}, nil
}

func (c clients) ask(ctx context.Context, call *loopback.Call) result {
	r := result{call: call}
	p, err := promptOf(call.Case)
	if err != nil {
		r.err = err
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	switch {
	case call.Case.Endpoint == loopback.EndpointMessages && call.Case.Stream:
		r.err = c.streamMessage(ctx, cancel, p, &r)
	case call.Case.Endpoint == loopback.EndpointMessages:
		r.err = c.message(ctx, p, &r)
	case call.Case.Stream:
		r.err = c.streamCompletion(ctx, cancel, p, &r)
	default:
		r.err = c.completion(ctx, p, &r)
	}
	return r
}

func (r *result) callID() string { return strconv.Itoa(r.call.ID) }

// watch is a middleware for either SDK. It keeps the bytes of both bodies as
// they stand on the client's side of the connection.
func (r *result) watch(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if err := req.Body.Close(); err != nil {
		return nil, fmt.Errorf("close request: %w", err)
	}
	r.sent, req.Body = body, io.NopCloser(bytes.NewReader(body))
	resp, err := next(req)
	if err != nil {
		return resp, err
	}
	r.status = resp.StatusCode
	resp.Body = &watched{resp.Body, r}
	return resp, nil
}

// watched copies what is read of an answer into its result.
type watched struct {
	io.ReadCloser
	to *result
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.to.received = append(w.to.received, p[:n]...)
	return n, err
}

// recorded is the case's answer, for an SDK to read without any network.
func recorded(c *loopback.Case) *http.Response {
	return &http.Response{
		Header: http.Header{"Content-Type": {c.Headers["content-type"]}},
		Body:   io.NopCloser(bytes.NewReader([]byte(c.Body))),
	}
}
