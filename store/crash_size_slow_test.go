//go:build slow

package store_test

// How many commits TestPowerCut makes, and how many subsets of the writes of
// each it looks at: minutes.
const (
	crashCommits = 200
	crashSubsets = 256
)
