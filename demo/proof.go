package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	s.head("Verified offline; docketd is stopped")
	for _, name := range []string{exportName, snapshotName} {
		out, err := s.cli.must(ctx, "verify", s.path(name))
		if err != nil {
			return err
		}
		s.show("docket verify "+name, out)
		if err := s.settle(ctx, name); err != nil {
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
	if err := compareRows(s.rows, s.served, providers); err != nil {
		return err
	}
	if err := s.compareEnds(); err != nil {
		return err
	}
	s.say("")
	s.say("the provider's own list   %d calls, USD %s, %d unpriced, %d estimated", s.bill.Calls, s.bill.CostUSD, s.bill.Unpriced, s.bill.Estimated)
	s.say("the ledger, by verify     the same to the last digit, in both files, and call by call")
	return nil
}

// settle demands that verify finds a file intact, and the sums of the bill.
func (s *story) settle(ctx context.Context, name string) error {
	bill := s.bill
	rep, code, err := s.cli.verify(ctx, s.path(name))
	if err != nil {
		return err
	}
	if code != exitIntact || rep.Verdict != "intact" || len(rep.Faults) > 0 {
		return fmt.Errorf("verify %s: %s, exit code %d, faults %v; it should be intact", name, rep.Verdict, code, rep.Faults)
	}
	got := loopback.Total{Calls: bill.Calls, Unpriced: rep.Unpriced, Estimated: rep.Estimated, CostUSD: rep.CostUSD}
	if got != bill {
		return fmt.Errorf("verify %s: USD %s, %d unpriced, %d estimated; the provider served USD %s, %d unpriced, %d estimated",
			name, rep.CostUSD, rep.Unpriced, rep.Estimated, bill.CostUSD, bill.Unpriced, bill.Estimated)
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
		human, err := s.cli.run(ctx, "verify", s.path(changed))
		if err != nil {
			return err
		}
		s.show("docket verify "+changed, human.stdout)
		rep, code, err := s.cli.verify(ctx, s.path(changed))
		if err != nil {
			return err
		}
		if code != exitAltered || rep.Verdict != "altered" || len(rep.Faults) == 0 || rep.Faults[0].Seq != victim.Seq || rep.Faults[0].Verdict != "altered" {
			return fmt.Errorf("verify %s: %s, exit code %d, faults %v; it should be altered at event %d", changed, rep.Verdict, code, rep.Faults, victim.Seq)
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
