package store

import "os"

// lockHolder is unknown here: the system has no list of locks.
func lockHolder(*os.File) int { return 0 }
