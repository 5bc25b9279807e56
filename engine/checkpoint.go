package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// A checkpoint is signed at the start, after this many events, and after this
// long where there are new ones: what lies above the last one is the window in
// which a cut can't be shown.
const (
	checkpointEvents   = 1000
	checkpointInterval = 5 * time.Minute
)

// checkpointer signs checkpoints in the background.
type checkpointer struct {
	cancel context.CancelFunc
	done   chan struct{}

	// mu is held while one is made: sizes in the ledger never fall.
	mu sync.Mutex
	// covered is the frontier up to the last checkpoint of this process,
	// over events that were read back and hashed again.
	covered chain.Frontier
}

func (c *checkpointer) stop() {
	if c.cancel != nil {
		c.cancel()
		<-c.done
	}
}

// startCheckpoints signs the first checkpoint of this start and goes on in the
// background.
func (e *Engine) startCheckpoints(ctx context.Context) error {
	if e.opts.Signer == nil {
		return nil
	}
	if _, err := e.checkpoint(ctx, "start"); err != nil {
		return err
	}
	loop, cancel := context.WithCancel(context.Background())
	e.checkpoints.cancel, e.checkpoints.done = cancel, make(chan struct{})
	go e.checkpointLoop(loop)
	return nil
}

func (e *Engine) checkpointLoop(ctx context.Context) {
	defer close(e.checkpoints.done)
	for {
		last := e.Head().Seq
		// The last event is a checkpoint: time begins with the next one.
		if e.store.Wait(ctx, last+1) != nil {
			return
		}
		timed, cancel := context.WithTimeout(ctx, checkpointInterval)
		reason := "count"
		err := e.store.Wait(timed, last+checkpointEvents)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			reason = "time"
		} else if err != nil {
			return
		}
		if _, err := e.checkpoint(ctx, reason); err != nil {
			e.log.Error("no checkpoint", "error", err.Error())
			if e.Err() != nil || ctx.Err() != nil {
				return
			}
		}
	}
}

// Checkpoint signs the ledger as it is now, records that, and returns the
// signed note.
func (e *Engine) Checkpoint(ctx context.Context) (string, error) {
	if e.opts.Signer == nil {
		return "", fmt.Errorf("checkpoint: %w", ErrNoKey)
	}
	return e.checkpoint(ctx, "demand")
}

func (e *Engine) checkpoint(ctx context.Context, reason string) (string, error) {
	c := &e.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	head := e.store.Head()
	if err := e.readBack(&c.covered, head); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	note, err := receipt.SignCheckpoint(e.opts.Signer, e.store.Ledger(), head.Seq, head.Frontier.Root())
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	_, err = e.record(ctx, chain.Header{Type: chain.TypeCheckpoint, Note: note}, []byte(`{"reason":`+strconv.Quote(reason)+`}`))
	return note, err
}

// readBack hashes the events behind f again, as they stand in the file, before
// anything is signed over them: memory and disk may have come apart.
func (e *Engine) readBack(f *chain.Frontier, head chain.Head) error {
	grown := f.Clone()
	if grown.Size() == 0 {
		// Of what stood there before this start, the tail was checked.
		grown = e.opened.Clone()
	}
	for grown.Size() < head.Seq {
		events, err := e.store.Read(grown.Size()+1, int(min(head.Seq-grown.Size(), 1<<20)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("event %d can't be read back", grown.Size()+1)
		}
		for _, ev := range events {
			if chain.EventHash(ev.Header) != ev.Hash {
				return fmt.Errorf("event %d reads back with another hash", grown.Size()+1)
			}
			grown.Add(ev.Hash)
		}
	}
	if grown.Root() != head.Frontier.Root() {
		return fmt.Errorf("the events up to %d read back with another root", head.Seq)
	}
	*f = grown
	return nil
}
