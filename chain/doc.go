// Package chain holds the bytes of a ledger.
package chain
