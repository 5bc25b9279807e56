// Package store is the only writer of a ledger file.
package store
