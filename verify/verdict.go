package verify

import (
	"cmp"
	"slices"
)

// Verdict is one of the words of docs/format.md, section 8.
type Verdict string

// The verdicts. Intact is never a fault; every other one may be.
const (
	Intact       Verdict = "intact"
	Altered      Verdict = "altered"
	Missing      Verdict = "missing"
	Reordered    Verdict = "reordered"
	Forked       Verdict = "forked"
	Cut          Verdict = "cut"
	CostMismatch Verdict = "cost_mismatch"
	Unaccounted  Verdict = "unaccounted"
	Overlap      Verdict = "overlap"
	CapBreach    Verdict = "cap_breach"
	Malformed    Verdict = "malformed"
	Torn         Verdict = "torn"
	Unverifiable Verdict = "unverifiable"
)

// Verdicts lists every verdict with its exit code, in the order of the format.
func Verdicts() []Verdict {
	return []Verdict{Intact, Altered, Missing, Reordered, Forked, Cut,
		CostMismatch, Unaccounted, Overlap, CapBreach, Malformed, Torn, Unverifiable}
}

// ExitCode is the exit code that the verdict gives: 0, 10, 20, 30, 40 or 50.
func (v Verdict) ExitCode() int {
	switch v {
	case Intact:
		return 0
	case Altered, Missing, Reordered, Forked, Cut:
		return 10
	case CostMismatch, Unaccounted, Overlap, CapBreach:
		return 20
	case Malformed:
		return 30
	case Torn:
		return 40
	case Unverifiable:
		return 50
	}
	panic("verify: verdict outside the list: " + string(v))
}

// Fault is one thing that doesn't hold.
type Fault struct {
	Verdict Verdict `json:"verdict"`
	Seq     uint64  `json:"seq"`           // the event at fault: docs/format.md, section 8
	To      uint64  `json:"to,omitempty"`  // last of a range of missing events
	Run     string  `json:"run,omitempty"` // run of the event, where it has one
	Detail  string  `json:"detail"`        // what was found, for people

	step  step
	order uint64 // of finding, so that equals keep it
}

// step is the place of a check in the order of judging.
type step uint8

const (
	stepForm step = iota
	stepHash
	stepNumber
	stepLink
	stepContent
	stepRunSeq
	stepCost
	stepRun
	stepLock
	stepCap
	stepNote
	stepTrailer
	stepAnchor
	stepKey // a demanded key or id
	stepTorn
)

// maxFaults bounds the faults that a report lists. Beyond them only their
// number is kept, and what the verdict needs: the first of each class.
const maxFaults = 1000

// faultList collects faults in any order and keeps the first ones.
type faultList struct {
	list  []Fault
	found uint64            // how many there were
	first map[int]Fault     // by exit code
	steps [stepTorn + 1]int // how many by step
}

func (l *faultList) add(f Fault) {
	l.found++
	l.steps[f.step]++
	f.order = l.found
	if l.first == nil {
		l.first = map[int]Fault{}
	}
	code := f.Verdict.ExitCode()
	if old, ok := l.first[code]; !ok || compareFaults(f, old) < 0 {
		l.first[code] = f
	}
	if l.list = append(l.list, f); len(l.list) >= 2*maxFaults {
		l.sort()
	}
}

// sort orders the faults by (seq, step) and drops those beyond the bound.
func (l *faultList) sort() {
	slices.SortFunc(l.list, compareFaults)
	if len(l.list) > maxFaults {
		l.list = l.list[:maxFaults]
	}
}

func compareFaults(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.step, b.step), cmp.Compare(a.order, b.order))
}

// verdict is the fault that gives the verdict; ok is false where all holds.
func (l *faultList) verdict() (f Fault, ok bool) {
	for _, code := range []int{10, 20, 30, 40, 50} {
		if f, ok := l.first[code]; ok {
			return f, true
		}
	}
	return Fault{}, false
}
