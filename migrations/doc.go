// Package migrations owns the schema of a ledger file: which versions there
// are, how an empty database gets the current one, and which files this
// program may open. A step moves a file from one version to the next, in one
// transaction, and never touches the bytes of an event.
//
// It leaves to others when a file is migrated and what is copied and verified
// before.
package migrations
