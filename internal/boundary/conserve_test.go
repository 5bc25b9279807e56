package boundary_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/boundary"
)

const (
	conservePrices = `
[[row]]
provider = "case"
model = "m1"
from = 2026-01-01
source = "the test"
checked = 2026-11-30
prices = {input = "1.25", cache_read = "0.1250001", output = "30"}
`
	inPrice, readPrice, outPrice = "1.25", "0.1250001", "30"
)

// ledgerOfProvider is what the provider itself says that it served.
type ledgerOfProvider struct {
	mu    sync.Mutex
	calls int
	sum   chain.Decimal
	ids   map[string]int
}

func price(t testing.TB, s string) chain.Decimal {
	d, err := chain.ParsePrice(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCostConserved makes 3,200 calls by 64 clients at once, plain and
// streaming: what the provider says that it served is, to the last digit, the
// sum of the rows, the store's totals, the engine's costs, the closed run's
// totals and what verify recomputes. No call is lost and none is there twice.
func TestCostConserved(t *testing.T) {
	const clients = 64
	each := 50 // 3,200 calls in all
	if boundary.SweepStride > 1 {
		each = 10
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	served := &ledgerOfProvider{ids: map[string]int{}}
	prices := [3]chain.Decimal{price(t, inPrice), price(t, readPrice), price(t, outPrice)}
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var ask struct {
			Stream bool
			User   string
		}
		if err := json.Unmarshal(body, &ask); err != nil {
			t.Error(err)
		}
		served.mu.Lock()
		rnd := rand.New(rand.NewPCG(seed, uint64(served.calls)))
		served.calls++
		served.ids[ask.User]++
		in, read, out := rnd.Uint64N(100_000), rnd.Uint64N(1_000_000), rnd.Uint64N(50_000)
		served.sum = served.sum.Add(prices[0].TimesUnits(in)).Add(prices[1].TimesUnits(read)).Add(prices[2].TimesUnits(out))
		served.mu.Unlock()
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, in+read, out, in+read+out, read)
		if !ask.Stream {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(strings.Replace(chatAnswer, "gpt-5.5", "m1", 1), `{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}`, usage, 1))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		randomCuts(w, []byte(`data: {"model":"m1","choices":[{"index":0,"delta":{"content":"Done."}}],"usage":null}`+"\n\n"+
			`data: {"model":"m1","choices":[],"usage":`+usage+"}\n\ndata: [DONE]\n\n"), rnd)
	})
	b := newBench(t, setup{prices: conservePrices, upstreams: map[string]boundary.Upstream{"case": {Dialect: "openai", URL: up.URL}}})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf(`{"model":"m1","user":"%d-%d","stream":%t,"messages":[]}`, c, i, i%2 == 0)
				res, got, err := b.post(b.url("case", "/v1/chat/completions"), body)
				if err != nil || res.StatusCode != 200 || !strings.Contains(string(got), "Done.") || i%2 == 0 && strings.Contains(string(got), "usage") {
					t.Errorf("call %d-%d: %v %q", c, i, err, got)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range served.ids {
		if n != 1 {
			t.Errorf("call %s arrived %d times", id, n)
		}
	}
	conserved(t, b, served)
}

// conserved compares all that says what was spent with the provider's list.
func conserved(t *testing.T, b *bench, served *ledgerOfProvider) {
	t.Helper()
	want := served.sum.String()
	var rows, meters chain.Decimal
	calls := b.calls()
	for _, c := range calls {
		m := c.outcome.Meter
		if m == nil || m.Cost == nil {
			t.Fatalf("call %d is unpriced: %+v", c.request.Seq, m)
		}
		meters = meters.Add(*m.Cost)
		for class, n := range m.Usage {
			rows = rows.Add(m.Prices[class].TimesUnits(n))
		}
	}
	if len(calls) != served.calls {
		t.Errorf("%d calls recorded, the provider served %d", len(calls), served.calls)
	}
	costs, err := b.engine.Costs(chain.ScopeLedger)
	if err != nil || len(costs) != 1 {
		t.Fatalf("%v %v", costs, err)
	}
	var byModel chain.Decimal
	models, err := b.engine.Costs(chain.ScopeModel)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range models {
		byModel = byModel.Add(c.Cost)
	}
	run, err := b.engine.CloseRun(t.Context(), b.run.ID, engine.CloseSpec{})
	if err != nil {
		t.Fatal(err)
	}
	b.close()
	for name, got := range map[string]string{
		"sum of meters": meters.String(), "sum of rows": rows.String(), "costs of the ledger": costs[0].Cost.String(),
		"costs by model": byModel.String(), "totals of the run": run.Totals.Cost.String(), "verify": b.report.CostUSD,
	} {
		if got != want {
			t.Errorf("%s: %s USD, the provider says %s", name, got, want)
		}
	}
}
