package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// maxReceipt bounds a receipt, which is judged in memory: one run of hundreds
// of thousands of events.
const maxReceipt = 256 << 20

// errTooLarge tells that a receipt is over maxReceipt.
var errTooLarge = errors.New("receipt of more than 256 MiB")

// receiptJudge holds what a receipt is compared with.
type receiptJudge struct {
	*judge
	receipt *receipt.Receipt
	point   *receipt.SignedCheckpoint // nil where it is malformed
	last    uint64                    // number of the last row, at least 1
}

// verifyReceipt judges a receipt: docs/format.md, section 9.
func verifyReceipt(ctx context.Context, in *input) (*Report, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	line, ended := bytes.CutSuffix(text, []byte("\n"))
	switch {
	case !ended || in.cutShort:
		return oneFault(KindReceipt, Torn, "the receipt has no newline at its end"), nil
	case in.damaged != nil:
		return oneFault(KindReceipt, Malformed, fmt.Sprintf("the compressed stream can't be read on: %v", in.damaged)), nil
	case bytes.IndexByte(line, '\n') >= 0:
		return oneFault(KindReceipt, Malformed, "a receipt is one line, and there are more"), nil
	}
	if f := looseText(line, "format"); otherVersion(f, chain.ReceiptFormat) {
		return unknownVersion(KindReceipt, f), nil
	}
	rc, err := receipt.Parse(line)
	if rc == nil {
		return oneFault(KindReceipt, Malformed, err.Error()), nil
	}
	r := newReport(KindReceipt)
	s := setup{kind: KindReceipt, first: 1, run: rc.Run}
	j := &receiptJudge{judge: newJudge(s, in.opts, r), receipt: rc, last: 1}
	if err != nil {
		j.fault(Malformed, 1, stepForm, nil, "%v", err)
	}
	if err := j.judgeAll(ctx); err != nil {
		return versionOr(r, err)
	}
	r.conclude(&j.faults)
	return r, nil
}

// oneFault is the report on an input of which nothing else can be said.
func oneFault(k Kind, v Verdict, detail string) *Report {
	r := newReport(k)
	var l faultList
	l.add(Fault{Verdict: v, Seq: 1, Detail: clip(detail)})
	r.check("form", Fail, "")
	r.conclude(&l)
	return r
}

// text reads the whole input.
func (in *input) text() ([]byte, error) {
	r, done, err := in.lines(0)
	if err != nil {
		return nil, err
	}
	defer done()
	b, err := io.ReadAll(io.LimitReader(r, maxReceipt+1))
	if err == nil && len(b) > maxReceipt {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read receipt: %w", err)
	}
	return b, nil
}

func (j *receiptJudge) judgeAll(ctx context.Context) error {
	if err := j.genesis(); err != nil {
		return err
	}
	point, err := receipt.ParseSignedCheckpoint(j.receipt.Checkpoint)
	if err != nil {
		j.fault(Malformed, 1, stepNote, nil, "checkpoint: %v", err)
	} else {
		j.point, j.own = point, &point.Checkpoint
	}
	j.proof(&j.receipt.Genesis, 1)
	j.rotations()
	if err := j.rows(ctx); err != nil {
		return err
	}
	j.erasures()
	j.checkpoint()
	j.says()
	good := j.anchors()
	j.demandedKeys()
	j.fill()
	if j.point != nil {
		root := hexRoot(j.point.Root)
		j.report.Root = &root
	}
	j.ranges(good)
	return nil
}

// aside reads a row that is not one of the run's: its form and hash, content
// and type. ok is false where its header can't be relied on.
func (j *receiptJudge) aside(row *receipt.Row, typ string) (it item, ok bool) {
	if row.Err == nil {
		it.raw = row.Raw
		it.readEvent(row.Event, true)
	} else {
		it = item{raw: row.Raw, err: row.Err, seq: looseNumber(row.Raw)}
	}
	if it.err == nil && it.header.Type != typ {
		it.err = fmt.Errorf("a %s, where %s stands", it.header.Type, typ)
	}
	it.seq = max(it.seq, 1)
	switch {
	case it.err != nil:
		j.fault(Malformed, it.seq, stepForm, nil, "%v", it.err)
		return it, false
	case it.altered:
		j.fault(Altered, it.seq, stepHash, it.header, "header hashes to %s, and %s is stated", it.gotHash, it.hash)
		return it, false
	case it.content == contentBad:
		j.fault(Altered, it.seq, stepContent, it.header, "content and salt give %s, and the header commits to %s", it.got, it.header.Content)
	}
	return it, true
}

