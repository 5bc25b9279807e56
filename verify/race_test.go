//go:build race

package verify_test

// raceEnabled says that the race detector is on, which needs more address space
// than the child may have otherwise.
const raceEnabled = true

// sweep thins out loops that run in one goroutine: the race detector has
// nothing to find in them and makes them ten times as long.
func sweep(stride int) int { return 8 * stride }
