package store

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// reserveBytes of the disk are kept for events that end what has begun: some
// commits' worth of pages, most of which bbolt takes from what it freed before.
const reserveBytes = 16 * PageSize

// reserveRetry is how long a refusal for want of space stands before the disk
// is asked again.
const reserveRetry = time.Second

// reserve keeps space for the events that end what others have begun. A commit
// that meets a full disk latches the ledger, and then nothing more can be
// written; so ordinary events are refused, with nothing written and nothing
// latched, while there is still some room. It is room on the disk and not in
// the file: blocks that are allocated ahead make each sync slower.
type reserve struct {
	file *os.File
	path string

	mu    sync.Mutex
	free  int64 // what the disk had when it was asked
	taken int64 // what was admitted since
	asked time.Time
}

// ask asks the disk how much is free.
func (r *reserve) ask() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.askLocked()
}

func (r *reserve) askLocked() error {
	free, err := freeBytes(r.file)
	if err != nil {
		return err
	}
	r.free, r.taken, r.asked = int64(min(free, 1<<62)), 0, time.Now()
	return nil
}

// take counts bytes that were admitted.
func (r *reserve) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += int64(n)
}

// admits says why an ordinary event has no room.
func (r *reserve) admits() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free-r.taken < reserveBytes && time.Since(r.asked) >= reserveRetry {
		if err := r.askLocked(); err != nil {
			return err
		}
	}
	if r.free-r.taken >= reserveBytes {
		return nil
	}
	return fmt.Errorf("%s: %d bytes free there, and %d are kept for the events that end what has begun: make room: %w",
		r.path, r.free, reserveBytes, ErrNoSpace)
}
