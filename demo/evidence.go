package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docket-audit/docket/demo/loopback"
)

// row is an event of an export, as far as the demo looks at it.
type row struct {
	header []byte // as it stands in the line
	ended  string // of the content
	Seq    uint64 `json:"seq"`
	Meter  *struct {
		Model    string            `json:"model"`
		Provider string            `json:"provider"`
		Source   string            `json:"source"`
		Usage    map[string]uint64 `json:"usage"`
		CostUSD  *string           `json:"cost_usd"`
	} `json:"meter"`
	Parts map[string]struct {
		Bytes int `json:"bytes"`
	} `json:"parts"`
}

// readExport reads the events of an export.
func readExport(export []byte) ([]row, error) {
	var rows []row
	for n, line := range bytes.Split(bytes.TrimSuffix(export, []byte("\n")), []byte("\n")) {
		var l struct {
			Header  json.RawMessage `json:"header"`
			Content struct {
				Ended string `json:"ended"`
			} `json:"content"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("read export, line %d: %w", n+1, err)
		}
		if l.Header == nil {
			continue // the trailer
		}
		r := row{header: l.Header, ended: l.Content.Ended}
		if err := json.Unmarshal(l.Header, &r); err != nil {
			return nil, fmt.Errorf("read export, line %d: %w", n+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// entry spells what a call was: what the provider's list and the ledger have
// to agree on, call by call.
func entry(provider, model, source string, usage map[string]uint64, cost *string, response int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", provider, model, source)
	for _, class := range slices.Sorted(maps.Keys(usage)) {
		if usage[class] > 0 {
			fmt.Fprintf(&b, " %s=%d", class, usage[class])
		}
	}
	if cost == nil {
		b.WriteString(" unpriced")
	} else {
		b.WriteString(" $" + *cost)
	}
	fmt.Fprintf(&b, ", %d bytes", response)
	return b.String()
}

// compareRows says where the rows of the ledger and the provider's list differ.
func compareRows(rows []row, served []loopback.Served, provider map[string]string) error {
	counts := map[string]int{}
	for _, s := range served {
		w := s.Call.Case.Want
		counts[entry(provider[s.Call.Upstream], w.Model, w.Source, w.Usage, w.CostUSD, len(s.Response))]++
	}
	for _, r := range rows {
		if m := r.Meter; m != nil {
			counts[entry(m.Provider, m.Model, m.Source, m.Usage, m.CostUSD, r.Parts["response"].Bytes)]--
		}
	}
	var faults []error
	for _, e := range slices.Sorted(maps.Keys(counts)) {
		switch n := counts[e]; {
		case n > 0:
			faults = append(faults, fmt.Errorf("the provider served, and the ledger lacks: %s", e))
		case n < 0:
			faults = append(faults, fmt.Errorf("the ledger has, and the provider did not serve: %s", e))
		}
	}
	return errors.Join(faults...)
}

// compareCalls compares what each client saw with what the provider saw.
func compareCalls(results []result, served []loopback.Served) error {
	byID := map[int]loopback.Served{}
	for _, s := range served {
		byID[s.Call.ID] = s
	}
	var faults []error
	for _, r := range results {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("call %d (%s): %s", r.call.ID, r.call.Case.ID, fmt.Sprintf(format, args...)))
		}
		s, ok := byID[r.call.ID]
		if !ok {
			fault("the provider did not serve it: %v", r.err)
			continue
		}
		if r.status != r.call.Case.Status {
			fault("the client got status %d, not %d: %v", r.status, r.call.Case.Status, r.err)
		}
		if r.left != (r.call.End == loopback.EndClient) {
			fault("the client should have left in the middle: %v", r.err)
		}
		if r.call.End == loopback.EndCut && r.err == nil {
			fault("the provider broke off, and the client was not told")
		}
		if err := compareBodies(r, s); err != nil {
			fault("%v", err)
		}
	}
	return errors.Join(faults...)
}

// addsUsage says whether docket has to ask for the usage of a call.
func addsUsage(c *loopback.Call) bool {
	return c.Case.Endpoint == loopback.EndpointChat && c.Case.Stream && !c.AsksUsage
}

// compareBodies demands the same bytes on both sides, but for a stream for
// which docket asked for the usage: there the request says so, and the client
// reads the same text and no chunk that it did not ask for.
func compareBodies(r result, s loopback.Served) error {
	if !addsUsage(r.call) {
		if !bytes.Equal(r.sent, s.Request) {
			return fmt.Errorf("the request changed on its way: %q became %q", r.sent, s.Request)
		}
		if !bytes.Equal(r.received, s.Response) {
			return fmt.Errorf("the answer changed on its way: %d bytes became %d", len(s.Response), len(r.received))
		}
		return nil
	}
	var sent, got map[string]any
	if err := errors.Join(json.Unmarshal(r.sent, &sent), json.Unmarshal(s.Request, &got)); err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	delete(got, "stream_options")
	a, err1 := json.Marshal(sent)
	b, err2 := json.Marshal(got)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("more than the usage was added to the request: %s became %s", r.sent, s.Request)
	}
	if want := readCompletion(recordedCompletion(r.call.Case), 0).text; r.text != want || r.usage {
		return fmt.Errorf("the client read %q, usage chunk %v; it should have read %q and none", r.text, r.usage, want)
	}
	return nil
}
