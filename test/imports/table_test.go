package imports_test

// A row says what one package of docket may import. The lists bind the
// package's code; where tests is set, docket binds its tests as well.
type row struct {
	// docket lists packages of this module, without its path. "*" stands for
	// any of them.
	docket []string
	// outside lists what may come from other modules. An entry stands for
	// the package of that path and for all below it.
	outside []string
	// never lists what is refused whatever the other lists say, and of which
	// even what the package imports may not import anything: packages of this
	// module, other modules and the standard library's "net". Of the rest of
	// the standard library it refuses the direct import alone, since much of
	// that imports os itself.
	never []string
	// pure packages get clock and randomness handed in.
	pure bool
	// tests: the docket list binds the package's tests too.
	tests bool
	// onlyTests packages may be imported by tests alone.
	onlyTests bool
}

// random is every source of randomness in the standard library.
var random = []string{"crypto/rand", "math/rand", "math/rand/v2"}

const (
	bbolt    = "go.etcd.io/bbolt"
	compress = "github.com/klauspost/compress"
	toml     = "github.com/pelletier/go-toml/v2"
	jsonexp  = "github.com/go-json-experiment/json"
	tlog     = "golang.org/x/mod/sumdb/tlog"
	sys      = "golang.org/x/sys" // what syscall lacks: renames that don't replace, file systems' kinds
)

// table goes from the bytes outwards: a package may import what stands above
// it, as far as its row says so.
var table = map[string]row{
	"chain": {
		outside: []string{"github.com/zeebo/blake3", jsonexp, tlog, "github.com/cockroachdb/apd/v3"},
		never:   append([]string{"os", "net", bbolt}, random...),
		pure:    true, tests: true,
	},
	"migrations": {
		docket:  []string{"chain"},
		outside: []string{bbolt},
		never:   []string{"store"},
	},
	"receipt": {
		docket:  []string{"chain"},
		outside: []string{"golang.org/x/mod/sumdb/note", tlog},
		never:   []string{"os", "net", bbolt, "store"},
		pure:    true,
	},
	"verify": {
		docket:  []string{"chain", "receipt"},
		outside: []string{compress},
		never:   []string{"store", "migrations", "lock", "internal", "net", bbolt},
		tests:   true,
	},
	"internal/durable": {
		outside: []string{sys},
		never:   []string{"chain", "store", "verify", "receipt", "engine", "migrations", "lock", "net"},
	},
	"store": {
		docket:  []string{"chain", "migrations", "internal/durable"},
		outside: []string{bbolt, sys},
		never:   []string{"lock", "receipt", "verify", "internal/meter", "internal/api", "internal/boundary", "internal/client", "net"},
	},
	"lock": {
		never: []string{"os", "net"},
		pure:  true,
	},
	"store/storetest": {
		docket:    []string{"store", "verify", "chain"},
		outside:   []string{bbolt},
		onlyTests: true,
	},
	"internal/meter": {
		docket: []string{"chain"},
		// jsontext reads the usage that providers report; decimals come from
		// chain, and apd where they don't suffice.
		outside: []string{toml, "github.com/cockroachdb/apd/v3", jsonexp},
		never:   []string{"store", "engine", "net"},
		pure:    true,
	},
	"engine": {
		docket: []string{"store", "receipt", "lock", "internal/meter", "migrations", "chain", "internal/durable"},
		never:  []string{"verify", "internal/api", "internal/boundary", "internal/client", "net/http"},
	},
	"internal/boundary": {
		docket:  []string{"engine", "internal/meter", "chain"},
		outside: []string{compress, "github.com/andybalholm/brotli", "golang.org/x/time/rate", "github.com/sony/gobreaker/v2", jsonexp},
	},
	"internal/api": {
		docket:  []string{"engine", "receipt", "lock", "chain"},
		outside: []string{"github.com/prometheus/client_golang"},
	},
	"internal/client": {
		never: []string{"internal/api", "engine", "store"},
	},
	"cmd/docketd": {
		docket:  []string{"*"},
		outside: []string{"github.com/spf13/cobra", toml, "github.com/gofrs/flock", "github.com/coreos/go-systemd/v22", "github.com/prometheus/client_golang"},
		never:   []string{"internal/client"},
	},
	"cmd/docket": {
		docket:  []string{"internal/client", "verify", "receipt", "internal/meter", "chain", "internal/durable"},
		outside: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar/v3", "github.com/jedib0t/go-pretty/v6", compress, "golang.org/x/term"},
		never:   []string{"store", "engine", "migrations", "internal/api", "internal/boundary", "lock"},
	},

	// Tools of the module itself; nothing imports them.
	"test/imports": {},
	"test/fuzzall": {},
	"test/readme":  {},
}
