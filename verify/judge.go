package verify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// setup says how the events of an input are to be taken: what its trailer
// says, or the kind of input.
type setup struct {
	kind  Kind
	first uint64           // number that the input begins with
	peaks []chain.TreeHash // of the tree of size first − 1
	run   string           // the run of an export of one run, or of a receipt

	// reread calls line with each line between two offsets of the input; nil
	// where the input can't be read at an offset.
	reread func(from, to int64, line func([]byte)) error
}

// wholeStart says whether the input begins with event 1.
func (s *setup) wholeStart() bool { return s.first == 1 && s.run == "" }

// isRange says whether what began before the input is taken as given.
func (s *setup) isRange() bool { return s.first > 1 && s.run == "" }

// errSeek tells that a body is too large to be kept and the input can't be
// read again at an offset.
var errSeek = errors.New("input has to be read again")

// judge takes the items of an input in rising order of their numbers and
// applies docs/format.md, section 8. One goroutine runs it.
type judge struct {
	setup
	opts   *Options
	faults faultList
	report *Report
	tree   *tree // nil in an export of one run
	counts counts

	// The event judged last, and the one before it.
	n      uint64 // its number; first − 1 at the beginning
	state  eventState
	hash   chain.Hash // stated, where state says so
	before chain.Hash // stated by event n − 1
	linked bool       // before is known

	holes     uint64 // number of holes so far
	holeAt    uint64 // number of the first
	sound     ranges
	headsAt   map[uint64]*chain.Hash // stated hashes that anchors ask for; nil until seen
	firstSeq  uint64                 // of the first event given
	firstPrev chain.Hash             // its prev: the hash of the event before
	lastTS    string
	sealed    uint64 // seq of ledger.sealed

	firstGap       uint64 // first absent number, 0 where none is
	tornAt         uint64 // where a torn database can't be read on; 0: behind the end
	trailerPartial bool   // only the trailer's last number was compared

	bodies bodies
	given  bitset // numbers whose content is there
	absent bitset // numbers whose content is not
	erased bitset // those of them that an erasure names
	runs   map[string]*runState
	calls  calls
	locks  locks
	caps   caps
	keys   keyring
	own    *receipt.Checkpoint // of a receipt
}

// eventState is how far the event judged last was sound.
type eventState uint8

const (
	stateNone      eventState = iota // absent
	stateMalformed                   // no hash known
	stateAltered                     // its hash is known, its header can't be believed
	stateUnsound                     // a fault from number to content
	stateSound
)

// counts are the figures of the report and of the trailer.
type counts struct {
	events, bodies      uint64
	unpriced, estimated uint64
	cost                chain.Decimal
	absent, erased      uint64
	presentErased       uint64 // contents there although an erasure names them
	clockBack           uint64 // events whose ts is before that of an earlier one
	clockBackAt         uint64
	bodiesNotCarried    uint64
	parts               uint64 // bodies that events commit to
	missing, malformed  uint64
	unsound             uint64
	refused             uint64
	unclean             uint64 // starts of the service without a stop before
	running             bool   // a service.started without its service.stopped
	stamps              uint64 // ledger.anchored
	made                [stepTorn + 1]uint64
	checkpoints         checkpointCounts
	contentsMade        uint64
}

func newJudge(s setup, o *Options, r *Report) *judge {
	j := &judge{setup: s, opts: o, report: r, n: s.first - 1, headsAt: map[uint64]*chain.Hash{}, runs: map[string]*runState{}}
	wanted := map[uint64]bool{}
	for _, a := range o.Expect {
		if a.Checkpoint != nil {
			wanted[a.Size] = true
		} else {
			j.headsAt[a.Size] = nil
		}
	}
	if s.run == "" {
		j.tree = newTree(s.first-1, s.peaks, wanted)
	}
	j.calls.init()
	j.locks.init()
	j.caps.init()
	j.keys.init(o.verifiers, s)
	return j
}

// fault records what doesn't hold of event seq.
func (j *judge) fault(v Verdict, seq uint64, s step, h *chain.Header, format string, args ...any) {
	f := Fault{Verdict: v, Seq: seq, Detail: clip(fmt.Sprintf(format, args...)), step: s}
	if h != nil {
		f.Run = h.Run
	}
	j.faults.add(f)
}

// maxDetail bounds what a detail repeats of an input, which may be a member's
// name of a MiB.
const maxDetail = 1000

func clip(s string) string {
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}

// hole marks number n as one whose header is not known: what depends on every
// event is not judged behind it.
func (j *judge) hole(n uint64) {
	if j.holes == 0 {
		j.holeAt = n
	}
	j.holes++
}

// partial says whether calls, totals, locks and caps can't be judged any more.
func (j *judge) partial() bool { return j.holes > 0 }

// item takes the next line or record.
func (j *judge) item(it *item) error {
	if it.kind == itemBody {
		return j.bodies.add(it)
	}
	again := j.arrive(it)
	bodyErr := j.bodyForm(it.seq)
	if it.err != nil {
		j.malformed(it)
		return nil
	}
	if j.run != "" && it.header.Run != j.run {
		it.err = fmt.Errorf("an event of %s in an export of run %s", describeRun(it.header.Run), j.run)
		j.malformed(it)
		return nil
	}
	j.counts.made[stepForm]++
	j.counts.made[stepHash]++
	if it.altered {
		j.fault(Altered, it.seq, stepHash, it.header, "header hashes to %s, and %s is stated", it.gotHash, it.hash)
		j.hole(it.seq)
		if !again {
			j.settle(it, stateAltered)
		}
		j.bodies.drop()
		return nil
	}
	if it.stated != 0 && it.stated != it.seq {
		j.misplaced(it)
		return nil
	}
	if again {
		j.twice(it)
		j.bodies.drop()
		return nil
	}
	return j.wellFormed(it, bodyErr)
}

