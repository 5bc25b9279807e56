package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docket-audit/docket/verify"
)

// maxShown is how many faults and notes are shown to people; --json has all
// that the report has.
const maxShown = 20

// printReport prints a report for people: the verdict and what it means first,
// then where and what is at fault, what holds all the same, and what was not
// checked. With quiet it is the verdict alone.
func printReport(w io.Writer, r *verify.Report, quiet bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s\n", r.Verdict, place(r))
	if !quiet {
		printFaults(&b, r)
		printFacts(&b, r)
		printChecks(&b, r)
		printNotes(&b, r)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// place is the deciding fault, or what an intact verdict rests on.
func place(r *verify.Report) string {
	if f := r.Deciding(); f != nil {
		return " at event " + faultText(*f)
	}
	if r.Anchored {
		return ": all that was given holds, and fits what was expected"
	}
	return ": consistent with itself; no anchor from outside was given, so a rewritten ledger or a cut end would not show"
}

func faultText(f verify.Fault) string {
	s := fmt.Sprint(f.Seq)
	if f.To > f.Seq {
		s += fmt.Sprintf(" to %d", f.To)
	}
	if f.Run != "" {
		s += " of run " + clean(f.Run)
	}
	return s + ": " + clean(f.Detail)
}

func printFaults(b *bytes.Buffer, r *verify.Report) {
	if r.FaultsFound < 2 {
		return
	}
	fmt.Fprintf(b, "\n%d faults:\n", r.FaultsFound)
	for _, f := range r.Faults[:min(len(r.Faults), maxShown)] {
		fmt.Fprintf(b, "  %s at event %s\n", f.Verdict, faultText(f))
	}
	if r.FaultsFound > maxShown {
		fmt.Fprintf(b, "  and %d more\n", r.FaultsFound-maxShown)
	}
}

func printFacts(b *bytes.Buffer, r *verify.Report) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-12s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintln(b)
	row("given", "%s", r.Kind)
	if r.Kind == verify.KindUnknown {
		return
	}
	if r.Ledger != "" {
		row("ledger", "%s", r.Ledger)
	}
	row("events", "%d, from number %d", r.Events, r.First)
	if r.Head != "" {
		row("head", "%s", r.Head)
	}
	if r.Root != nil {
		row("root", "%s", *r.Root)
	}
	row("cost", "%s USD, recomputed; %d calls unpriced, %d estimated, %d open", r.CostUSD, r.Unpriced, r.Estimated, r.OpenCalls)
	row("content", "%d withheld, %d erased", r.Withheld, r.Erased)
	row("consistent", "%s", ranges(r.Consistent))
	row("proven", "%s", ranges(r.Proven))
}

// ranges spells ranges of numbers.
func ranges(list [][2]uint64) string {
	if len(list) == 0 {
		return "none"
	}
	var words []string
	for _, x := range list[:min(len(list), maxShown)] {
		if x[0] == x[1] {
			words = append(words, fmt.Sprint(x[0]))
			continue
		}
		words = append(words, fmt.Sprintf("%d to %d", x[0], x[1]))
	}
	if len(list) > maxShown {
		words = append(words, fmt.Sprintf("and %d more", len(list)-maxShown))
	}
	return strings.Join(words, ", ")
}

// printChecks lists what was checked and what was not: a check that was not
// made never stands among those that passed.
func printChecks(b *bytes.Buffer, r *verify.Report) {
	by := map[verify.Result][]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Checks)) {
		c := r.Checks[name]
		by[c.Result] = append(by[c.Result], name)
	}
	for _, x := range []struct {
		result verify.Result
		name   string
	}{{verify.Pass, "checked"}, {verify.Fail, "failed"}} {
		if len(by[x.result]) > 0 {
			fmt.Fprintf(b, "  %-12s %s\n", x.name, strings.Join(by[x.result], ", "))
		}
	}
	for _, result := range []verify.Result{verify.Pass, verify.Skip} {
		for _, name := range by[result] {
			if reason := r.Checks[name].Reason; reason != "" || result == verify.Skip {
				fmt.Fprintf(b, "  %-12s %s: %s\n", "not checked", name, clean(reason))
			}
		}
	}
}

func printNotes(b *bytes.Buffer, r *verify.Report) {
	for _, n := range r.Notes[:min(len(r.Notes), maxShown)] {
		fmt.Fprintf(b, "  %-12s %s\n", "note", clean(n))
	}
	if len(r.Notes) > maxShown {
		fmt.Fprintf(b, "  %-12s and %d more; --json has all\n", "note", len(r.Notes)-maxShown)
	}
}
