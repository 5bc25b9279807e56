package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Head is the last durable event.
type Head struct {
	Ledger string `json:"ledger"` // the ledger's id
	Seq    uint64 `json:"seq"`
	Hash   string `json:"hash"` // 64 hex digits
	Root   string `json:"root"` // of the tree up to Seq, 64 hex digits
}

// Head asks for the last durable event.
func (c *Client) Head(ctx context.Context) (h Head, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/head", nil, &h, http.StatusOK)
	return h, err
}

// Status is how the service stands.
type Status struct {
	Path        string `json:"path"` // of the ledger file
	Head        Head   `json:"head"`
	Bytes       int64  `json:"bytes"`   // of the ledger file
	Started     string `json:"started"` // RFC 3339, UTC
	OpenRuns    int    `json:"open_runs"`
	OpenCalls   int    `json:"open_calls"`
	Unavailable uint64 `json:"unavailable"`       // refusals that could not be recorded
	Latched     string `json:"latched,omitempty"` // why nothing more is written; "" while healthy
}

// Status asks how the service stands.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/status", nil, &s, http.StatusOK)
	return s, err
}

// Totals sums the outcomes of calls.
type Totals struct {
	Calls     uint64 `json:"calls"`
	Failed    uint64 `json:"failed"`
	Unpriced  uint64 `json:"unpriced"`
	Estimated uint64 `json:"estimated"`
	CostUSD   string `json:"cost_usd"` // exact decimal
}

// Cost is one row of the costs.
type Cost struct {
	// Key is the run, the day or the role; provider and model by model; empty
	// for the whole ledger.
	Key []string `json:"key"`
	Totals
}

// Costs asks for the costs by ledger, run, model, role or day.
func (c *Client) Costs(ctx context.Context, by string) ([]Cost, error) {
	var body struct{ Rows []Cost }
	_, err := c.call(ctx, http.MethodGet, "/v1/costs?by="+url.QueryEscape(by), nil, &body, http.StatusOK)
	return body.Rows, err
}

// EventsQuery says which events are wanted. The zero value is all of them up
// to the head.
type EventsQuery struct {
	From, To  uint64 // numbers, both included; 0: from the first, to the head
	Type, Run string // "": any
	Follow    bool   // go on with what comes after the head
	Trailer   bool   // an export of From to To, with its trailer; Type, Run and Follow are left out
}

func (q EventsQuery) encode() string {
	v := url.Values{}
	for name, n := range map[string]uint64{"from": q.From, "to": q.To} {
		if n > 0 {
			v.Set(name, strconv.FormatUint(n, 10))
		}
	}
	for name, s := range map[string]string{"type": q.Type, "run": q.Run} {
		if s != "" {
			v.Set(name, s)
		}
	}
	for name, b := range map[string]bool{"follow": q.Follow, "trailer": q.Trailer} {
		if b {
			v.Set(name, "true")
		}
	}
	return v.Encode()
}

// Events streams export lines, each with its newline.
func (c *Client) Events(ctx context.Context, q EventsQuery) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/events?"+q.encode(), "", nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return stream{resp.Body}, nil
}

// Snapshot is a copy of the ledger file as it streams by.
type Snapshot struct {
	io.ReadCloser
	Size   int64  // bytes
	Ledger string // the ledger's id
	Seq    uint64 // of the last event in it
	Hash   string // of that event
}

// Snapshot asks for a consistent copy of the ledger file.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/snapshot", "", nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	h := resp.Header
	seq, err := strconv.ParseUint(h.Get("Docket-Seq"), 10, 64)
	if err != nil || resp.ContentLength < 0 {
		resp.Body.Close()
		return nil, fmt.Errorf("the snapshot's length or head is not stated")
	}
	return &Snapshot{stream{resp.Body}, resp.ContentLength, h.Get("Docket-Ledger"), seq, h.Get("Docket-Hash")}, nil
}

// Checkpoint has the head signed and returns the note.
func (c *Client) Checkpoint(ctx context.Context) (string, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/checkpoint", "", nil, http.StatusOK)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return string(b), nil
}
