package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-audit/docket/demo/loopback"
)

func golden(t *testing.T) []loopback.Case {
	t.Helper()
	cases, err := loopback.Load(filepath.Join("..", "testdata", "billing", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// The clients and the provider agree with nothing in between: so what they
// disagree about in the demo, docket did.
func TestClientsAgainstTheProviderAlone(t *testing.T) {
	p := makePlan(golden(t), 7)
	for i := range p.calls {
		p.calls[i].AsksUsage = true // nobody else would ask
	}
	provider, err := loopback.New(7, p.calls)
	if err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	for _, u := range p.arrange.Upstreams {
		urls[u.Name] = provider.URL()
		if u.Dialect == "openai" {
			urls[u.Name] += "/v1"
		}
	}
	at, err := p.endpoints(urls)
	if err != nil {
		t.Fatal(err)
	}
	results := askAll(t.Context(), p.calls, at, 10)
	if err := provider.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range provider.Faults() {
		t.Error(f)
	}
	if err := compareCalls(results, provider.List()); err != nil {
		t.Error(err)
	}
}

func TestPlan(t *testing.T) {
	p := makePlan(golden(t), 1)
	if len(p.calls) < 40 {
		t.Errorf("%d calls, fewer than 40", len(p.calls))
	}
	is := func(name string, f func(loopback.Call) bool) {
		if p.count(f) == 0 {
			t.Errorf("no call is %s", name)
		}
	}
	for _, endpoint := range []string{loopback.EndpointMessages, loopback.EndpointChat} {
		is("plain at "+endpoint, func(c loopback.Call) bool { return c.Case.Endpoint == endpoint && !c.Case.Stream })
		is("streamed at "+endpoint, func(c loopback.Call) bool { return c.Case.Endpoint == endpoint && c.Case.Stream })
		is("broken off at "+endpoint, func(c loopback.Call) bool { return c.Case.Endpoint == endpoint && c.End == loopback.EndCut })
		is("left at "+endpoint, func(c loopback.Call) bool { return c.Case.Endpoint == endpoint && c.End == loopback.EndClient })
	}
}

// The whole demo, on programs built from this tree; and with a provider that
// says of one call that it cost a little more.
func TestDemo(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/docket", "./cmd/docketd")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build docket: %v\n%s", err, out)
	}
	// Short: the path of a Unix socket has about a hundred bytes.
	t.Setenv("TMPDIR", shortDir(t))
	cases := filepath.Join("..", "testdata", "billing", "cases.json")
	t.Run("as it is", func(t *testing.T) {
		var out bytes.Buffer
		err := start(t.Context(), []string{"-bin", bin, "-cases", cases}, &out)
		t.Logf("%s", out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"intact", "altered", "to the last digit"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the demo does not say %q", want)
			}
		}
	})
	t.Run("another cost", func(t *testing.T) {
		file, err := os.ReadFile(cases)
		if err != nil {
			t.Fatal(err)
		}
		const cost, other = `"cost_usd": "0.0757825"`, `"cost_usd": "0.0757826"`
		if bytes.Count(file, []byte(cost)) != 1 {
			t.Fatalf("%s does not stand in the cases once", cost)
		}
		path := filepath.Join(t.TempDir(), "cases.json")
		if err := os.WriteFile(path, bytes.Replace(file, []byte(cost), []byte(other), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = start(t.Context(), []string{"-bin", bin, "-cases", path}, &out)
		if err == nil || !strings.Contains(err.Error(), "docket cost says") {
			t.Errorf("error %v", err)
		}
	})
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