// arrive closes what stands between the event judged last and this one. It
// says whether a sound event of this number was judged already.
func (j *judge) arrive(it *item) (again bool) {
	if j.firstSeq == 0 {
		j.firstSeq = it.seq
	}
	if it.seq == j.n && j.state != stateNone {
		return j.state == stateUnsound || j.state == stateSound
	}
	j.counts.events++
	if it.seq > j.n+1 && j.run == "" {
		j.missing(j.n+1, it.seq-1, it)
	}
	if it.seq == j.n+1 && j.n > 0 {
		j.before, j.linked = j.hash, j.state >= stateAltered
	} else {
		j.linked = false
	}
	j.n, j.state = it.seq, stateNone
	return false
}

// missing records a range of absent numbers in front of it.
func (j *judge) missing(from, to uint64, it *item) {
	j.counts.missing += to - from + 1
	if j.firstGap == 0 {
		j.firstGap = from
	}
	detail := fmt.Sprintf("event %d is absent", from)
	if to > from {
		detail = fmt.Sprintf("events %d to %d are absent (%d)", from, to, to-from+1)
	}
	j.faults.add(Fault{Verdict: Missing, Seq: from, To: to, Detail: detail, step: stepNumber})
	j.hole(from)
	if from == to && it != nil && it.err == nil {
		j.head(from, it.header.Prev)
	}
}

func (j *judge) malformed(it *item) {
	j.counts.malformed++
	j.fault(Malformed, it.seq, stepForm, nil, "%v", it.err)
	j.hole(it.seq)
	if j.state == stateNone {
		j.state = stateMalformed
	}
	j.bodies.drop()
}

// settle makes it the event of its number that the next is linked to.
func (j *judge) settle(it *item, s eventState) {
	j.state, j.hash = s, it.hash
	j.head(it.seq, it.hash)
}

// head keeps a stated hash that an anchor asks for.
func (j *judge) head(n uint64, h chain.Hash) {
	if _, asked := j.headsAt[n]; asked {
		j.headsAt[n] = &h
	}
}

// twice judges a number of which a well-formed event was judged before.
func (j *judge) twice(it *item) {
	j.counts.made[stepNumber]++
	if it.hash == j.hash {
		j.fault(Reordered, it.seq, stepNumber, it.header, "the number stands twice, both times with hash %s", it.hash)
		return
	}
	j.fault(Forked, it.seq, stepNumber, it.header, "two events have this number, with hashes %s and %s", j.hash, it.hash)
}

// misplaced judges an event that a database stores under another number.
func (j *judge) misplaced(it *item) {
	j.counts.unsound++
	j.fault(Reordered, it.seq, stepNumber, it.header, "event %d is stored under this number", it.stated)
	j.hole(it.seq)
	j.settle(it, stateUnsound)
}

// wellFormed judges an event whose form and hash hold.
func (j *judge) wellFormed(it *item, bodyFault bool) error {
	h := it.header
	sound := !bodyFault && !it.elsewhere
	j.counts.made[stepNumber]++
	if it.late {
		sound = false
		j.fault(Reordered, it.seq, stepNumber, h, "the event stands behind one of a higher number")
	}
	if !j.link(it) {
		sound = false
	}
	ok, err := j.contents(it)
	if err != nil {
		return err
	}
	sound = sound && ok
	if it.seq == 1 && !j.created(it, sound) {
		sound = false
	}
	if sound {
		j.sound.add(it.seq)
		j.settle(it, stateSound)
	} else {
		j.counts.unsound++
		j.settle(it, stateUnsound)
	}
	j.runSeq(h)
	j.costs(it)
	j.runAndCall(it)
	j.lockStep(h)
	j.capStep(it)
	j.noteStep(it)
	j.remember(it)
	return nil
}

// link compares prev with the hash of the event before.
func (j *judge) link(it *item) bool {
	if it.seq == j.firstSeq {
		j.firstPrev = it.header.Prev
	}
	if it.seq == 1 || !j.linked {
		return true // event 1 is judged with its content
	}
	j.counts.made[stepLink]++
	if it.header.Prev == j.before {
		return true
	}
	j.fault(Forked, it.seq, stepLink, it.header, "prev is %s, and event %d has hash %s", it.header.Prev, it.seq-1, j.before)
	return false
}

// remember keeps what notes are made of.
func (j *judge) remember(it *item) {
	h := it.header
	if h.TS < j.lastTS {
		if j.counts.clockBack++; j.counts.clockBackAt == 0 {
			j.counts.clockBackAt = it.seq
		}
	} else {
		j.lastTS = h.TS
	}
	switch h.Type {
	case chain.TypeServiceStart:
		if j.counts.running {
			j.counts.unclean++
		}
		j.counts.running = true
	case chain.TypeServiceStop:
		j.counts.running = false
	case chain.TypeAnchored:
		j.counts.stamps++
	case chain.TypeRefused:
		j.counts.refused++
	}
}

func describeRun(run string) string {
	if run == "" {
		return "no run"
	}
	return "run " + run
}
