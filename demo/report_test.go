package main

import (
	"strings"
	"testing"

	"github.com/docket-audit/docket/demo/loopback"
)

func TestSizeOf(t *testing.T) {
	if n, err := sizeOf([]byte("docketd.ledger/1/ab\n135\nroot=\n\n— name sig\n")); n != 135 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	for _, bad := range []string{"", "docketd.ledger/1/ab\n135", "docketd.ledger/1/ab\nmany\nroot\n"} {
		if n, err := sizeOf([]byte(bad)); err == nil {
			t.Errorf("%q: size %d", bad, n)
		}
	}
}

func TestSettle(t *testing.T) {
	s := &story{size: 9, bill: loopback.Total{Calls: 3, Unpriced: 1, Estimated: 1, CostUSD: "0.5"}}
	for _, tt := range []struct {
		name   string
		change func(*report)
		want   string
	}{
		{"as it should be", func(*report) {}, ""},
		{"exit code", func(r *report) { r.code = 10 }, "should be intact"},
		{"verdict", func(r *report) { r.Verdict = "torn" }, "should be intact"},
		{"fault", func(r *report) { r.Faults = []fault{{Verdict: "altered"}} }, "should be intact"},
		{"no anchor", func(r *report) { r.Anchored = false }, "should be proven"},
		{"too little proven", func(r *report) { r.Proven = [][2]uint64{{1, 8}} }, "should be proven"},
		{"cost", func(r *report) { r.CostUSD = "0.50001" }, "the provider served USD 0.5"},
		{"unpriced", func(r *report) { r.Unpriced = 0 }, "the provider served"},
		{"estimated", func(r *report) { r.Estimated = 2 }, "the provider served"},
		{"open call", func(r *report) { r.OpenCalls = 1 }, "1 calls are open"},
	} {
		r := report{Verdict: "intact", Anchored: true, Proven: [][2]uint64{{1, 9}}, CostUSD: "0.5", Unpriced: 1, Estimated: 1}
		tt.change(&r)
		if err := s.settle("f", r); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

func TestFound(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*report)
		ok     bool
	}{
		{"as it should be", func(*report) {}, true},
		{"exit code", func(r *report) { r.code = 0 }, false},
		{"verdict", func(r *report) { r.Verdict = "malformed" }, false},
		{"no place", func(r *report) { r.Faults = nil }, false},
		{"other place", func(r *report) { r.Faults[0].Seq = 6 }, false},
		{"other fault", func(r *report) { r.Faults[0].Verdict = "missing" }, false},
		{"proven", func(r *report) { r.Proven = [][2]uint64{{1, 9}} }, false},
	} {
		r := report{code: 10, Verdict: "altered", Faults: []fault{{Verdict: "altered", Seq: 5}}, Proven: [][2]uint64{{1, 4}, {6, 9}}}
		tt.change(&r)
		if err := found(r, 5); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
