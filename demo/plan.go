package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-audit/docket/demo/loopback"
)

// plan is what the agents are going to do.
type plan struct {
	calls   []loopback.Call
	arrange loopback.Arrangement
	keys    map[string]string // by dialect: the API key that the clients send
}

// makePlan turns every case into a call, in an order that follows from the
// seed. The cases in which the client leaves become two: one with a client that
// leaves, and one whose provider breaks off after the same bytes, which has to
// come to the same cost.
func makePlan(cases []loopback.Case, seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		arrange: loopback.Arrange(cases),
		keys: map[string]string{
			"anthropic": fmt.Sprintf("sk-ant-demo-%016x%016x", rng.Uint64(), rng.Uint64()),
			"openai":    fmt.Sprintf("sk-demo-%016x%016x", rng.Uint64(), rng.Uint64()),
		},
	}
	dialects := map[string]string{}
	for _, u := range p.arrange.Upstreams {
		dialects[u.Name] = u.Dialect
	}
	for i := range cases {
		c := &cases[i]
		ends := []string{c.End}
		if c.End == loopback.EndClient {
			ends = append(ends, loopback.EndCut)
		}
		for _, end := range ends {
			upstream := p.arrange.ByCase[c.ID]
			p.calls = append(p.calls, loopback.Call{
				Case: c, Upstream: upstream, End: end,
				AsksUsage:  c.Endpoint == loopback.EndpointChat && c.Stream && rng.IntN(2) == 0,
				Credential: p.keys[dialects[upstream]],
			})
		}
	}
	rng.Shuffle(len(p.calls), func(i, j int) { p.calls[i], p.calls[j] = p.calls[j], p.calls[i] })
	for i := range p.calls {
		p.calls[i].ID = i + 1
	}
	return p
}

// configure writes docketd.toml and its price file into the data folder.
func (p plan) configure(dir, providerURL string) error {
	toml := "[prices]\nfiles = [\"prices.toml\"]\n"
	for _, u := range p.arrange.Upstreams {
		toml += fmt.Sprintf("\n[upstream.%s]\ndialect = %q\nurl = %q\nprovider = %q\n", u.Name, u.Dialect, providerURL, u.Provider)
	}
	for name, text := range map[string][]byte{"docketd.toml": []byte(toml), "prices.toml": p.arrange.PriceFile(time.Now())} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("configure docketd: %w", err)
		}
	}
	return nil
}

// endpoints is where the clients call, by the base URLs of a run.
func (p plan) endpoints(baseURLs map[string]string) (map[string]endpoint, error) {
	at := map[string]endpoint{}
	for _, u := range p.arrange.Upstreams {
		base, ok := baseURLs[u.Name]
		if !ok {
			return nil, fmt.Errorf("docketd gave no base URL for the upstream %s", u.Name)
		}
		at[u.Name] = endpoint{u.Dialect, base, p.keys[u.Dialect]}
	}
	return at, nil
}

// count counts the calls that satisfy a condition.
func (p plan) count(f func(loopback.Call) bool) int {
	n := 0
	for _, c := range p.calls {
		if f(c) {
			n++
		}
	}
	return n
}