// genesis judges the row of event 1 and takes id and keys from it.
func (j *receiptJudge) genesis() error {
	row := &j.receipt.Genesis
	if f := (&item{raw: row.Raw}).format(); otherVersion(f, chain.FormatName) {
		return &versionError{f}
	}
	it, ok := j.aside(row, chain.TypeCreated)
	if !ok {
		return nil
	}
	if j.created(&it, it.content == contentGood) && j.keys.id != j.receipt.Ledger {
		j.fault(Altered, 1, stepContent, nil, "the receipt names ledger %s, and event 1 is of ledger %s", j.receipt.Ledger, j.keys.id)
	}
	return nil
}

// proof judges a row's path to the checkpoint.
func (j *receiptJudge) proof(row *receipt.Row, seq uint64) bool {
	if j.point == nil || row.Err != nil {
		return true
	}
	if err := row.CheckProof(seq, j.point.Size, j.point.Root); err != nil {
		j.fault(Altered, seq, stepContent, nil, "%v", err)
		return false
	}
	return true
}

// rotations judges the rows of key.rotated and takes over their keys.
func (j *receiptJudge) rotations() {
	before := uint64(1)
	for i := range j.receipt.Rotations {
		row := &j.receipt.Rotations[i]
		it, ok := j.aside(row, chain.TypeKeyRotated)
		if !ok {
			continue
		}
		if it.seq <= before || j.point != nil && it.seq > j.point.Size {
			j.fault(Malformed, it.seq, stepForm, it.header, "rotations rise and lie below the checkpoint's size")
			continue
		}
		before = it.seq
		j.proof(row, it.seq)
		j.keys.assume()
		j.rotation(it.header)
	}
}

// rows judges the run's events, in the order of their numbers.
func (j *receiptJudge) rows(ctx context.Context) error {
	type numbered struct {
		it  item
		row *receipt.Row
	}
	list := make([]numbered, len(j.receipt.Rows))
	prev, highest := uint64(0), uint64(0)
	for i := range j.receipt.Rows {
		n := &list[i]
		n.row = &j.receipt.Rows[i]
		n.it.raw = n.row.Raw
		if n.row.Err == nil {
			n.it.readEvent(n.row.Event, true)
		} else {
			n.it.err, n.it.seq = n.row.Err, looseNumber(n.row.Raw)
		}
		if n.it.seq == 0 {
			n.it.seq = prev + 1
		}
		n.it.late = n.it.seq < highest
		prev, highest = n.it.seq, max(highest, n.it.seq)
	}
	if len(list) > 0 {
		j.last = prev
	}
	slices.SortStableFunc(list, func(a, b numbered) int { return cmp.Compare(a.it.seq, b.it.seq) })
	if len(list) > 0 {
		j.first = list[0].it.seq
		j.n = j.first - 1
	}
	for i := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := &list[i]
		if n.it.err == nil && !n.it.altered {
			n.it.elsewhere = !j.proof(n.row, n.it.seq)
		}
		if err := j.item(&n.it); err != nil {
			return err
		}
	}
	return nil
}

// erasures judges the rows of ledger.erased, each of which names a row here.
func (j *receiptJudge) erasures() {
	parts := map[chain.Hash]bool{}
	for i := range j.receipt.Rows {
		if e := j.receipt.Rows[i].Event; e != nil {
			if h, err := chain.ParseHeader(e.Header); err == nil {
				for _, p := range h.Parts {
					parts[p.Commit] = true
				}
			}
		}
	}
	before := uint64(0)
	for i := range j.receipt.Erasures {
		row := &j.receipt.Erasures[i]
		it, ok := j.aside(row, chain.TypeErased)
		if !ok {
			continue
		}
		j.proof(row, it.seq)
		names := slices.ContainsFunc(it.header.Erased.Seqs, func(n uint64) bool { return j.given.has(n) || j.absent.has(n) }) ||
			slices.ContainsFunc(it.header.Erased.Parts, func(h chain.Hash) bool { return parts[h] })
		if !names || it.seq <= before {
			j.fault(Malformed, j.last, stepTrailer, nil, "erasures rise and name rows of the receipt, and event %d does not", it.seq)
			continue
		}
		before = it.seq
		j.erasure(it.header)
	}
}

