package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// report is what docket verify --json prints, as far as the demo looks at it.
type report struct {
	Verdict   string      `json:"verdict"`
	CostUSD   string      `json:"cost_usd"`
	Unpriced  int         `json:"unpriced"`
	Estimated int         `json:"estimated"`
	OpenCalls int         `json:"open_calls"`
	Anchored  bool        `json:"anchored"`
	Proven    [][2]uint64 `json:"proven"` // ranges, first and last
	Faults    []fault     `json:"faults"`
	code      int         // exit code
}

type fault struct {
	Verdict string `json:"verdict"`
	Seq     uint64 `json:"seq"`
	Detail  string `json:"detail"`
}

// verifier holds what an auditor has beside the files: the public key, and a
// checkpoint that was taken when the run was closed.
type verifier struct{ checkpoint, vkey string }

func (v verifier) args(file string) []string {
	return []string{"verify", file, "--expect", v.checkpoint, "--vkey", v.vkey}
}

// verify asks docket about a file: once for people, and once for programs.
func (c command) verify(ctx context.Context, v verifier, file string) (human []byte, rep report, err error) {
	told, err := c.run(ctx, v.args(file)...)
	if err != nil {
		return nil, rep, err
	}
	r, err := c.run(ctx, append(v.args(file), "--json")...)
	if err != nil {
		return nil, rep, err
	}
	if err := json.Unmarshal(r.stdout, &rep); err != nil {
		return nil, rep, fmt.Errorf("docket verify %s: read its report: %w: %s%s", file, err, r.stdout, r.stderr)
	}
	if rep.code = r.code; told.code != r.code {
		return nil, rep, fmt.Errorf("docket verify %s: exit code %d, with --json %d", file, told.code, r.code)
	}
	return told.stdout, rep, nil
}

// sizeOf is how many events a checkpoint covers: the second line of its note.
func sizeOf(note []byte) (uint64, error) {
	lines := bytes.SplitN(note, []byte("\n"), 3)
	if len(lines) < 3 {
		return 0, fmt.Errorf("read checkpoint: it has %d lines", len(lines))
	}
	size, err := strconv.ParseUint(string(lines[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read checkpoint: %w", err)
	}
	return size, nil
}
