package verify

import (
	"encoding/json"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// Kind says what was verified.
type Kind string

// What File and Reader tell apart by content.
const (
	KindDatabase Kind = "database"
	KindExport   Kind = "export"
	KindReceipt  Kind = "receipt"
	KindUnknown  Kind = "unknown" // nothing of docket's
)

// Result is the outcome of one check.
type Result string

// A check that was not made is never Pass.
const (
	Pass Result = "pass"
	Fail Result = "fail"
	Skip Result = "skip"
)

// Check is the outcome of one check, with what it left out.
type Check struct {
	Result Result `json:"result"`
	// Reason says for Skip why the check was not made, for Pass what of it
	// was not, and is empty where nothing was left out.
	Reason string `json:"reason,omitempty"`
}

// Report is what a verification found. Its JSON form is the object that
// docket verify --json prints.
type Report struct {
	// Verdict is Intact, or that of the first fault of the class that gives
	// the exit code.
	Verdict Verdict `json:"verdict"`
	Kind    Kind    `json:"kind"`
	// Ledger is the id, "" where nothing says it.
	Ledger string `json:"ledger"`
	// First and Events say what was given: the first number and how many
	// events, rows in a receipt.
	First  uint64 `json:"first"`
	Events uint64 `json:"events"`
	// Head is the hash of the last event, 64 hex digits; Root that of the
	// tree, or nil where it can't be known from what was given.
	Head string  `json:"head"`
	Root *string `json:"root"`

	CostUSD   string `json:"cost_usd"`   // exact decimal, recomputed from usage and prices
	Unpriced  uint64 `json:"unpriced"`   // calls without a cost
	Estimated uint64 `json:"estimated"`  // calls whose usage is estimated
	Withheld  uint64 `json:"withheld"`   // contents not given
	Erased    uint64 `json:"erased"`     // contents not given and named by an erasure
	OpenCalls uint64 `json:"open_calls"` // requests without an outcome at the end
	// Anchored is true where an anchor from outside was found to fit. Where
	// it is false, every verdict means "consistent with itself".
	Anchored bool `json:"anchored"`

	Checks map[string]Check `json:"checks"`
	// Faults are the first 1,000, by (seq, step); FaultsFound counts all.
	Faults      []Fault `json:"faults"`
	FaultsFound uint64  `json:"faults_found"`
	// Proven and Consistent are closed ranges of event numbers.
	Proven     [][2]uint64 `json:"proven"`
	Consistent [][2]uint64 `json:"consistent"`
	Notes      []string    `json:"notes"`

	deciding *Fault
}

// ExitCode is the exit code of the command: 0, 10, 20, 30, 40 or 50.
func (r *Report) ExitCode() int { return r.Verdict.ExitCode() }

// Deciding is the fault that gives the verdict, or nil where it is Intact.
// It is one of Faults, unless more than 1,000 faults stand in front of it.
func (r *Report) Deciding() *Fault { return r.deciding }

// Err is nil where the verdict is Intact, else an error that names verdict and
// place: for callers that need a yes or no.
func (r *Report) Err() error {
	if r.deciding == nil {
		return nil
	}
	return &VerdictError{*r.deciding}
}

// VerdictError tells that a ledger is not intact.
type VerdictError struct{ Fault Fault }

func (e *VerdictError) Error() string {
	return fmt.Sprintf("%s at event %d: %s", e.Fault.Verdict, e.Fault.Seq, e.Fault.Detail)
}

// JSON is the report as one line, without a newline.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return b, nil
}

// newReport makes a report whose lists are there though empty.
func newReport(k Kind) *Report {
	return &Report{
		Kind: k, CostUSD: chain.Decimal{}.String(), Checks: map[string]Check{},
		Faults: []Fault{}, Proven: [][2]uint64{}, Consistent: [][2]uint64{}, Notes: []string{},
	}
}

// conclude sets what follows from the faults.
func (r *Report) conclude(l *faultList) {
	l.sort()
	r.Faults = append(r.Faults, l.list...)
	r.FaultsFound = l.found
	r.Verdict = Intact
	if f, ok := l.verdict(); ok {
		r.Verdict, r.deciding = f.Verdict, &f
	}
	if l.found > uint64(len(l.list)) {
		r.note("%d more faults stand behind the %d that are listed", l.found-uint64(len(l.list)), len(l.list))
	}
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// check records the outcome of one check.
func (r *Report) check(name string, res Result, reason string) {
	r.Checks[name] = Check{res, reason}
}
