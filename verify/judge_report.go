package verify

import (
	"fmt"
)

// fill sets the figures, the checks and the notes of the report.
func (j *judge) fill() {
	r, c := j.report, &j.counts
	r.Ledger, r.First, r.Events = j.keys.id, j.first, c.events
	if j.state >= stateAltered {
		r.Head = j.hash.String()
	}
	if j.tree != nil && j.n > 0 {
		if root, ok := j.tree.root(j.n); ok {
			text := hexRoot(root)
			r.Root = &text
		}
	}
	r.CostUSD, r.Unpriced, r.Estimated = c.cost.String(), c.unpriced, c.estimated
	r.Withheld, r.Erased, r.OpenCalls = c.absent-c.erased, c.erased, uint64(len(j.calls.open))
	j.stepChecks()
	j.evidenceChecks()
	j.notes()
}

// skipped is why a kind of check was not made at all.
func (j *judge) skipped(s step) string {
	switch {
	case j.run != "" && (s == stepLock || s == stepCap):
		return "not judged in the events of one run"
	case s == stepCap && j.isRange():
		return "not judged in a range: what was spent before it is not known"
	case s == stepLink && j.counts.events < 2:
		return "fewer than two events"
	}
	return "nothing of it was given"
}

// stepChecks records the checks that each event goes through.
func (j *judge) stepChecks() {
	content := j.counts.made
	content[stepContent] = j.counts.contentsMade + j.counts.bodies
	for _, k := range []struct {
		name string
		s    step
		hole bool // not made behind a hole
	}{
		{"form", stepForm, false}, {"header_hash", stepHash, false}, {"number", stepNumber, false}, {"link", stepLink, false},
		{"content", stepContent, false}, {"run_seq", stepRunSeq, false}, {"cost", stepCost, true}, {"runs_and_calls", stepRun, true},
		{"locks", stepLock, true}, {"caps", stepCap, true}, {"signed_notes", stepNote, false}, {"trailer", stepTrailer, false},
	} {
		partial := ""
		if k.hole && j.holes > 0 {
			partial = fmt.Sprintf("hole at %d: calls, totals, locks and caps are not judged behind it", j.holeAt)
		}
		if k.s == stepContent {
			partial = j.contentPartial()
		}
		if k.s == stepTrailer && j.trailerPartial {
			partial = "head, root and counts are compared only where nothing else is wrong"
		}
		switch {
		case j.faults.steps[k.s] > 0:
			j.report.check(k.name, Fail, partial)
		case content[k.s] > 0:
			j.report.check(k.name, Pass, partial)
		case j.kind == KindDatabase && k.s == stepTrailer:
			j.report.check(k.name, Skip, "a database has no trailer")
		default:
			j.report.check(k.name, Skip, j.skipped(k.s))
		}
	}
}

func (j *judge) contentPartial() string {
	c := &j.counts
	switch {
	case c.absent > 0 && c.bodiesNotCarried > 0:
		return fmt.Sprintf("%d contents and %d bodies were not given", c.absent, c.bodiesNotCarried)
	case c.absent > 0:
		return fmt.Sprintf("%d contents were not given", c.absent)
	case c.bodiesNotCarried > 0:
		return fmt.Sprintf("%d bodies were not given", c.bodiesNotCarried)
	}
	return ""
}

// evidenceChecks records what rests on keys and on knowledge from outside.
func (j *judge) evidenceChecks() {
	r, c := j.report, &j.counts.checkpoints
	switch {
	case c.signatures > 0:
		reason := ""
		if c.withoutKey > 0 {
			reason = fmt.Sprintf("%d checkpoints have a size for which no key is known", c.withoutKey)
		}
		r.check("checkpoint_signatures", Pass, reason)
	case c.withoutKey > 0:
		r.check("checkpoint_signatures", Skip, "no key is known for their sizes")
	default:
		r.check("checkpoint_signatures", Skip, "no checkpoint with a good signature was given")
	}
	switch {
	case len(j.opts.Expect) == 0:
		r.check("anchors", Skip, "no anchor was given: the report says that the ledger is consistent, not that it is the one from before")
	case j.faults.steps[stepAnchor] > 0:
		r.check("anchors", Fail, "")
	default:
		r.check("anchors", Pass, "")
	}
	switch {
	case len(j.keys.demanded) == 0:
		r.check("demanded_keys", Skip, "no key was demanded")
	case j.faults.steps[stepKey] > 0:
		r.check("demanded_keys", Fail, "")
	default:
		r.check("demanded_keys", Pass, "")
	}
	if j.counts.stamps > 0 {
		r.check("time_stamps", Skip, "time stamps and later cosignatures are not judged here")
	}
}

// notes says what is no fault and yet worth knowing.
func (j *judge) notes() {
	r, c := j.report, &j.counts
	if !r.Anchored {
		r.note("no anchor fits: the verdict means consistent, and the end is not proven")
	}
	if j.isRange() {
		r.note("what began before event %d is taken as given", j.first)
	}
	if j.run != "" {
		r.note("these are events of one run; they show nothing about completeness")
	}
	if j.holes > 0 {
		r.note("hole at %d: calls, totals, locks and caps are not judged behind it", j.holeAt)
	}
	plural := func(n uint64, format string, args ...any) {
		if n > 0 {
			r.note(format, append([]any{n}, args...)...)
		}
	}
	plural(c.clockBack, "%d events have a clock that stands before an earlier one, the first is event %d", c.clockBackAt)
	plural(uint64(len(j.calls.open)), "%d calls have no outcome so far")
	plural(uint64(len(j.locks.live)), "%d locks are held at the end")
	plural(c.unpriced, "%d calls are unpriced")
	plural(c.estimated, "%d calls have an estimated usage")
	plural(c.absent-c.erased, "%d contents are withheld")
	plural(c.erased, "%d contents are erased")
	plural(c.presentErased, "erased_present: %d contents are there although an erasure names them")
	plural(c.bodiesNotCarried, "%d bodies are not carried")
	plural(c.unclean, "%d times the service started without a stop before")
	plural(c.checkpoints.withoutKey, "%d checkpoints have a size for which no key is known; their roots were compared all the same")
	plural(c.checkpoints.withoutRoot, "%d checkpoints have a size whose root does not follow from what was given")
	if c.running {
		r.note("the service was not stopped at the end")
	}
	if j.wholeStart() && j.sealed == 0 {
		r.note("the ledger is not sealed: it may go on")
	}
}
