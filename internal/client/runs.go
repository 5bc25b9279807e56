package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// RunSpec says what a run begins with.
type RunSpec struct {
	Run       string            `json:"run,omitempty"`       // "" for a random id
	Name      string            `json:"name,omitempty"`      // for people
	Upstreams map[string]string `json:"upstreams,omitempty"` // base URLs by upstream name, for this run alone
	Actor     *Actor            `json:"actor,omitempty"`
}

// OpenedRun is a run with its token.
type OpenedRun struct {
	Run      string            `json:"run"`
	Token    string            `json:"token"`     // secret; valid until the run closes
	BaseURLs map[string]string `json:"base_urls"` // the boundary's address for each upstream
}

// OpenRun opens a run.
func (c *Client) OpenRun(ctx context.Context, s RunSpec) (r OpenedRun, err error) {
	_, err = c.call(ctx, http.MethodPost, "/v1/runs", s, &r, http.StatusCreated)
	return r, err
}

// Run is where a run stands.
type Run struct {
	Run       string            `json:"run"`
	Name      string            `json:"name,omitempty"`
	Upstreams map[string]string `json:"upstreams,omitempty"`
	Actor     *Actor            `json:"actor,omitempty"`
	Opened    uint64            `json:"opened"`           // seq of its first event
	Closed    uint64            `json:"closed,omitempty"` // seq of its run.closed; 0 while it is open
	Events    uint64            `json:"events"`
	OpenCalls int               `json:"open_calls"`
	Implicit  bool              `json:"implicit"` // opened by an append
	Totals    Totals            `json:"totals"`
}

// Run asks where one run stands.
func (c *Client) Run(ctx context.Context, id string) (r Run, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/runs/"+segment(id), nil, &r, http.StatusOK)
	return r, err
}

// Runs lists the runs in the order of their ids.
func (c *Client) Runs(ctx context.Context) ([]Run, error) {
	var body struct{ Runs []Run }
	_, err := c.call(ctx, http.MethodGet, "/v1/runs", nil, &body, http.StatusOK)
	return body.Runs, err
}

// CloseSpec says how a run ends.
type CloseSpec struct {
	Reason   string
	ExitCode *int          // 0 to 255, of the command that the run was
	Wait     time.Duration // for calls in flight, whole milliseconds; 0: the service's own 30 s
}

// CloseRun ends a run and returns it with its totals.
func (c *Client) CloseRun(ctx context.Context, id string, s CloseSpec) (r Run, err error) {
	body := struct {
		Reason   string `json:"reason,omitempty"`
		ExitCode *int   `json:"exit_code,omitempty"`
		WaitMS   int64  `json:"wait_ms,omitempty"`
	}{s.Reason, s.ExitCode, s.Wait.Milliseconds()}
	_, err = c.call(ctx, http.MethodPost, "/v1/runs/"+segment(id)+"/close", body, &r, http.StatusOK)
	return r, err
}

// segment spells an id as one segment of a path. An id of points alone would
// otherwise mean this folder or the one above it.
func segment(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
