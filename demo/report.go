package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// report is what docket verify --json prints, as far as the demo looks at it.
type report struct {
	Verdict   string  `json:"verdict"`
	Events    int     `json:"events"`
	CostUSD   string  `json:"cost_usd"`
	Unpriced  int     `json:"unpriced"`
	Estimated int     `json:"estimated"`
	OpenCalls int     `json:"open_calls"`
	Faults    []fault `json:"faults"`
}

type fault struct {
	Verdict string `json:"verdict"`
	Seq     uint64 `json:"seq"`
	Run     string `json:"run"`
	Detail  string `json:"detail"`
}

// verify asks docket about a file, and gives its exit code with its report.
func (c command) verify(ctx context.Context, file string) (report, int, error) {
	r, err := c.run(ctx, "verify", file, "--json")
	if err != nil {
		return report{}, 0, err
	}
	var rep report
	if err := json.Unmarshal(r.stdout, &rep); err != nil {
		return report{}, 0, fmt.Errorf("docket verify %s: read its report: %w: %s%s", file, err, r.stdout, r.stderr)
	}
	return rep, r.code, nil
}