// checkpoint judges the receipt's own checkpoint.
func (j *receiptJudge) checkpoint() {
	c, k := j.point, &j.keys
	if c == nil {
		return
	}
	j.counts.made[stepNote]++
	k.assume()
	if k.id == "" {
		k.id = c.Ledger
	}
	keys, _ := k.inForce(c.Size)
	key, found, ok := k.signedBy(c.Note, chain.MaxInt+1)
	switch {
	case c.Ledger != k.id:
		j.fault(Forked, c.Size, stepNote, nil, "the checkpoint is of ledger %s, and the receipt of ledger %s", c.Ledger, k.id)
	case found && !ok:
		j.fault(Altered, c.Size, stepNote, nil, "the checkpoint's signature by key %s does not hold", key)
	case !found:
		j.fault(Unverifiable, c.Size, stepNote, nil, "the checkpoint is signed by key id %08x, which the ledger has not had", c.Note.Signatures[0].KeyID)
	case !holds(keys, key):
		j.fault(Forked, c.Size, stepNote, nil, "the checkpoint is signed by key %s, which was not in force at size %d", key, c.Size)
	default:
		j.counts.checkpoints.signatures++
		k.witness(c.Note)
	}
}

// says compares what the receipt says of its rows with what they give.
func (j *receiptJudge) says() {
	rc := j.receipt
	if want := j.totals(); !sameTotals(want, rc.Totals) {
		j.fault(CostMismatch, j.last, stepTrailer, nil, "totals say %s, and the rows give %s", describeTotals(rc.Totals), describeTotals(want))
	}
	complete := false
	if n := len(rc.Rows); n > 0 && rc.Rows[n-1].Event != nil {
		h, err := chain.ParseHeader(rc.Rows[n-1].Event.Header)
		complete = err == nil && h.Type == chain.TypeRunClosed
	}
	if complete != rc.Complete {
		j.fault(Malformed, j.last, stepTrailer, nil, "complete is %t, and by its last row it is %t", rc.Complete, complete)
	}
	if want := j.findings(); !slices.Equal(want, rc.Findings) {
		j.fault(Malformed, j.last, stepTrailer, nil, "findings are %v, and the rows give %v", rc.Findings, want)
	}
	if want := j.limits(); !slices.Equal(want, rc.Limits) {
		j.fault(Malformed, j.last, stepTrailer, nil, "limits are %v, and %v follow", rc.Limits, want)
	}
}

// totals sums the rows.
func (j *receiptJudge) totals() receipt.Totals {
	c := &j.counts
	t := receipt.Totals{
		Cost: c.cost, Erased: c.erased, Estimated: c.estimated, Open: uint64(len(j.calls.open)),
		Refused: c.refused, Unpriced: c.unpriced, Withheld: c.absent - c.erased,
	}
	if r := j.runs[j.run]; r != nil {
		t.Calls, t.Failed = r.calls, r.failed
	}
	return t
}

func sameTotals(a, b receipt.Totals) bool {
	// One decimal may be held in two ways, so it is compared by value.
	same := a.Cost.Cmp(b.Cost) == 0
	a.Cost, b.Cost = chain.Decimal{}, chain.Decimal{}
	return same && a == b
}

func describeTotals(t receipt.Totals) string {
	return fmt.Sprintf("calls %d, cost_usd %s, erased %d, estimated %d, failed %d, open %d, refused %d, unpriced %d, withheld %d",
		t.Calls, t.Cost, t.Erased, t.Estimated, t.Failed, t.Open, t.Refused, t.Unpriced, t.Withheld)
}

// findings are the faults of runs and calls over the rows.
func (j *receiptJudge) findings() []receipt.Finding {
	j.faults.sort()
	var list []receipt.Finding
	for _, f := range j.faults.list {
		if f.step == stepRun {
			list = append(list, receipt.Finding{Seq: f.Seq, Verdict: string(f.Verdict)})
		}
	}
	return list
}

// limits is what the receipt can't show: always the same, and what applies.
func (j *receiptJudge) limits() []string {
	c := &j.counts
	list := []string{"after-checkpoint", "claims", "clock", "other-events", "second-series"}
	for _, l := range []struct {
		name    string
		applies bool
	}{
		{"erased", c.erased > 0},
		{"estimated", c.estimated > 0},
		{"open", len(j.calls.open) > 0},
		{"parts", c.parts > 0},
		{"unpriced", c.unpriced > 0},
		{"untimed", len(j.receipt.Anchors) == 0},
		{"unwitnessed", j.point != nil && len(j.point.Note.Signatures) == 1},
		{"withheld", c.absent > c.erased},
	} {
		if l.applies {
			list = append(list, l.name)
		}
	}
	slices.Sort(list)
	return list
}
