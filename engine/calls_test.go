package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

func TestExactlyOneOutcome(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	for range 50 {
		c, err := e.Begin(t.Context(), spec("r"))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 4 {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = c.Respond(response(1))
				} else {
					_, err = c.Fail(engine.FailedConnect, 0)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, engine.ErrSettled) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Fatalf("%d outcomes", won)
		}
		if c.Context().Err() == nil {
			t.Error("a settled call's context goes on")
		}
	}
}

func TestCloseWaitsThenCancelsCallsInFlight(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	ctx := t.Context()
	quick, err := e.Begin(ctx, spec("r"))
	if err != nil {
		t.Fatal(err)
	}
	slow, err := e.Begin(ctx, spec("r"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := quick.Respond(response(1_000_000)); err != nil {
			t.Error(err)
		}
		<-slow.Context().Done()
		r := response(1)
		r.Ended = engine.EndedStopped
		if _, err := slow.Respond(r); err != nil {
			t.Error(err)
		}
	}()
	r, err := e.CloseRun(ctx, "r", engine.CloseSpec{Wait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Totals.Calls != 2 || r.Totals.Cost.String() != "1.000001" {
		t.Errorf("totals %+v, cost %s", r.Totals, r.Totals.Cost)
	}
	list := events(t, e)
	closed := list[len(list)-1]
	if closed.Type != chain.TypeRunClosed || closed.Totals.Calls != 2 || closed.Totals.Cost.String() != "1.000001" || closed.content["cancelled"] != 1.0 {
		t.Errorf("%+v %v", closed.Totals, closed.content)
	}
}

func TestMeteringNeverLosesARow(t *testing.T) {
	path, signer := newLedger(t)
	e := open(t, path, signer)
	c, err := e.Begin(t.Context(), spec("r"))
	if err != nil {
		t.Fatal(err)
	}
	r := response(1)
	r.Reading.Usage = map[string]uint64{"a class with spaces": 1}
	r.Reading.RawUsage = json.RawMessage(`{"n":1e400}`)
	if _, err := c.Respond(r); err != nil {
		t.Fatal(err)
	}
	list := events(t, e)
	last := list[len(list)-1]
	if last.Type != chain.TypeResponse || last.Meter.Source != chain.SourceNone || last.Meter.Cost != nil || last.content["note"] == nil {
		t.Errorf("%+v %v", last.Meter, last.content)
	}
}

// TestCostIsConserved records calls from many goroutines and from one, and
// compares every place that states a cost.
func TestCostIsConserved(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const goroutines, each = 64, 20
	usage := make([]uint64, goroutines*each)
	rng := rand.New(rand.NewPCG(seed, 1))
	var want chain.Decimal
	price, err := chain.ParsePrice("1") // claude-haiku-4-5, input
	if err != nil {
		t.Fatal(err)
	}
	for i := range usage {
		usage[i] = rng.Uint64N(1 << 20)
		want = want.Add(price.TimesUnits(usage[i]))
	}
	for _, workers := range []int{1, goroutines} {
		path, signer := newLedger(t)
		e := open(t, path, signer)
		var wg sync.WaitGroup
		n := len(usage) / workers
		for g := range workers {
			wg.Go(func() {
				for _, u := range usage[g*n : (g+1)*n] {
					c, err := e.Begin(t.Context(), spec(fmt.Sprint("r", g%5)))
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := c.Respond(response(u)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var rows chain.Decimal
		calls := 0
		for _, ev := range events(t, e) {
			if ev.Type == chain.TypeResponse {
				rows = rows.Add(*ev.Meter.Cost)
				calls++
			}
		}
		if calls != len(usage) || rows.Cmp(want) != 0 {
			t.Errorf("%d workers: %d rows of %s, want %d of %s", workers, calls, rows, len(usage), want)
		}
		for _, by := range []string{"ledger", "run", "model", "day"} {
			costs, err := e.Costs(by)
			if err != nil {
				t.Fatal(err)
			}
			var sum chain.Decimal
			for _, c := range costs {
				sum = sum.Add(c.Cost)
			}
			if sum.Cmp(want) != 0 {
				t.Errorf("%d workers: by %s %s, want %s", workers, by, sum, want)
			}
		}
	}
	if _, err := (&engine.Engine{}).Costs("moon"); !errors.Is(err, engine.ErrScope) {
		t.Error(err)
	}
}
