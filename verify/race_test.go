//go:build race

package verify_test

// raceEnabled says that the race detector is on, which needs more address space
// than the child may have otherwise.
const raceEnabled = true
