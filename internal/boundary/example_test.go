package boundary_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
)

// A boundary in front of a provider: the client calls it as it would call the
// provider, and the ledger knows what that cost.
func Example() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model":"claude-haiku-4-5","content":[],"usage":{"input_tokens":1200,"output_tokens":350}}`)
	}))
	defer provider.Close()

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
	handler, err := boundary.New(boundary.Options{
		Recorder:  boundary.Record(e),
		Upstreams: map[string]boundary.Upstream{"anthropic": {Dialect: "anthropic", URL: provider.URL}},
	})
	if err != nil {
		log.Fatal(err)
	}
	front := httptest.NewServer(handler)
	defer front.Close()
	run, token, err := e.OpenRun(ctx, engine.RunSpec{})
	if err != nil {
		log.Fatal(err)
	}

	base := front.URL + boundary.Prefix + token + "/anthropic" // ANTHROPIC_BASE_URL
	res, err := http.Post(base+"/v1/messages", "application/json", strings.NewReader(`{"model":"claude-haiku-4-5"}`))
	if err != nil {
		log.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()

	run, err = e.CloseRun(ctx, run.ID, engine.CloseSpec{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d call, %s USD\n", res.Status, run.Totals.Calls, run.Totals.Cost)
	handler.Close()
	if err := e.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK, 1 call, 0.00295 USD
}
