package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

func TestParallelAppendsGiveOneChain(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := store.Init(ctx, path, store.InitOptions{CreatedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 50 {
				_, err := s.Append(ctx, store.Draft{
					Header:  chain.Header{Type: "tool.call", Run: fmt.Sprint("r", g%7)},
					Content: []byte(fmt.Sprintf(`{"g":%d, "i":%d}`, g, i)),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := s.Head().Seq; got != 3201 {
		t.Errorf("head %d", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = store.Open(ctx, path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var f chain.Frontier
	var prev chain.Hash
	n := uint64(0)
	for from := uint64(1); ; {
		events, err := s.Read(from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			n++
			h, err := chain.ParseHeader(e.Header)
			if err != nil {
				t.Fatal(err)
			}
			if h.Seq != n || n > 1 && h.Prev != prev || chain.EventHash(e.Header) != e.Hash {
				t.Fatal(n)
			}
			prev = e.Hash
			f.Add(e.Hash)
		}
		from += uint64(len(events))
	}
	h := s.Head()
	if n != 3201 || h.Frontier.Root() != f.Root() {
		t.Error(n)
	}
}
