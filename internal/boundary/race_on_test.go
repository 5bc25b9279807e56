//go:build race

package boundary

// SweepStride is how many cuts a sweep leaves out for each that it makes: the
// race detector makes them ten times as slow, and finds no more in all of them
// than in some. Without it every cut is made; make check does that too.
const SweepStride = 11
