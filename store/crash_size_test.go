//go:build !slow && !race

package store_test

// How many commits TestPowerCut makes, and how many subsets of the writes of
// each it looks at: a few seconds.
const (
	crashCommits = 60
	crashSubsets = 24
)
