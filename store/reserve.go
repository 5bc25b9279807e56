package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// reserveBytes is kept free, in blocks of the ledger file that are allocated
// and not yet used: some commits' worth of pages, most of which bbolt takes
// from what it freed before. reserveChunk is allocated at once where the disk
// has it, so that the disk is asked seldom.
const (
	reserveBytes = 16 * PageSize
	reserveChunk = 256 * PageSize
)

// reserveRetry is how long a refusal for want of space stands before the disk
// is asked again.
const reserveRetry = time.Second

// errNoAllocate tells that the file system can't set blocks aside.
var errNoAllocate = errors.New("file system can't allocate ahead")

// reserve sets space aside for the events that end what others have begun. A
// commit that meets a full disk latches the ledger, and then nothing more can
// be written; so ordinary events are refused, with nothing written and nothing
// latched, while the reserve is still whole.
type reserve struct {
	file *os.File
	path string

	mu    sync.Mutex
	used  int64 // bytes of the file that the database uses
	kept  int64 // blocks of the file are allocated up to here
	short error // why ordinary events are refused; nil while they are not
	asked time.Time
}

// keep makes sure of the reserve behind the used bytes. It returns an error
// only where the storage failed; want of space shows in admits.
func (r *reserve) keep(used int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = used
	if r.short == nil && r.kept-used >= reserveBytes {
		return nil
	}
	return r.ask()
}

// admits says why an ordinary event has no room.
func (r *reserve) admits() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.short != nil && time.Since(r.asked) >= reserveRetry {
		if err := r.ask(); err != nil {
			return err
		}
	}
	return r.short
}

// ask asks the disk for the reserve. The caller holds mu.
func (r *reserve) ask() error {
	r.asked = time.Now()
	var err error
	for _, n := range []int64{reserveChunk, reserveBytes} {
		if err = allocate(r.file, r.used, n); err == nil {
			r.kept, r.short = r.used+n, nil
			return nil
		}
		if !isFull(err) {
			break
		}
	}
	free, freeErr := freeBytes(r.file)
	if freeErr != nil {
		return errors.Join(err, freeErr)
	}
	switch {
	case errors.Is(err, errNoAllocate) && free >= reserveBytes:
		r.short = nil
		return nil
	case errors.Is(err, errNoAllocate) || isFull(err):
		r.short = fmt.Errorf("%s: %d bytes free there, and %d are kept for the events that end what has begun: make room: %w", r.path, free, reserveBytes, ErrNoSpace)
		return nil
	}
	return fmt.Errorf("allocate space for %s: %w", r.path, err)
}
