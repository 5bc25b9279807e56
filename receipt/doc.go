// Package receipt holds what a ledger hands to third parties: its keys,
// checkpoints and receipts.
package receipt
