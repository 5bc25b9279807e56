//go:build !race

package boundary

// SweepStride is 1: sweeps are whole without the race detector.
const SweepStride = 1
