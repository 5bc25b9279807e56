// Demo is docket's main job on real input, from end to end.
//
// It starts docketd on a fresh ledger, in front of a provider that it is itself
// ([github.com/docket-audit/docket/demo/loopback]), and lets the vendors' own
// SDK clients call through the boundary, many at once. Then it shows the
// timeline and the cost, takes out an export and a copy of the ledger file,
// stops docketd, and verifies both. At last it changes one byte of each.
//
// It ends with an error unless verify's cost is, to the last digit, what the
// provider says that it served, and each change is found with its verdict and
// its place. What the provider and the clients saw is compared, too: bodies,
// keys, and the call by call list.
//
// The module is apart from docket's own: the SDKs never enter its graph.
// `make demo` builds and runs everything.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// limit bounds the whole demo, which takes seconds.
const limit = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ExitOnError)
	bin := flags.String("bin", "bin", "folder of the programs docket and docketd")
	cases := flags.String("cases", filepath.Join("testdata", "billing", "cases.json"), "the golden cases")
	seed := flags.Uint64("seed", 0, "what the order of the calls and the cuts follow from; 0: a random one")
	workers := flags.Int("agents", 10, "how many agents call at once")
	keep := flags.Bool("keep", false, "keep the folder of the demo")
	flags.Parse(args) // exits on an error
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: there are flags only", flags.Arg(0))
	}
	if *workers < 1 {
		return fmt.Errorf("-agents %d: at least one has to call", *workers)
	}
	for *seed == 0 {
		*seed = rand.Uint64()
	}
	forgetKeys()
	dir, err := os.MkdirTemp("", "docket-demo-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	begun := time.Now()
	o := options{cases: *cases, seed: *seed, workers: *workers, dir: dir, out: out}
	if o.docket, err = filepath.Abs(filepath.Join(*bin, "docket")); err != nil {
		return fmt.Errorf("find docket: %w", err)
	}
	o.docketd = o.docket + "d"
	if err := tell(ctx, o); err != nil {
		return fmt.Errorf("%w\n\nseed %d repeats the order and the cuts; everything is kept in %s", err, *seed, dir)
	}
	fmt.Fprintf(out, "\nAll of it holds. %.1f s.\n", time.Since(begun).Seconds())
	if *keep {
		fmt.Fprintf(out, "Everything is kept in %s\n", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// forgetKeys takes the vendors' variables out of the environment: no key and
// no address of the user's own gets into a demo.
func forgetKeys() {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "ANTHROPIC_") {
			os.Unsetenv(name)
		}
	}
}
