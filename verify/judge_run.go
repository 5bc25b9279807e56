package verify

import (
	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// created judges the content of event 1, the id and the genesis value, and
// takes the first keys from it. sound says whether the steps before hold.
func (j *judge) created(it *item, sound bool) bool {
	h := it.header
	if it.content == contentAbsent {
		j.fault(Malformed, 1, stepContent, h, "the content of ledger.created is not there; it can be neither withheld nor erased")
		return false
	}
	c, err := chain.ParseCreated(it.bytes)
	if err != nil {
		j.fault(Malformed, 1, stepContent, h, "content of ledger.created: %v", err)
		return false
	}
	if c.Continues != nil && c.Continues.Checkpoint != "" {
		if _, err := receipt.ParseSignedCheckpoint(c.Continues.Checkpoint); err != nil {
			j.fault(Malformed, 1, stepContent, h, "content of ledger.created: /continues/checkpoint: %v", err)
			return false
		}
	}
	ok := sound
	if id := chain.LedgerID(c.Keys, c.Nonce); id != c.Ledger {
		ok = false
		j.fault(Altered, 1, stepContent, h, "keys and nonce give the id %s, and %s is stated", id, c.Ledger)
	}
	if g := chain.Genesis(c.Ledger); g != h.Prev {
		ok = false
		j.fault(Altered, 1, stepLink, h, "prev is %s, and the genesis value of %s is %s", h.Prev, c.Ledger, g)
	}
	if ok {
		j.keys.created(c)
	}
	return ok
}

// runState is what is known of one run.
type runState struct {
	seq    uint64 // run_seq of its last event
	holes  uint64 // holes seen when that was judged
	closed bool
	given  bool   // it began before the input, or in a hole
	open   uint64 // requests without an outcome so far

	calls, failed, unpriced uint64
	cost                    chain.Decimal
}

// runSeq judges that a run's events are numbered without a gap.
func (j *judge) runSeq(h *chain.Header) {
	if h.Run == "" {
		return
	}
	j.counts.made[stepRunSeq]++
	r := j.runs[h.Run]
	switch {
	case r == nil && (j.isRange() && h.Type != chain.TypeRunOpened || j.holes > 0):
		// It began before what was given, or may have.
	case r == nil && h.RunSeq != 1:
		j.fault(Missing, h.Seq, stepRunSeq, h, "the run's first event has run_seq %d", h.RunSeq)
	case r != nil && r.holes == j.holes && h.RunSeq != r.seq+1:
		j.fault(Missing, h.Seq, stepRunSeq, h, "run_seq is %d, and %d would be next", h.RunSeq, r.seq+1)
	}
}

// costs judges a call's cost by its own row, and the totals of run.closed.
func (j *judge) costs(it *item) {
	h := it.header
	if m := h.Meter; m != nil {
		j.counts.made[stepCost]++
		switch {
		case it.unpriced != "" && m.Cost != nil:
			j.fault(CostMismatch, h.Seq, stepCost, h, "cost_usd is %s, and the call is unpriced: %s", m.Cost, it.unpriced)
		case it.unpriced == "" && m.Cost == nil:
			j.fault(CostMismatch, h.Seq, stepCost, h, "no cost_usd, and usage and prices give %s", it.cost)
		case it.unpriced == "" && m.Cost.Cmp(it.cost) != 0:
			j.fault(CostMismatch, h.Seq, stepCost, h, "cost_usd is %s, and usage and prices give %s", m.Cost, it.cost)
		}
		if it.unpriced != "" {
			j.counts.unpriced++
		} else {
			j.counts.cost = j.counts.cost.Add(it.cost)
		}
		if m.Source == chain.SourceEstimated {
			j.counts.estimated++
		}
	}
	r := j.runs[h.Run]
	if r == nil && !(j.isRange() && h.RunSeq > 1) {
		r = &runState{} // nothing is in the ledger of a run that never began
	}
	if h.Totals == nil || j.partial() || r == nil || r.given {
		return
	}
	j.counts.made[stepCost]++
	t := h.Totals
	if t.Calls != r.calls || t.Failed != r.failed || t.Unpriced != r.unpriced || t.Cost.Cmp(r.cost) != 0 {
		j.fault(CostMismatch, h.Seq, stepCost, h,
			"totals say calls %d, cost_usd %s, failed %d, unpriced %d, and the rows give calls %d, cost_usd %s, failed %d, unpriced %d",
			t.Calls, t.Cost, t.Failed, t.Unpriced, r.calls, r.cost, r.failed, r.unpriced)
	}
}

// runAndCall judges the event's place in its run, and requests and outcomes.
func (j *judge) runAndCall(it *item) {
	h := it.header
	j.counts.made[stepRun]++
	if j.sealed != 0 {
		j.fault(Unaccounted, h.Seq, stepRun, h, "the ledger was sealed by event %d", j.sealed)
	}
	if h.Type == chain.TypeSealed {
		j.sealed = h.Seq
	}
	if h.Type == chain.TypeServiceStart {
		j.calls.start()
	}
	if h.Run == "" {
		return
	}
	r := j.enter(h)
	r.seq, r.holes = h.RunSeq, j.holes
	switch h.Type {
	case chain.TypeRequest:
		j.request(h, r)
	case chain.TypeResponse, chain.TypeFailed:
		j.outcome(it, r)
	case chain.TypeRunClosed:
		if r.open > 0 && !j.partial() {
			j.fault(Unaccounted, h.Seq, stepRun, h, "%d requests of the run have no outcome; the first: %s", r.open,
				j.calls.first(func(o openCall) bool { return o.run == h.Run }))
		}
		r.closed = true
	}
}

// enter finds the event's run and judges that it is open.
func (j *judge) enter(h *chain.Header) *runState {
	r := j.runs[h.Run]
	opens := h.Type == chain.TypeRunOpened
	switch {
	case r == nil:
		r = &runState{}
		j.runs[h.Run] = r
		switch {
		case opens:
		case j.holes > 0, j.isRange() && h.RunSeq > 1:
			r.given = true
		default:
			j.fault(Unaccounted, h.Seq, stepRun, h, "the run has no run.opened")
		}
	case r.closed:
		j.fault(Unaccounted, h.Seq, stepRun, h, "the run was closed before, and its id is never used again")
	case opens:
		j.fault(Unaccounted, h.Seq, stepRun, h, "the run was open already")
	}
	return r
}

// calls follows requests without an outcome.
type calls struct {
	open   map[uint64]openCall // by seq of the request
	starts uint64              // service.started events so far
	stale  uint64              // open requests of before the last of them
	before map[uint64]bool     // requests of before the input that were settled in it
}

type openCall struct {
	run    string
	starts uint64 // when it was made
}

func (c *calls) init() {
	c.open = map[uint64]openCall{}
	c.before = map[uint64]bool{}
}

// start takes note of a service.started: what is open now has to be settled
// before anything new is admitted.
func (c *calls) start() {
	c.starts++
	c.stale = uint64(len(c.open))
}

// maxNamed bounds the search for the request that a detail names, so that a
// hostile ledger with many open calls and many faults takes no longer.
const maxNamed = 4096

// first names the first open request that which accepts, for details.
func (c *calls) first(which func(openCall) bool) string {
	if len(c.open) > maxNamed {
		return "one of many"
	}
	first := uint64(0)
	for seq, o := range c.open {
		if which(o) && (first == 0 || seq < first) {
			first = seq
		}
	}
	return "event " + itoa(first)
}

func (j *judge) request(h *chain.Header, r *runState) {
	if j.calls.stale > 0 && !j.partial() && j.run == "" {
		j.fault(Unaccounted, h.Seq, stepRun, h, "a call is admitted after a service.started while a request of before it has no outcome: %s",
			j.calls.first(func(o openCall) bool { return o.starts < j.calls.starts }))
	}
	r.open++
	j.calls.open[h.Seq] = openCall{h.Run, j.calls.starts}
}

// outcome settles a request.
func (j *judge) outcome(it *item, r *runState) {
	h := it.header
	switch {
	case h.Type == chain.TypeFailed:
		r.failed++
	case it.unpriced != "":
		r.calls, r.unpriced = r.calls+1, r.unpriced+1
	default:
		r.calls, r.cost = r.calls+1, r.cost.Add(it.cost)
	}
	o, open := j.calls.open[h.Call]
	switch {
	case open:
		if o.run != h.Run && !j.partial() {
			j.fault(Unaccounted, h.Seq, stepRun, h, "its request, event %d, is of run %s", h.Call, o.run)
		}
		j.calls.settle(h.Call, o)
		if of := j.runs[o.run]; of != nil {
			of.open--
		}
	case j.partial():
	// Only a run that began before the range can have a request there, and
	// event 1 is none.
	case j.isRange() && (r == nil || r.given) && h.Call > 1 && h.Call < j.first && !j.calls.before[h.Call]:
		j.calls.before[h.Call] = true
	default:
		j.fault(Unaccounted, h.Seq, stepRun, h, "event %d is no request that waits for an outcome", h.Call)
	}
}

func (c *calls) settle(seq uint64, o openCall) {
	delete(c.open, seq)
	if o.starts < c.starts {
		c.stale--
	}
}
