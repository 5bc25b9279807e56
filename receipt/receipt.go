package receipt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/docket-audit/docket/chain"
)

// Receipt is what docs/format.md, section 9 describes: all events of one run
// with their paths to one checkpoint.
type Receipt struct {
	Anchors    []Stamp
	Checkpoint string // a signed note
	Complete   bool   // the last row is run.closed
	Erasures   []Row  // the ledger.erased that name a row here
	Findings   []Finding
	Genesis    Row // event 1
	Issued     Issued
	Ledger     string // id
	Limits     []string
	Rotations  []Row // all key.rotated below the checkpoint's size
	Rows       []Row // by run_seq
	Run        string
	Totals     Totals
}

// Row is an event with its audit path.
type Row struct {
	Event *chain.Event     // nil where Err is set
	Proof []chain.TreeHash // RFC 6962 audit path of leaf seq − 1
	Raw   []byte           // as it stands
	Err   error            // a fault of form
}

// Stamp is a time stamp or a later cosignature of the checkpoint.
type Stamp struct {
	Data []byte `json:"data"`
	Kind string `json:"kind"` // rfc3161 or cosigned
}

// Finding is a fault of runs and calls that the rows show.
type Finding struct {
	Seq     uint64 `json:"seq"`
	Verdict string `json:"verdict"`
}

// Issued says who made the receipt and when. It has no weight.
type Issued struct {
	By string `json:"by"`
	TS string `json:"ts"`
}

// Totals are the sums over the rows.
type Totals struct {
	Calls     uint64        `json:"calls"`     // model.response events
	Cost      chain.Decimal `json:"-"`         // of the priced ones, in USD
	Erased    uint64        `json:"erased"`    // contents absent and named by an erasure
	Estimated uint64        `json:"estimated"` // calls whose usage is estimated
	Failed    uint64        `json:"failed"`    // model.failed events
	Open      uint64        `json:"open"`      // requests without an outcome
	Refused   uint64        `json:"refused"`   // model.refused events
	Unpriced  uint64        `json:"unpriced"`  // calls without a cost
	Withheld  uint64        `json:"withheld"`  // contents absent otherwise
}

// Errors of reading a receipt.
var (
	// ErrReceipt tells that a receipt is not in the one form that is allowed.
	ErrReceipt = fmt.Errorf("not a receipt: %w", ErrForm)
	// ErrProof tells that a path doesn't lead to the checkpoint's root.
	ErrProof = errors.New("path leads elsewhere")
)

// Parse reads a receipt from its line, without the newline. Where it returns
// an error and a receipt, what could be read of it is there to be judged. A
// row's own faults of form are in the row.
func Parse(b []byte) (*Receipt, error) {
	members, err := splitObject(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrReceipt)
	}
	r := Receipt{Genesis: Row{Err: errors.New("missing")}}
	var faults []error
	for _, m := range members {
		if err := r.member(m); err != nil {
			faults = append(faults, fmt.Errorf("member %q: %w", m.name, err))
		}
	}
	if len(faults) == 0 {
		faults = append(faults, r.check())
		if again := r.Append(nil); !bytes.Equal(again, b) {
			faults = append(faults, fmt.Errorf("not the canonical form of exactly the members of a receipt (differs at byte %d)", differsAt(again, b)))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return &r, fmt.Errorf("%w: %w", err, ErrReceipt)
	}
	return &r, nil
}

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (r *Receipt) member(m member) (err error) {
	format := ""
	switch m.name {
	case "anchors":
		err = json.Unmarshal(m.value, &r.Anchors)
	case "checkpoint":
		err = json.Unmarshal(m.value, &r.Checkpoint)
	case "complete":
		err = json.Unmarshal(m.value, &r.Complete)
	case "erasures":
		r.Erasures, err = parseRows(m.value)
	case "findings":
		err = json.Unmarshal(m.value, &r.Findings)
	case "format":
		if err = json.Unmarshal(m.value, &format); err == nil && format != chain.ReceiptFormat {
			err = fmt.Errorf("%q is not %s", format, chain.ReceiptFormat)
		}
	case "genesis":
		r.Genesis = parseRow(m.value)
	case "issued":
		err = json.Unmarshal(m.value, &r.Issued)
	case "ledger":
		err = json.Unmarshal(m.value, &r.Ledger)
	case "limits":
		err = json.Unmarshal(m.value, &r.Limits)
	case "rotations":
		r.Rotations, err = parseRows(m.value)
	case "rows":
		r.Rows, err = parseRows(m.value)
	case "run":
		err = json.Unmarshal(m.value, &r.Run)
	case "totals":
		err = r.Totals.parse(m.value)
	default:
		err = errors.New("unknown member")
	}
	return err
}

func (t *Totals) parse(b []byte) error {
	if err := json.Unmarshal(b, t); err != nil {
		return err
	}
	var cost struct {
		USD string `json:"cost_usd"`
	}
	if err := json.Unmarshal(b, &cost); err != nil {
		return err
	}
	var err error
	t.Cost, err = chain.ParseAmount(cost.USD)
	return err
}

