package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// A ledger is made once and opened by one writer. An append returns when the
// event is on the disk; the same key gives the first receipt again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "docket")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	if _, err := store.Init(ctx, path, store.InitOptions{CreatedBy: "example"}); err != nil {
		log.Fatal(err)
	}
	s, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	draft := store.Draft{
		Header:  chain.Header{Type: "tool.call", Run: "run-1", Key: "call-17"},
		Content: []byte(`{"name": "read_file", "arguments": {"path": "a.txt"}}`),
	}
	for range 2 {
		r, err := s.Append(ctx, draft)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("event", r.Seq, "replayed", r.Replayed)
	}

	// Decided where numbers are assigned: the run's next event, if the run
	// has had no more than one.
	p, err := store.Prepare(store.Draft{Header: chain.Header{Type: "file.changed", Run: "run-1"}})
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := s.Sequence(func(q *store.Sequencer) error {
		state, _, err := s.Run("run-1")
		if err != nil {
			return err
		}
		if state.RunSeq > 1 {
			return fmt.Errorf("the run has %d events", state.RunSeq)
		}
		q.Add(p)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ticket.Wait(ctx); err != nil {
		log.Fatal(err)
	}

	events, err := s.Read(1, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events {
		h, err := chain.ParseHeader(e.Header)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(h.Seq, h.Type, h.Run, h.RunSeq)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// event 2 replayed false
	// event 2 replayed true
	// 1 ledger.created  0
	// 2 tool.call run-1 1
	// 3 file.changed run-1 2
}
