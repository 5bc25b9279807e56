package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docket-audit/docket/demo/loopback"
)

// options are what a demo needs.
type options struct {
	docket, docketd string // the programs
	cases           string // file of the golden cases
	seed            uint64
	workers         int
	dir             string // an empty folder for all that it makes
	out             io.Writer
}

// story is a demo on its way. Each step is a method; a step that doesn't find
// what it has to find returns an error, and the demo ends there.
type story struct {
	options
	cli command
	plan
	provider *loopback.Provider
	service  *service
	run      run
	step     int

	results []result
	served  []loopback.Served
	bill    loopback.Total // of served
	rows    []row
	auditor verifier
	size    uint64 // events that the auditor's checkpoint covers
}

// files of a demo, in its folder.
const (
	exportName     = "export.jsonl"
	snapshotName   = "snapshot.db"
	checkpointName = "checkpoint.note"
	vkeyName       = "docketd.vkey"
	logName        = "docketd.log"
)

func (s *story) path(name string) string { return filepath.Join(s.dir, name) }

func (s *story) head(format string, args ...any) {
	s.step++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.step, fmt.Sprintf(format, args...))
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.out, "   %s\n", fmt.Sprintf(format, args...))
}

// show prints what a command said, behind the command as one would type it.
func (s *story) show(cmd string, output []byte) {
	s.say("$ %s", cmd)
	for line := range strings.Lines(string(output)) {
		s.say("%s", strings.TrimRight(line, "\n"))
	}
}

// tell runs the whole demo.
func tell(ctx context.Context, o options) (err error) {
	cases, err := loopback.Load(o.cases)
	if err != nil {
		return err
	}
	data := filepath.Join(o.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	s := &story{options: o, plan: makePlan(cases, o.seed), cli: command{docket: o.docket, dir: data}}
	if s.provider, err = loopback.New(o.seed, s.calls); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.provider.Close()) }()
	if err := s.configure(data, s.provider.URL()); err != nil {
		return err
	}
	s.head("A provider on this machine, and docketd in front of it")
	if s.service, err = startService(o.docketd, data, s.path(logName)); err != nil {
		return err
	}
	s.say("provider  %s: %d golden answers of testdata/billing/cases.json, in random cuts, seed %d", s.provider.URL(), len(cases), o.seed)
	s.say("docketd   %s: new ledger %s", s.service.listen, filepath.Join(data, "ledger.db"))
	err = s.whileServed(ctx)
	if stopErr := s.service.stop(); err != nil || stopErr != nil {
		return errors.Join(err, stopErr)
	}
	return s.afterwards(ctx)
}

// whileServed are the steps that need the service.
func (s *story) whileServed(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.callModels, s.timeline, s.costs, s.collect} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// afterwards are the steps that need nothing but the files.
func (s *story) afterwards(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.proof, s.secrets, s.tampering} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) callModels(ctx context.Context) error {
	s.head("A run, and agents with the vendors' own SDKs")
	var err error
	if s.run, err = s.service.openRun(ctx, "first flight"); err != nil {
		return err
	}
	s.provider.Forbid(s.run.Token)
	at, err := s.endpoints(s.run.BaseURLs)
	if err != nil {
		return err
	}
	anthropic := s.count(func(c loopback.Call) bool { return c.Case.Endpoint == loopback.EndpointMessages })
	streams := s.count(func(c loopback.Call) bool { return c.Case.Stream })
	s.say("run %s, %d agents at once, %d calls:", s.run.ID, s.workers, len(s.calls))
	s.say("%d by anthropic-sdk-go, %d by openai-go; %d plain, %d streamed", anthropic, len(s.calls)-anthropic, len(s.calls)-streams, streams)
	start := time.Now()
	s.results = askAll(ctx, s.calls, at, s.workers)
	took := time.Since(start)
	if err := s.closeRun(ctx); err != nil {
		return err
	}
	s.served = s.provider.List()
	if s.bill, err = loopback.Bill(s.served); err != nil {
		return err
	}
	if faults := s.provider.Faults(); len(faults) > 0 {
		return fmt.Errorf("the provider found fault with what reached it:\n%s", strings.Join(faults, "\n"))
	}
	if err := compareCalls(s.results, s.served); err != nil {
		return err
	}
	s.say("done in %.1f s: %d answers whole, %d broken off by the provider, %d left by the client", took.Seconds(),
		s.count(func(c loopback.Call) bool { return c.End == "" }),
		s.count(func(c loopback.Call) bool { return c.End == loopback.EndCut }),
		s.count(func(c loopback.Call) bool { return c.End == loopback.EndClient }))
	s.say("bodies are the same bytes at client and provider; for %d streams docketd asked for the usage, which the client didn't see",
		s.count(func(c loopback.Call) bool { return addsUsage(&c) }))
	return nil
}