// check judges the values that writing again does not.
func (r *Receipt) check() error {
	var faults []error
	if err := chain.CheckLedgerID(r.Ledger); err != nil {
		faults = append(faults, fmt.Errorf("ledger: %w", err))
	}
	if err := chain.CheckToken(r.Run); err != nil {
		faults = append(faults, fmt.Errorf("run: %w", err))
	}
	if err := chain.CheckTime(r.Issued.TS); err != nil {
		faults = append(faults, fmt.Errorf("issued: ts: %w", err))
	}
	if len(r.Rows) == 0 {
		faults = append(faults, errors.New("rows: none"))
	}
	for _, s := range r.Anchors {
		if s.Kind != "rfc3161" && s.Kind != "cosigned" {
			faults = append(faults, fmt.Errorf("anchors: kind %q", s.Kind))
		}
	}
	counts := []uint64{r.Totals.Calls, r.Totals.Erased, r.Totals.Estimated, r.Totals.Failed, r.Totals.Open, r.Totals.Refused, r.Totals.Unpriced, r.Totals.Withheld}
	for _, f := range r.Findings {
		counts = append(counts, f.Seq)
	}
	if slices.Max(counts) > chain.MaxInt {
		faults = append(faults, errors.New("an integer above 2^53-1"))
	}
	return errors.Join(faults...)
}

func parseRows(b []byte) ([]Row, error) {
	list, err := splitArray(b)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(list))
	for i, raw := range list {
		rows[i] = parseRow(raw)
	}
	return rows, nil
}

// parseRow reads an export line with a proof in it.
func parseRow(raw []byte) Row {
	row := Row{Raw: raw}
	members, err := splitObject(raw)
	if err != nil {
		row.Err = err
		return row
	}
	line := []byte{'{'}
	var proof []byte
	for _, m := range members {
		if m.name == "proof" {
			proof = m.value
			continue
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = append(line, '"')
		line = append(append(append(line, m.name...), '"', ':'), m.value...)
	}
	l, err := chain.ParseLine(append(line, '}'))
	switch {
	case err != nil:
		row.Err = err
	case l.Event == nil:
		row.Err = errors.New("not an event")
	default:
		row.Event = l.Event
		if row.Proof, err = parseProof(proof); err != nil {
			row.Err = fmt.Errorf("proof: %w", err)
		} else if !bytes.Equal(row.append(nil), raw) {
			row.Err = errors.New("not the canonical form of exactly the members of a row")
		}
	}
	return row
}

func parseProof(b []byte) ([]chain.TreeHash, error) {
	var texts []string
	if err := json.Unmarshal(b, &texts); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	proof := make([]chain.TreeHash, 0, len(texts))
	for _, s := range texts {
		h, err := chain.ParseBase64(s)
		if err != nil || len(h) != len(chain.TreeHash{}) {
			return nil, errors.New("an element is not base64 of 32 bytes")
		}
		proof = append(proof, chain.TreeHash(h))
	}
	return proof, nil
}

// append writes the row again.
func (row *Row) append(dst []byte) []byte {
	line := row.Event.AppendLine(nil)
	// The proof stands between the parts and the salt, which is last.
	end := len(line) - 1
	if row.Event.Content != nil {
		end = bytes.LastIndex(line, []byte(`,"salt":`))
	}
	dst = append(append(dst, line[:end]...), `,"proof":[`...)
	for i, h := range row.Proof {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, h[:])
		dst = append(dst, '"')
	}
	return append(append(dst, ']'), line[end:]...)
}

// CheckProof says whether the row's path leads from the event of number seq
// to the root of a tree of the given size.
func (row *Row) CheckProof(seq, size uint64, root chain.TreeHash) error {
	err := tlog.CheckRecord(row.Proof, int64(size), root, int64(seq)-1, chain.LeafHash(row.Event.Hash))
	if err != nil {
		return fmt.Errorf("event %d in the tree of size %d: %w", seq, size, ErrProof)
	}
	return nil
}

// Append appends the canonical receipt, without a newline. Rows are written
// as they stand.
func (r *Receipt) Append(dst []byte) []byte {
	rows := func(name string, list []Row) {
		dst = append(append(append(dst, `,"`...), name...), `":[`...)
		for i, row := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, row.Raw...)
		}
		dst = append(dst, ']')
	}
	text := func(before, s string) {
		// Invalid UTF-8 was replaced when it was read, so it differs here.
		dst, _ = chain.AppendString(append(dst, before...), s)
	}
	dst = append(dst, `{"anchors":[`...)
	for i, s := range r.Anchors {
		if i > 0 {
			dst = append(dst, ',')
		}
		text(`{"data":`, base64.StdEncoding.EncodeToString(s.Data))
		text(`,"kind":`, s.Kind)
		dst = append(dst, '}')
	}
	text(`],"checkpoint":`, r.Checkpoint)
	dst = strconv.AppendBool(append(dst, `,"complete":`...), r.Complete)
	rows("erasures", r.Erasures)
	dst = append(dst, `,"findings":[`...)
	for i, f := range r.Findings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(append(dst, `{"seq":`...), f.Seq, 10)
		text(`,"verdict":`, f.Verdict)
		dst = append(dst, '}')
	}
	text(`],"format":`, chain.ReceiptFormat)
	dst = append(append(dst, `,"genesis":`...), r.Genesis.Raw...)
	text(`,"issued":{"by":`, r.Issued.By)
	text(`,"ts":`, r.Issued.TS)
	text(`},"ledger":`, r.Ledger)
	dst = append(dst, `,"limits":[`...)
	for i, l := range r.Limits {
		if i > 0 {
			dst = append(dst, ',')
		}
		text("", l)
	}
	dst = append(dst, ']')
	rows("rotations", r.Rotations)
	rows("rows", r.Rows)
	text(`,"run":`, r.Run)
	dst = r.Totals.append(append(dst, `,"totals":`...))
	return append(dst, '}')
}

func (t *Totals) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"calls":%d,"cost_usd":%q,"erased":%d,"estimated":%d,"failed":%d,"open":%d,"refused":%d,"unpriced":%d,"withheld":%d}`,
		t.Calls, t.Cost, t.Erased, t.Estimated, t.Failed, t.Open, t.Refused, t.Unpriced, t.Withheld)
	return dst
}
