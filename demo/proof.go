package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docket-audit/docket/demo/loopback"
)

// Exit codes of docket verify that the demo expects.
const (
	exitIntact  = 0
	exitAltered = 10
)

// proof verifies both files with no service, and holds the cost against the
// provider's own list: as a sum, and call by call.
func (s *story) proof(ctx context.Context) error {
	s.head("Verified with docketd stopped, against the checkpoint and the public key")
	for _, name := range []string{exportName, snapshotName} {
		human, rep, err := s.cli.verify(ctx, s.auditor, s.path(name))
		if err != nil {
			return err
		}
		s.showVerify(name, human, rep, name == exportName)
		if err := s.settle(name, rep); err != nil {
			return err
		}
	}
	export, err := os.ReadFile(s.path(exportName))
	if err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	if s.rows, err = readExport(export); err != nil {
		return err
	}
	providers := map[string]string{}
	for _, u := range s.arrange.Upstreams {
		providers[u.Name] = u.Provider
	}
	if err := errors.Join(compareRows(s.rows, s.served, providers), s.compareEnds()); err != nil {
		return err
	}
	s.say("")
	s.say("the provider's own list   %d calls, USD %s, %d unpriced, %d estimated", s.bill.Calls, s.bill.CostUSD, s.bill.Unpriced, s.bill.Estimated)
	s.say("the ledger, by verify     the same to the last digit, in both files, and call by call")
	return nil
}

// showVerify prints what verify said for people, or its first line.
func (s *story) showVerify(name string, human []byte, rep report, whole bool) {
	if first, rest, ok := bytes.Cut(human, []byte("\n")); ok && !whole {
		human = fmt.Appendf(nil, "%s\n(exit code %d; %d more lines of report)\n", first, rep.code, bytes.Count(rest, []byte("\n")))
	}
	s.show(fmt.Sprintf("docket verify %s --expect %s --vkey %s", name, checkpointName, vkeyName), human)
}

// settle demands that verify found a file intact and proven up to the
// checkpoint, with the sums of the provider's list.
func (s *story) settle(name string, rep report) error {
	if rep.code != exitIntact || rep.Verdict != "intact" || len(rep.Faults) > 0 {
		return fmt.Errorf("verify %s: %s, exit code %d, faults %v; it should be intact", name, rep.Verdict, rep.code, rep.Faults)
	}
	if !rep.Anchored || !slices.Equal(rep.Proven, [][2]uint64{{1, s.size}}) {
		return fmt.Errorf("verify %s: anchored %v, proven %v; it should be proven up to event %d, as the checkpoint says", name, rep.Anchored, rep.Proven, s.size)
	}
	got := loopback.Total{Calls: s.bill.Calls, Unpriced: rep.Unpriced, Estimated: rep.Estimated, CostUSD: rep.CostUSD}
	if got != s.bill {
		return fmt.Errorf("verify %s: USD %s, %d unpriced, %d estimated; the provider served USD %s, %d unpriced, %d estimated",
			name, rep.CostUSD, rep.Unpriced, rep.Estimated, s.bill.CostUSD, s.bill.Unpriced, s.bill.Estimated)
	}
	if rep.OpenCalls != 0 {
		return fmt.Errorf("verify %s: %d calls are open; all were settled", name, rep.OpenCalls)
	}
	return nil
}

// compareEnds demands that the breaks and the leaving clients are on record.
// An SDK may hang up right behind the last event of a stream, before the end
// of the body: such a call counts as left, too.
func (s *story) compareEnds() error {
	ends := map[string]int{}
	for _, r := range s.rows {
		if r.Meter != nil {
			ends[r.ended]++
		}
	}
	cut := s.count(func(c loopback.Call) bool { return c.End == loopback.EndCut })
	left := s.count(func(c loopback.Call) bool { return c.End == loopback.EndClient })
	if ends["cut"] != cut || ends["client"] < left || ends["stopped"] != 0 {
		return fmt.Errorf("the ledger has calls that ended %v; %d were cut by the provider, %d clients left", ends, cut, left)
	}
	return nil
}

// secrets searches everything that was written for the keys and the run token.
func (s *story) secrets(context.Context) error {
	s.head("Keys stay out")
	secrets := []string{s.run.Token}
	for _, key := range s.keys {
		secrets = append(secrets, key)
	}
	var files, found []string
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, d.Name())
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				found = append(found, path)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("search for secrets: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("a key or the run token stands in %s", strings.Join(found, ", "))
	}
	s.say("%d files searched, the ledger and docketd's log among them: neither API key nor run token stands in any", len(files))
	return nil
}

// tampering changes one byte of each file, and demands that verify says so and
// where: in the cost of one call, in the middle of the ledger.
func (s *story) tampering(ctx context.Context) error {
	s.head("One byte changed: the cost of one call")
	victim, err := s.victim()
	if err != nil {
		return err
	}
	for _, name := range []string{exportName, snapshotName} {
		file, err := os.ReadFile(s.path(name))
		if err != nil {
			return fmt.Errorf("read evidence: %w", err)
		}
		var c change
		if name == exportName {
			c, err = inExport(file, victim.header)
		} else {
			c, err = inDatabase(s.path(name), victim.Seq, victim.header)
		}
		if err != nil {
			return err
		}
		changed := "changed-" + name
		if err := c.write(file, s.path(changed)); err != nil {
			return err
		}
		s.say("byte %d of %s, in event %d: %q becomes %q", c.offset, changed, victim.Seq, c.from, c.to)
		human, rep, err := s.cli.verify(ctx, s.auditor, s.path(changed))
		if err != nil {
			return err
		}
		s.showVerify(changed, human, rep, false)
		if err := found(rep, victim.Seq); err != nil {
			return fmt.Errorf("verify %s: %w", changed, err)
		}
	}
	return nil
}

// found demands that verify told the change, and its place.
func found(rep report, seq uint64) error {
	if rep.code != exitAltered || rep.Verdict != "altered" || len(rep.Faults) == 0 || rep.Faults[0].Seq != seq || rep.Faults[0].Verdict != "altered" {
		return fmt.Errorf("%s, exit code %d, faults %v; it should be altered at event %d", rep.Verdict, rep.code, rep.Faults, seq)
	}
	for _, r := range rep.Proven {
		if r[0] <= seq && seq <= r[1] {
			return fmt.Errorf("the changed event %d is told to be proven", seq)
		}
	}
	return nil
}

// victim is the priced call in the middle of the ledger.
func (s *story) victim() (row, error) {
	var priced []row
	for _, r := range s.rows {
		if r.Meter != nil && r.Meter.CostUSD != nil && *r.Meter.CostUSD != "0" {
			priced = append(priced, r)
		}
	}
	if len(priced) == 0 {
		return row{}, errors.New("no call in the ledger has a cost")
	}
	return priced[len(priced)/2], nil
}