// closeRun lets an agent say what it did besides, and ends the run.
func (s *story) closeRun(ctx context.Context) error {
	const did = `{"name":"write_file","arguments":{"path":"summary.md"}}`
	if _, err := s.cli.must(ctx, "append", "--type", "tool.call", "--run", s.run.ID, "--content", did); err != nil {
		return err
	}
	if err := s.service.closeRun(ctx, s.run.ID); err != nil {
		return err
	}
	return s.provider.Close()
}

// shown is how much of the timeline is printed at each end.
const shown = 8

func (s *story) timeline(ctx context.Context) error {
	s.head("What happened")
	out, err := s.cli.must(ctx, "log")
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(out, []byte("\n"))
	if len(lines) > 2*shown+1 {
		left := fmt.Sprintf("… %d lines more …\n", len(lines)-2*shown-1)
		lines = append(append(lines[:shown:shown], []byte(left)), lines[len(lines)-shown-1:]...)
	}
	s.show("docket log", bytes.Join(lines, nil))
	return nil
}

func (s *story) costs(ctx context.Context) error {
	s.head("What it cost")
	out, err := s.cli.must(ctx, "cost", "--by", "model")
	if err != nil {
		return err
	}
	s.show("docket cost --by model", out)
	if out, err = s.cli.must(ctx, "cost", "--by", "model", "--json"); err != nil {
		return err
	}
	var told struct{ Total costTotal }
	if err := json.Unmarshal(out, &told); err != nil {
		return fmt.Errorf("docket cost: read its report: %w", err)
	}
	return told.Total.against(s.bill)
}

// costTotal is the last line of docket cost.
type costTotal struct {
	Calls     int    `json:"calls"`
	Failed    int    `json:"failed"`
	Unpriced  int    `json:"unpriced"`
	Estimated int    `json:"estimated"`
	CostUSD   string `json:"cost_usd"`
}

func (t costTotal) against(bill loopback.Total) error {
	if got := (loopback.Total{Calls: t.Calls, Unpriced: t.Unpriced, Estimated: t.Estimated, CostUSD: t.CostUSD}); got != bill || t.Failed != 0 {
		return fmt.Errorf("docket cost says %+v, the provider served %+v", t, bill)
	}
	return nil
}

// collect takes the evidence out of the service: first the checkpoint, which an
// auditor would get at the time and keep, then what it is held against.
func (s *story) collect(ctx context.Context) error {
	s.head("Evidence to hand out: a checkpoint, an export, a copy of the file")
	for _, args := range [][]string{{"checkpoint", "-o", checkpointName}, {"export", "-o", exportName}, {"snapshot", snapshotName}} {
		name := args[len(args)-1]
		typed := strings.Join(args, " ")
		args[len(args)-1] = s.path(name)
		if _, err := s.cli.must(ctx, args...); err != nil {
			return err
		}
		info, err := os.Stat(s.path(name))
		if err != nil {
			return fmt.Errorf("docket %s left no file: %w", args[0], err)
		}
		s.say("$ docket %s    (%d bytes)", typed, info.Size())
	}
	s.auditor = verifier{checkpoint: s.path(checkpointName), vkey: filepath.Join(s.service.dir, vkeyName)}
	note, err := os.ReadFile(s.auditor.checkpoint)
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	if s.size, err = sizeOf(note); err != nil {
		return err
	}
	s.say("the checkpoint signs events 1 to %d; an auditor keeps it", s.size)
	return nil
}
