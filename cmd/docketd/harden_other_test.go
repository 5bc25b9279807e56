//go:build !linux

package main

// hardened has nothing to show here: the core limit is all that is set.
func hardened() {}
