//go:build !slow && race

package store_test

// How many commits TestPowerCut makes, and how many subsets of the writes of
// each it looks at: the race detector makes each image some ten times as dear.
const (
	crashCommits = 20
	crashSubsets = 4
)
