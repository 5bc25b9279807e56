//go:build slow

package boundary_test

// wireStep: a break after every byte.
const wireStep = 1
