package imports_test

import (
	"slices"
	"strings"
	"testing"
)

// TestFixture runs the check over a small module in testdata that breaks each
// of its rules: a check that nobody has seen fail is no check.
func TestFixture(t *testing.T) {
	got := check(t, "testdata/fixture", "example.org/fixture")
	want := strings.Split(strings.TrimSpace(`
chain: chain.go:12: imports math/rand/v2
chain: chain.go:22: uses time.Now
chain: chain.go:26: uses time.Since
chain: chain.go:29: uses time.AfterFunc
chain: chain.go:32: uses crypto/ed25519.GenerateKey
chain: dot.go:3: imports the names of time as its own
chain: imports go.etcd.io/bbolt: never
chain: imports math/rand/v2: never
chain: imports net/http: never
chain: imports os: never
chain: its tests import store: not in its row
engine: imports store/storetest: for tests alone
internal/client: imports internal/meter: not in its row
internal/meter: imports example.org/yaml: not in its row
receipt: imports go.etcd.io/bbolt/errors: never
store: imports something that imports net: never
stray: has no row in the table
verify: imports internal/meter: never
verify: imports something that imports go.etcd.io/bbolt: never
verify: imports something that imports net: never
verify: imports store: never
`), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("unexpected: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("not reported: %s", line)
		}
	}
}
