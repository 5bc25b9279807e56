package chain

// Every loop over outside input is bounded by a limit named here. The sizes
// are those of docs/format.md, sections 1, 2 and 7: they are part of the
// format and never change for version 1.
const (
	// FormatName is the format member of ledger.created.
	FormatName = "docketd.ledger/1"
	// ReceiptFormat is the format member of a receipt.
	ReceiptFormat = "docketd.receipt/1"

	// MaxInt is the largest integer that a header may hold: 2^53 − 1, so
	// that every JSON implementation reads it exactly.
	MaxInt = 1<<53 - 1
	// MaxHeader and MaxContent bound the canonical bytes of the two halves
	// of an event, so that one event always fits in memory many times over.
	MaxHeader  = 64 << 10
	MaxContent = 1 << 20
	// MaxDepth bounds nesting, {} being one level: deep input would
	// otherwise cost stack in every reader.
	MaxDepth = 128
	// MaxLine bounds a line of an export, newline excluded.
	MaxLine = 2 << 20
	// MaxBodyChunk bounds the decoded data of one body line.
	MaxBodyChunk = 1 << 20
	// MaxType, MaxToken and MaxName bound the header strings by kind.
	MaxType  = 64
	MaxToken = 128
	MaxName  = 256
	// MaxClass bounds a usage class's name and MaxClasses their number, so
	// that a provider's counters can't fill the header.
	MaxClass   = 64
	MaxClasses = 64
	// MaxKeys bounds the signing keys of a ledger.
	MaxKeys = 4
	// MaxPriceDigits bounds a price before and after the point.
	MaxPriceDigits = 18
	// MaxAmountDigits and MaxAmountDecimals bound costs and sums: a price
	// of 18 decimals over a million has 24.
	MaxAmountDigits   = 48
	MaxAmountDecimals = 24
)
