//go:build !race

package verify_test

const raceEnabled = false

func sweep(stride int) int { return stride }
