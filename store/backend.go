package store

import (
	"io"

	"github.com/docket-audit/docket/chain"
)

// backend is where one ledger lies: everything below the committer. What
// drafts become, how events are linked, what is derived from them, and what an
// error means for who waits is decided above it and is the same for each kind
// of storage. The names of buckets and the form of keys and values are those
// of package chain.
//
// A backend serves one writer and any number of readers at a time. It never
// retries: who calls it knows what an error means, and a backend does not.
type backend interface {
	// view runs fn on one consistent state, which holds every change whose
	// commit has returned nil, and perhaps one that is being committed.
	view(fn func(reader) error) error
	// commit is one transaction: it runs build on the state that the
	// transaction follows on, where events are numbered, linked and hashed,
	// and makes what build returns durable, whole, or not at all. When it
	// returns nil, the change survives a power loss. An error of build, and
	// one that is errSequence, tell that nothing was written; after any
	// other, whether the change was kept is unknown.
	commit(build func(reader) (*change, error)) error
	// snapshot writes one consistent state to w, as a file of its own that
	// the same kind of backend opens, and returns the head that it holds.
	snapshot(w io.Writer) (chain.Head, error)
	// close lets go of everything. It waits for views.
	close() error
}

// reader reads one consistent state. It is valid inside view alone, and so is
// the memory that it gives out.
type reader interface {
	// get returns the value of key in bucket; nil where it is absent.
	get(bucket string, key []byte) []byte
	// scan calls fn for the keys of bucket from the key from on, in rising
	// order of their bytes, until fn returns false or an error. A bucket
	// that is absent has no keys.
	scan(bucket string, from []byte, fn func(key, value []byte) (bool, error)) error
	// last returns the greatest key of bucket and its value; nil for none.
	last(bucket string) (key, value []byte)
	// used is the number of bytes that a snapshot takes.
	used() int64
}

// change is what one commit does.
type change struct {
	// after is the value of chain.KeyHead that the change follows on, byte
	// for byte; nil for the first one. It is the guard against a second
	// writer: a commit on another head is errSequence.
	after []byte
	// events are new, their keys rise and lie above all that is there.
	events []write
	// derived are put and, where the value is nil, deleted.
	derived []write
	// reset empties every bucket but those of chain.BucketEvents and
	// chain.BucketMeta before derived is written.
	reset bool
}

// write is one value. bucket is empty in change.events.
type write struct {
	bucket     string
	key, value []byte
}
