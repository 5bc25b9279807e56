package meter

// Every loop over outside input is bounded by a limit named here or by one of
// chain's.
const (
	// maxRawUsage bounds the usage blocks that a Reading carries as they came:
	// they go into an event's content, which holds 1 MiB in all.
	maxRawUsage = 64 << 10
	// MaxPriceFile bounds a price file: thousands of rows fit, a wrong file
	// named by mistake does not take the memory.
	MaxPriceFile = 16 << 20
	// maxIterations bounds the iterations of one Anthropic answer. Real ones
	// have a handful; past the limit the block counts as unreadable.
	maxIterations = 10_000
	// bytesPerToken is the stated rule for estimates: it errs high for English
	// prose and is about right for code.
	bytesPerToken = 3
)
