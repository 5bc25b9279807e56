//go:build !slow

package boundary_test

// wireStep is how many bytes lie between two breaks over real connections; the
// slow suite makes one after every byte. In memory there is always one after
// every byte.
const wireStep = 41
