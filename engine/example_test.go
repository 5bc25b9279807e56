package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-audit/docket/engine"
)

// A program records a run of its own: a tool call, a call to a model, and what
// both together cost.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "docket")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	if _, err := engine.Init(ctx, path, engine.InitOptions{CreatedBy: "example"}); err != nil {
		log.Fatal(err)
	}
	e, err := engine.Open(ctx, engine.Options{Path: path, Version: "example"})
	if err != nil {
		log.Fatal(err)
	}
	run, _, err := e.OpenRun(ctx, engine.RunSpec{Name: "nightly"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = e.Append(ctx, engine.Draft{
		Type: "tool.call", Run: run.ID,
		Content: []byte(`{"name": "read_file", "arguments": {"path": "a.txt"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}

	// The request is on the disk before the call leaves …
	call, err := e.Begin(ctx, engine.CallSpec{
		Run: run.ID, Upstream: "anthropic", Provider: "anthropic",
		Method: "POST", Path: "/v1/messages", Model: "claude-haiku-4-5",
		Request: engine.NewPartOf("request", "application/json", []byte(`{"model":"claude-haiku-4-5"}`)),
	})
	if err != nil {
		log.Fatal(err)
	}
	// … and its outcome when Respond returns.
	_, err = call.Respond(engine.Response{
		HTTPStatus: 200, Ended: engine.EndedComplete, Duration: 3 * time.Second,
		Reading: engine.Reading{
			Model: "claude-haiku-4-5", Source: "reported",
			Usage: map[string]uint64{"input": 1200, "output": 350},
		},
		Body: engine.NewPartOf("response", "application/json", []byte(`{"usage":{}}`)),
	})
	if err != nil {
		log.Fatal(err)
	}

	run, err = e.CloseRun(ctx, run.ID, engine.CloseSpec{Reason: "done"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d call, %s USD, %d events\n", run.Totals.Calls, run.Totals.Cost, run.RunSeq)
	if err := e.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 1 call, 0.00295 USD, 5 events
}
