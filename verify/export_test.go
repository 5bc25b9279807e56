package verify

import "testing"

// SetMaxStretches lowers the bound of a plan, so that a small input needs many
// windows.
func SetMaxStretches(t testing.TB, n int) {
	old := maxStretches
	maxStretches = n
	t.Cleanup(func() { maxStretches = old })
}

// SetMaxKeptBody lowers the size of bodies above which they are read again.
func SetMaxKeptBody(t testing.TB, n int) {
	old := maxKeptBody
	maxKeptBody = n
	t.Cleanup(func() { maxKeptBody = old })
}

// MaxFaults is how many faults a report lists.
const MaxFaults = maxFaults
