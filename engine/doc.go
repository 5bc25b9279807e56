// Package engine records agent runs into a ledger, for embedding without HTTP.
package engine
