package receipt

import "fmt"

// KeyIDHex is the id of a key of any type, for tests with witnesses' keys.
func KeyIDHex(name string, data []byte) string { return fmt.Sprintf("%08x", keyID(name, data)) }
