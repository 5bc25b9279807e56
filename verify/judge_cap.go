package verify

import (
	"fmt"
	"strconv"

	"github.com/docket-audit/docket/chain"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// caps follows what is spent in each scope and which limits are in force.
type caps struct {
	spent  map[scope]chain.Decimal // but for runs, whose sums are kept with them
	limits map[scope]chain.Decimal
}

// scope names one sum: kind is one of the scopes of a cap, and period, run,
// role and context tell those of one kind apart.
type scope struct{ kind, period, run, role, context string }

func (c *caps) init() {
	c.spent, c.limits = map[scope]chain.Decimal{}, map[scope]chain.Decimal{}
}

// scopesOf lists the scopes that an event belongs to, by its own run, actor
// and ts, each with where its limit stands.
func scopesOf(h *chain.Header) (list [6]scopeLimit, n int) {
	list = [6]scopeLimit{
		{scope{kind: chain.ScopeLedger}, scope{kind: chain.ScopeLedger}},
		{scope{kind: chain.ScopeDay, period: h.TS[:len("2006-01-02")]}, scope{kind: chain.ScopeDay}},
		{scope{kind: chain.ScopeMonth, period: h.TS[:len("2006-01")]}, scope{kind: chain.ScopeMonth}},
		{scope{kind: chain.ScopeRun, run: h.Run}, scope{kind: chain.ScopeRun, run: h.Run}},
	}
	if h.Actor == nil {
		return list, 4
	}
	role := scope{kind: chain.ScopeRole, role: h.Actor.Role}
	context := scope{kind: chain.ScopeContext, role: h.Actor.Role, context: h.Actor.Context}
	list[4], list[5] = scopeLimit{role, role}, scopeLimit{context, context}
	return list, 6
}

// scopeLimit is a sum and the key of the limit for it.
type scopeLimit struct{ sum, limit scope }

// limit is the limit in force under a key: a run's own goes before that of
// every run.
func (c *caps) limit(key scope) (chain.Decimal, bool) {
	l, ok := c.limits[key]
	if !ok && key.kind == chain.ScopeRun {
		l, ok = c.limits[scope{kind: chain.ScopeRun}]
	}
	return l, ok
}

// capStep judges admission and the figures of cap.exceeded, and follows what
// is spent. Caps are judged in a ledger from event 1 alone.
func (j *judge) capStep(it *item) {
	if j.partial() || !j.wholeStart() {
		return
	}
	h, c := it.header, &j.caps
	switch h.Type {
	case chain.TypeResponse:
		if it.unpriced == "" {
			list, n := scopesOf(h)
			for _, s := range list[:n] {
				if s.sum.kind != chain.ScopeRun {
					c.spent[s.sum] = c.spent[s.sum].Add(it.cost)
				}
			}
		}
	case chain.TypeRequest:
		j.counts.made[stepCap]++
		if len(c.limits) == 0 {
			return
		}
		list, n := scopesOf(h)
		for _, s := range list[:n] {
			if limit, ok := c.limit(s.limit); ok && j.spent(s.sum).Cmp(limit) >= 0 {
				j.fault(CapBreach, h.Seq, stepCap, h, "a call is admitted with %s USD spent in scope %s, whose limit is %s", j.spent(s.sum), s.sum, limit)
			}
		}
	case chain.TypeCapSet:
		key := scope{kind: h.Cap.Scope, run: h.Cap.Run, role: h.Cap.Role, context: h.Cap.Context}
		if h.Cap.Limit == nil {
			delete(c.limits, key)
		} else {
			c.limits[key] = *h.Cap.Limit
		}
	case chain.TypeCapExceeded:
		j.exceeded(h)
	}
}

// spent is the sum of the rows in a scope so far.
func (j *judge) spent(s scope) chain.Decimal {
	if s.kind != chain.ScopeRun {
		return j.caps.spent[s]
	}
	if r := j.runs[s.run]; r != nil {
		return r.cost
	}
	return chain.Decimal{}
}

func (j *judge) exceeded(h *chain.Header) {
	j.counts.made[stepCap]++
	key := scope{kind: h.Cap.Scope, run: h.Cap.Run, role: h.Cap.Role, context: h.Cap.Context}
	sum := key
	sum.period = h.Cap.Period
	limit, ok := j.caps.limit(key)
	spent := j.spent(sum)
	switch {
	case !ok:
		j.fault(CostMismatch, h.Seq, stepCap, h, "no limit is in force in scope %s", sum)
	case limit.Cmp(*h.Cap.Limit) != 0:
		j.fault(CostMismatch, h.Seq, stepCap, h, "limit_usd is %s, and %s is in force in scope %s", h.Cap.Limit, limit, sum)
	case spent.Cmp(*h.Cap.Spent) != 0:
		j.fault(CostMismatch, h.Seq, stepCap, h, "spent_usd is %s, and the rows in scope %s give %s", h.Cap.Spent, sum, spent)
	}
}

// String names the scope for people.
func (s scope) String() string {
	text := s.kind
	for _, m := range []struct{ name, value string }{{"", s.period}, {"", s.run}, {"role ", s.role}, {"context ", s.context}} {
		if m.value != "" {
			text += fmt.Sprintf(" %s%q", m.name, m.value)
		}
	}
	return text
}
