//go:build unix && !linux

package verify

import "os"

// holder names the process that has f locked, for a message. This system
// doesn't say.
func holder(*os.File) string { return "" }
