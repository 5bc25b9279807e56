package verify

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/docket-audit/docket/chain"
)

const (
	// chunkBytes is how much input one worker takes at a time: enough that
	// handing it over costs nothing beside hashing it, and little enough that
	// the chunks in flight stay at a few MiB.
	chunkBytes = 512 << 10
	// chunkItems bounds a chunk of very small lines, so that what is kept
	// beside the bytes stays bounded too.
	chunkItems = 8192
)

// piece is one line or record in a chunk's data.
type piece struct {
	start, end int
	off        int64  // of the line in an export
	key        uint64 // of the record in a database
	num        uint64 // the number that a plan found for the line; 0 without a plan
	late       bool   // the plan found a higher number in front of it
}

// chunk is a stretch of input and what a worker makes of it. Chunks are
// reused: nothing may keep their memory once they are handed back.
type chunk struct {
	data   []byte
	pieces []piece
	stored bool  // pieces are records of a database, not lines of an export
	end    int64 // input offset behind the chunk, for progress
	tail   bool  // the input ends behind it, with a line that has no newline
	err    error // of reading

	items    []item
	leaves   []chain.TreeHash // of the events, by stated hash
	scratch  []chain.TreeHash
	subtrees []subtree
	clean    bool   // every event is well-formed and each is the next number
	first    uint64 // number of the first event

	done chan struct{} // gets one value when a worker is through
}

// work fills in what can be found out about the chunk alone. With hashes
// false it only reads forms and numbers.
func (c *chunk) work(hashes bool) {
	c.items = slices.Grow(c.items[:0], len(c.pieces))[:len(c.pieces)]
	c.leaves, c.subtrees = c.leaves[:0], c.subtrees[:0]
	c.clean, c.first = true, 0
	for i, p := range c.pieces {
		it := &c.items[i]
		if c.stored {
			it.readRecord(p.key, c.data[p.start:p.end], hashes)
		} else {
			it.readLine(c.data[p.start:p.end], p.off, hashes)
		}
		if p.num != 0 {
			it.seq, it.late = p.num, p.late
		}
		if it.kind == itemEvent {
			c.follow(it, hashes)
		}
	}
	if hashes && c.clean {
		c.scratch = append(c.scratch[:0], c.leaves...)
		c.subtrees = subtrees(c.subtrees, c.first-1, c.leaves, c.scratch)
	}
}

// follow adds an event's leaf as long as each event is the next one.
func (c *chunk) follow(it *item, hashes bool) {
	if c.first == 0 {
		c.first = max(it.seq, 1)
	}
	if it.err != nil || it.seq != c.first+uint64(len(c.leaves)) {
		c.clean = false
	}
	if hashes && c.clean {
		c.leaves = append(c.leaves, chain.LeafHash(it.hash))
	}
}

// feeder hands out the input piece by piece. fill resets c and puts the next
// stretch into it; io.EOF comes with the last one, which may be empty.
type feeder interface{ fill(c *chunk) error }

// serial is pipeline in the caller's goroutine.
func serial(ctx context.Context, f feeder, hashes bool, each func(*chunk) error) error {
	var c chunk
	for {
		err := f.fill(&c)
		if c.err = err; err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.work(hashes)
		if eachErr := each(&c); eachErr != nil || err != nil {
			return eachErr
		}
	}
}

// pipeline reads by f, works on chunks in parallel and calls each with them,
// in order. It ends when the input does, when each returns an error, or when
// ctx ends, and leaves no goroutine behind.
func pipeline(ctx context.Context, workers int, f feeder, hashes bool, each func(*chunk) error) error {
	if workers == 1 {
		return serial(ctx, f, hashes, each)
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()

	inFlight := workers + 2
	free := make(chan *chunk, inFlight)
	for range inFlight {
		free <- &chunk{done: make(chan struct{}, 1)}
	}
	todo := make(chan *chunk, inFlight)
	ordered := make(chan *chunk, inFlight)
	group.Go(func() {
		defer close(todo)
		defer close(ordered)
		for {
			var c *chunk
			select {
			case c = <-free:
			case <-ctx.Done():
				return
			}
			c.err = f.fill(c)
			todo <- c
			ordered <- c
			if c.err != nil {
				return
			}
		}
	})
	for range workers {
		group.Go(func() {
			for c := range todo {
				if ctx.Err() == nil {
					c.work(hashes)
				}
				c.done <- struct{}{}
			}
		})
	}
	for c := range ordered {
		<-c.done
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.err != nil && !errors.Is(c.err, io.EOF) {
			return c.err
		}
		if err := each(c); err != nil {
			return err
		}
		free <- c
	}
	return ctx.Err()
}
