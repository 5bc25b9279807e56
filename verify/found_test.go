package verify_test

import (
	"path/filepath"
	"testing"

	"github.com/docket-audit/docket/verify"
)

// TestFound judges inputs that were once judged wrongly and that no worked
// case covers.
func TestFound(t *testing.T) {
	cases := map[string]struct {
		verdict verify.Verdict
		seq     uint64
	}{
		// An outcome of a run that opened within the range, of a call before it.
		"range-outcome-newrun-oldreq": {verify.Unaccounted, 5},
		// Event 1 is no request.
		"range-call-1-created": {verify.Unaccounted, 3},
		// continues.checkpoint is a note or null.
		"cont-cp-garbage": {verify.Malformed, 1},
		// The cost step comes before the run's, also for a run that never began.
		"closed-no-open-totals": {verify.CostMismatch, 2},
		// A malformed body line in front of a missing trailer.
		"body-malformed-no-trailer": {verify.Malformed, 42},
	}
	files, err := filepath.Glob(filepath.Join("testdata", "found", "*.jsonl"))
	if err != nil || len(files) != len(cases) {
		t.Fatalf("%d files for %d cases: %v", len(files), len(cases), err)
	}
	for name, want := range cases {
		r, err := verify.File(t.Context(), filepath.Join("testdata", "found", name+".jsonl"), verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := r.Deciding(); f == nil || f.Verdict != want.verdict || f.Seq != want.seq {
			t.Errorf("%s: %+v, want %s at %d", name, f, want.verdict, want.seq)
		}
	}
}
