package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/client"
	"github.com/spf13/cobra"
)

// costScopes are what costs are listed by.
var costScopes = []string{chain.ScopeRun, chain.ScopeModel, chain.ScopeRole, chain.ScopeDay}

func newCostCommand(e *env) *cobra.Command {
	var by, run, db string
	cmd := &cobra.Command{
		Use:   "cost [flags]",
		Short: "Show what was spent, exactly",
		Long: `Sums the calls by run, model, role or UTC day, with the total. Amounts are exact
decimals in USD; nothing is rounded. Calls without a price and calls whose usage
was estimated are counted apart and named: what an unpriced call cost is not in
any sum. CALLS are those that were answered, FAILED those to which no answer was
seen: these are of no model, in no sum, and the provider may have billed them.

EXIT STATUS
  0    done
  1    it failed, or the run is not known
  2    the words were wrong
  130  interrupted

EXAMPLE
  docket cost --by model
  docket cost --run r1 --db copy.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "by", "run", "db"); err != nil {
				return err
			}
			if !slices.Contains(costScopes, by) {
				return usage("--by %q is none of %s", by, strings.Join(costScopes, ", "))
			}
			f := filter{run: run}
			if err := f.check(); err != nil {
				return err
			}
			return e.cost(cmd.Context(), by, db, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&by, "by", chain.ScopeRun, "run, model, role or day")
	flags.StringVar(&run, "run", "", "only this run")
	flags.StringVar(&db, "db", "", "read this ledger file, with no service")
	return cmd
}

// bill is what was spent.
type bill struct {
	By        string        `json:"by"`
	Rows      []client.Cost `json:"rows"`
	Total     client.Totals `json:"total"`
	Unpriced  []namedCall   `json:"unpriced"`
	Estimated []namedCall   `json:"estimated"`
	// Apart says that rows and total were read at two moments, between which
	// calls ended.
	Apart bool `json:"apart,omitempty"`
}

// namedCall is a call that a sum doesn't hold, or not exactly.
type namedCall struct {
	Seq   uint64 `json:"seq"` // of its outcome
	Run   string `json:"run"`
	Model string `json:"model"` // provider/model
}

func (e *env) cost(ctx context.Context, by, db string, f filter) error {
	var b bill
	var err error
	if db == "" && f.run == "" {
		b, err = e.serviceBill(ctx, by)
	} else {
		b, err = e.countedBill(ctx, by, db, f)
	}
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, b)
	}
	return e.printBill(b)
}

// countedBill sums the events themselves.
func (e *env) countedBill(ctx context.Context, by, db string, f filter) (bill, error) {
	b := bill{By: by, Rows: []client.Cost{}, Unpriced: []namedCall{}, Estimated: []namedCall{}}
	var total chain.Totals
	rows := map[string]*chain.Totals{}
	known := f.run == ""
	for ev, err := range e.events(ctx, db, f) {
		if err != nil {
			return b, err
		}
		known = true
		b.name(ev.header)
		total.Add(ev.header)
		for _, key := range chain.TotalKeys(ev.header) {
			if scope, _ := chain.ParseTotalKey(key); scope == by {
				if rows[key] == nil {
					rows[key] = &chain.Totals{}
				}
				rows[key].Add(ev.header)
			}
		}
	}
	if !known {
		return b, hinted(fmt.Errorf("there is no run %s", f.run), "docket cost lists the runs that made calls, docket log all of them")
	}
	keys := make([]string, 0, len(rows))
	for key := range rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		_, parts := chain.ParseTotalKey(key)
		b.Rows = append(b.Rows, client.Cost{Key: parts, Totals: totalsOf(*rows[key])})
	}
	b.Total = totalsOf(total)
	return b, nil
}

func totalsOf(t chain.Totals) client.Totals {
	return client.Totals{Calls: t.Calls, Failed: t.Failed, Unpriced: t.Unpriced, Estimated: t.Estimated, CostUSD: t.Cost.String()}
}

// name keeps the calls that have to be named.
func (b *bill) name(h *chain.Header) {
	if h.Meter == nil {
		return
	}
	call := namedCall{h.Seq, h.Run, h.Meter.Provider + "/" + h.Meter.Model}
	if h.Meter.Cost == nil {
		b.Unpriced = append(b.Unpriced, call)
	}
	if h.Meter.Source == chain.SourceEstimated {
		b.Estimated = append(b.Estimated, call)
	}
}

// serviceBill asks the service for its sums, and reads the calls themselves
// only where some have to be named.
func (e *env) serviceBill(ctx context.Context, by string) (bill, error) {
	b := bill{By: by, Rows: []client.Cost{}, Unpriced: []namedCall{}, Estimated: []namedCall{}}
	c, err := e.client()
	if err != nil {
		return b, err
	}
	defer c.Close()
	if err := b.ask(ctx, c); err != nil {
		return b, err
	}
	if b.Total.Unpriced+b.Total.Estimated == 0 {
		return b, nil
	}
	for ev, err := range e.events(ctx, "", filter{typ: chain.TypeResponse}) {
		if err != nil {
			return b, err
		}
		b.name(ev.header)
	}
	return b, nil
}

// ask reads rows between two equal totals, so that they belong together. Where
// calls end all the time it gives up and says so.
func (b *bill) ask(ctx context.Context, c *client.Client) error {
	const tries = 5
	total, err := ledgerTotal(ctx, c)
	if err != nil {
		return err
	}
	for range tries {
		rows, err := c.Costs(ctx, b.By)
		if err != nil {
			return err
		}
		after, err := ledgerTotal(ctx, c)
		if err != nil {
			return err
		}
		b.Rows, b.Total, b.Apart = append([]client.Cost{}, rows...), after, after != total
		if !b.Apart {
			return nil
		}
		total = after
	}
	return nil
}

func ledgerTotal(ctx context.Context, c *client.Client) (client.Totals, error) {
	rows, err := c.Costs(ctx, chain.ScopeLedger)
	switch {
	case err != nil:
		return client.Totals{}, err
	case len(rows) == 0:
		return client.Totals{CostUSD: "0"}, nil
	case len(rows) > 1:
		return client.Totals{}, errors.New("the service has more than one total")
	}
	return rows[0].Totals, nil
}

func (e *env) printBill(b bill) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tCALLS\tFAILED\tUNPRICED\tESTIMATED\tCOST, USD\n", strings.ToUpper(b.By))
	for _, r := range b.Rows {
		printTotals(w, strings.Join(r.Key, "/"), r.Totals)
	}
	printTotals(w, "total", b.Total)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := e.printNamed("unpriced, in no sum", b.Unpriced); err != nil {
		return err
	}
	if err := e.printNamed("estimated", b.Estimated); err != nil {
		return err
	}
	if b.Total.Failed > 0 {
		// docs/format.md, section 4: reports say so.
		if _, err := fmt.Fprintf(e.stdout, "failed: no answer was seen to %s; the provider may have billed them all the same\n", plural(b.Total.Failed, "call")); err != nil {
			return err
		}
	}
	if b.Apart {
		_, err := fmt.Fprintln(e.stdout, "calls ended while this was read: the rows may not sum to the total")
		return err
	}
	return nil
}

// plural spells a number of things.
func plural(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func printTotals(w *tabwriter.Writer, name string, t client.Totals) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", clean(name), t.Calls, t.Failed, t.Unpriced, t.Estimated, clean(t.CostUSD))
}

// printNamed names calls for people; --json has all of them.
func (e *env) printNamed(what string, calls []namedCall) error {
	for i, c := range calls {
		if i == maxShown {
			_, err := fmt.Fprintf(e.stdout, "%s: and %d more; --json has all\n", what, len(calls)-i)
			return err
		}
		if _, err := fmt.Fprintf(e.stdout, "%s: event %d, run %s, %s\n", what, c.Seq, clean(c.Run), clean(c.Model)); err != nil {
			return err
		}
	}
	return nil
}
