//go:build fault

// Writer is a small program that writes a ledger, for the tests of package
// fault: it says on standard output what was acknowledged, so that who kills
// it, or its disk, knows what has to be there afterwards.
//
//	writer init LEDGER
//	writer append LEDGER EVENTS WORKERS BYTES
//	writer full LEDGER
//	writer durable CALL PATH
//
// It exits with 74 where the ledger has latched, as docketd does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/durable"
	"github.com/docket-audit/docket/store"
	"github.com/docket-audit/docket/verify"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, store.ErrLatched):
		fmt.Println("latched:", err)
		os.Exit(74)
	default:
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("say what to do")
	}
	ctx := context.Background()
	switch what, path := args[0], args[1]; what {
	case "init":
		_, err := store.Init(ctx, path, store.InitOptions{CreatedBy: "writer", Verify: intact})
		return err
	case "append":
		n, err1 := strconv.Atoi(args[2])
		workers, err2 := strconv.Atoi(args[3])
		size, err3 := strconv.Atoi(args[4])
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		return withStore(path, func(s *store.Store) error { return appendAll(ctx, s, n, workers, size) })
	case "full":
		return withStore(path, func(s *store.Store) error { return fill(ctx, s) })
	case "durable":
		return callDurable(args[1], args[2])
	}
	return fmt.Errorf("unknown word %q", args[0])
}

// intact is the store's verifier.
func intact(ctx context.Context, path string) error {
	r, err := verify.File(ctx, path, verify.Options{Workers: 1})
	if err != nil {
		return err
	}
	if r.Verdict != verify.Intact {
		return fmt.Errorf("%s: %v", r.Verdict, r.Faults)
	}
	return nil
}

func withStore(path string, fn func(*store.Store) error) error {
	s, err := store.Open(context.Background(), path, store.Options{Verify: intact})
	if err != nil {
		return err
	}
	fmt.Println("open", s.Head().Seq, s.Unclean())
	err = fn(s)
	return errors.Join(err, s.Close())
}

// out keeps lines whole.
var out sync.Mutex

func say(format string, args ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Printf(format+"\n", args...)
}

func draft(size int, key string) store.Draft {
	return store.Draft{
		Header:  chain.Header{Type: "tool.call", Key: key},
		Content: fmt.Appendf(nil, `{"x":"%s"}`, strings.Repeat("x", size)),
	}
}

// appendAll appends n events by so many workers, and after an error tries once
// more: what that gives is said as well.
func appendAll(ctx context.Context, s *store.Store, n, workers, size int) error {
	var wg sync.WaitGroup
	next := make(chan int)
	failed := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for i := range next {
				key := fmt.Sprintf("%d-%d", os.Getpid(), i)
				say("send %s", key)
				r, err := s.Append(ctx, draft(size, key))
				if err != nil {
					say("failed %s unknown=%v: %v", key, errors.Is(err, store.ErrOutcomeUnknown), err)
					failed <- err
					return
				}
				say("ack %d %s", r.Seq, r.Hash)
			}
		})
	}
	var first error
	for i := 0; i < n && first == nil; i++ {
		select {
		case next <- i:
		case first = <-failed:
		}
	}
	close(next)
	wg.Wait()
	if first == nil && len(failed) > 0 {
		first = <-failed
	}
	if first != nil {
		_, err := s.Append(ctx, draft(size, ""))
		say("second: %v", err)
		if err == nil {
			return errors.New("the second append was not refused")
		}
	}
	return first
}

// fill appends until there is no room, and then what ends things.
func fill(ctx context.Context, s *store.Store) error {
	for {
		r, err := s.Append(ctx, draft(3000, ""))
		if errors.Is(err, store.ErrNoSpace) {
			say("full: %v", err)
			break
		}
		if err != nil {
			return err
		}
		say("ack %d %s", r.Seq, r.Hash)
	}
	for range 5 {
		p, err := store.Prepare(draft(500, ""))
		if err != nil {
			return err
		}
		t, err := s.SequenceClosing(func(q *store.Sequencer) error { q.Add(p); return nil })
		if err != nil {
			return err
		}
		r, err := t.Wait(ctx)
		if err != nil {
			return err
		}
		say("ack %d %s", r[0].Seq, r[0].Hash)
		say("closing")
	}
	return nil
}

// callDurable makes one call of package durable.
func callDurable(call, path string) error {
	content := func(f *os.File) error { _, err := f.WriteString("content"); return err }
	switch call {
	case "create":
		return durable.WriteFile(path, 0o640, durable.Create, content)
	case "replace":
		return durable.WriteFile(path, 0o640, durable.Replace, content)
	case "mkdirall":
		return durable.MkdirAll(path, 0o700)
	case "remove":
		return durable.Remove(path)
	case "syncdir":
		return durable.SyncDir(path)
	}
	return fmt.Errorf("unknown call %q", call)
}
