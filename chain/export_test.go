package chain

import (
	"maps"
	"slices"
)

// ClosedTypes lists the types under closed prefixes.
func ClosedTypes() []string { return slices.Sorted(maps.Keys(closedTypes)) }

// BreakSelfTest makes SelfTest expect a wrong digest until the func that it
// returns is called.
func BreakSelfTest() func() {
	kept := selfTestVectors[3].sum
	selfTestVectors[3].sum = "0000000000000000"
	return func() { selfTestVectors[3].sum = kept }
}
