package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// demands says, for each type that docs/format.md names and for two open
// ones, which of the bound members it has to have. It has no other of them,
// but for run, which may stand anywhere.
var demands = map[string]string{
	"ledger.created":    "",
	"ledger.checkpoint": "note",
	"ledger.erased":     "erased",
	"ledger.anchored":   "",
	"ledger.sealed":     "",
	"model.request":     "run",
	"model.response":    "call meter run",
	"model.failed":      "call run",
	"model.refused":     "run",
	"run.opened":        "run",
	"run.closed":        "run totals",
	"lock.acquired":     "actor",
	"lock.renewed":      "actor",
	"lock.released":     "actor",
	"lock.expired":      "actor",
	"lock.lost":         "actor",
	"lock.refused":      "actor",
	"cap.set":           "cap",
	"cap.exceeded":      "cap",
	"key.rotated":       "keys note",
	"service.started":   "",
	"tool.call":         "",
}

// boundTexts are good values of the bound members.
var boundTexts = map[string]string{
	"actor":  `{"context":"c","fence":4,"pass":"p","role":"r"}`,
	"call":   `8`,
	"cap":    `{"limit_usd":"1","scope":"ledger"}`,
	"erased": `{"parts":[],"seqs":[2]}`,
	"keys":   `["` + key1 + `"]`,
	"meter":  `{"model":"m","prices":{},"provider":"p","source":"none","usage":{}}`,
	"note":   `"n"`,
	"run":    `"run-1"`,
	"totals": `{"calls":0,"cost_usd":"0","failed":0,"unpriced":0}`,
}

func boundText(typ, name string) string {
	switch {
	case typ == "lock.refused" && name == "actor":
		return `{"context":"c","pass":"p","role":"r"}`
	case typ == "cap.exceeded" && name == "cap":
		return `{"limit_usd":"1","scope":"ledger","spent_usd":"1"}`
	}
	return boundTexts[name]
}

func with(t *testing.T, header, typ, name string) string {
	header = edit(t, header, "/"+name, boundText(typ, name))
	if name == "run" {
		header = edit(t, header, "/run_seq", "1")
	}
	return header
}

func TestBoundMembers(t *testing.T) {
	if want := chain.ClosedTypes(); len(want)+2 != len(demands) {
		t.Errorf("%d types in this table, the package knows %v", len(demands), want)
	}
	for typ, list := range demands {
		must := strings.Fields(list)
		header := edit(t, bare, "/type", `"`+typ+`"`)
		if typ == "ledger.created" {
			header = edit(t, header, "/seq", "1")
		}
		for _, name := range must {
			header = with(t, header, typ, name)
		}
		if err := parseHeader(header); err != nil {
			t.Errorf("%s with exactly %v: %v", typ, must, err)
		}
		for name := range boundTexts {
			what := fmt.Sprintf("%s, %s", typ, name)
			switch {
			case slices.Contains(must, name):
				without := edit(t, header, "/"+name, "")
				if name == "run" {
					without = edit(t, without, "/run_seq", "")
				}
				mustRefuse(t, what, parseHeader(without), "/"+name, "missing on "+typ)
			case name == "run", name == "actor":
				if err := parseHeader(with(t, header, typ, name)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			default:
				mustRefuse(t, what, parseHeader(with(t, header, typ, name)), "/"+name, "has no place on "+typ)
			}
		}
	}
}

func TestLockEvents(t *testing.T) {
	for typ, list := range demands {
		if list != "actor" {
			continue
		}
		header := edit(t, bare, "/type", `"`+typ+`"`)
		fenced := edit(t, header, "/actor", boundTexts["actor"])
		free := edit(t, header, "/actor", boundText("lock.refused", "actor"))
		if typ == "lock.refused" {
			fenced, free = free, fenced
			mustRefuse(t, typ, parseHeader(free), "/actor/fence", "has no place on "+typ)
		} else {
			mustRefuse(t, typ, parseHeader(free), "/actor/fence", "missing on "+typ)
		}
		if err := parseHeader(fenced); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestCreatedIsEventOne(t *testing.T) {
	mustRefuse(t, "seq 1", parseHeader(edit(t, bare, "/seq", "1")), "/type", "ledger.created is event 1 and no other")
	mustRefuse(t, "seq 2", parseHeader(edit(t, bare, "/seq", "2", "/type", `"ledger.created"`)), "/type", "ledger.created is event 1 and no other")
}

// TestCapScopes tries every set of members in every scope on both types:
// docs/format.md, section 6. In the table, + is demanded, ? may be there, and
// - has no place.
func TestCapScopes(t *testing.T) {
	names := []string{"context", "limit_usd", "period", "role", "run", "spent_usd"}
	values := map[string]string{"context": `"c"`, "limit_usd": `"1.5"`, "role": `"r"`, "run": `"x"`, "spent_usd": `"2"`}
	rules := map[string]map[string]string{
		//                               context limit period role run spent
		"cap.set": {
			"ledger": "-?----", "day": "-?----", "month": "-?----",
			"run": "-?--?-", "role": "-?-+--", "context": "+?-+--",
		},
		"cap.exceeded": {
			"ledger": "-+---+", "day": "-++--+", "month": "-++--+",
			"run": "-+--++", "role": "-+-+-+", "context": "++-+-+",
		},
	}
	for typ, scopes := range rules {
		for scope, rule := range scopes {
			values["period"] = `"2026-11-30"`
			if scope == "month" {
				values["period"] = `"2026-11"`
			}
			for set := range 1 << len(names) {
				header := edit(t, bare, "/type", `"`+typ+`"`, "/cap", `{"scope":"`+scope+`"}`)
				var wrong []string
				for i, name := range names {
					has := set>>i&1 == 1
					if has {
						header = edit(t, header, "/cap/"+name, values[name])
					}
					if has && rule[i] == '-' {
						wrong = append(wrong, "/cap/"+name+": has no place in "+typ+" of scope "+scope)
					}
					if !has && rule[i] == '+' {
						wrong = append(wrong, "/cap/"+name+": missing in "+typ+" of scope "+scope)
					}
				}
				err := parseHeader(header)
				if (err == nil) != (len(wrong) == 0) || err != nil && !slices.Contains(wrong, err.Error()) {
					t.Errorf("%s: %v, want one of %q", header, err, wrong)
				}
			}
		}
	}
}

func TestCapValues(t *testing.T) {
	full := fullHeaders(t)
	mustRefuse(t, "scope", parseHeader(edit(t, full["cap.set"], "/cap/scope", `"week"`)), "/cap/scope", "not ledger, day, month, run, role or context")
	day := full["cap.exceeded day"]
	month := edit(t, day, "/cap/scope", `"month"`)
	for _, p := range []string{"2026-11", "2026-02-30", "2026-13-01", "2026-1-1", "1969-12-31", "2026-11-30 ", " 2026-11-30", "26-11-30", "+2026-11-30", "20260-11-30", "2026-11-30T00:00:00Z", "２026-11-30"} {
		mustRefuse(t, p, parseHeader(edit(t, day, "/cap/period", `"`+p+`"`)), "/cap/period", "not a day that exists")
	}
	for _, p := range []string{"2026-11-30", "2026-13", "2026-00", "2026-1", "1969-12", "2026", "2026-11 "} {
		mustRefuse(t, p, parseHeader(edit(t, month, "/cap/period", `"`+p+`"`)), "/cap/period", "not a month that exists")
	}
	for _, good := range []string{
		edit(t, day, "/cap/period", `"1970-01-01"`), edit(t, day, "/cap/period", `"2028-02-29"`), edit(t, day, "/cap/period", `"9999-12-31"`),
		edit(t, month, "/cap/period", `"1970-01"`), edit(t, month, "/cap/period", `"9999-12"`),
	} {
		if err := parseHeader(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestErasedLists(t *testing.T) {
	header := fullHeaders(t)["ledger.erased"] // seq 9
	const seqs, parts = "not rising from 2 to below the event's own number", "not rising"
	for _, c := range []struct{ parts, seqs, path, reason string }{
		{`[]`, `[]`, "/erased", "names nothing"},
		{`[]`, `[1]`, "/erased/seqs/0", seqs},
		{`[]`, `[0]`, "/erased/seqs/0", seqs},
		{`[]`, `[9]`, "/erased/seqs/0", seqs},
		{`[]`, `[2,9007199254740991]`, "/erased/seqs/1", seqs},
		{`[]`, `[2,2]`, "/erased/seqs/1", seqs},
		{`[]`, `[2,5,3]`, "/erased/seqs/2", seqs},
		{`["` + hexA + `","` + hexA + `"]`, `[]`, "/erased/parts/1", parts},
		{`["` + hexB + `","` + hexA + `"]`, `[]`, "/erased/parts/1", parts},
		{`["` + hexA[1:] + `"]`, `[]`, "/erased/parts/0", "not 64 hex digits"},
		{`[]`, `[-2]`, "/erased/seqs/0", "not an integer from 0 to 2^53-1"},
	} {
		err := parseHeader(edit(t, header, "/erased/parts", c.parts, "/erased/seqs", c.seqs))
		mustRefuse(t, c.parts+c.seqs, err, c.path, c.reason)
	}
	for _, c := range [][2]string{{`[]`, `[2,3,8]`}, {`["` + hexA + `"]`, `[]`}} {
		if err := parseHeader(edit(t, header, "/erased/parts", c[0], "/erased/seqs", c[1])); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestMeterRules(t *testing.T) {
	header := fullHeaders(t)["model.response"]
	const none = "none has neither usage nor prices"
	for _, c := range []struct{ pointer, text, path, reason string }{
		{"/meter/source", `"none"`, "/meter/source", none},
		{"/meter/source", `"guessed"`, "/meter/source", "not reported, estimated or none"},
		{"/meter/source", `"Reported"`, "/meter/source", "not reported, estimated or none"},
		{"/meter/source", `""`, "/meter/source", "empty"},
		{"/meter/usage/input", `9007199254740992`, "/meter/usage/input", "not an integer from 0 to 2^53-1"},
		{"/meter/usage/input", `-1`, "/meter/usage/input", "not an integer from 0 to 2^53-1"},
		{"/meter/usage/input", `0.5`, "/meter/usage/input", "not an integer from 0 to 2^53-1"},
		{"/meter/usage/input", `1e2`, "/meter/usage/input", "not an integer from 0 to 2^53-1"},
		{"/meter/usage/input", `01`, "/meter/usage/input", "not an integer from 0 to 2^53-1"},
		{"/meter/usage/a b", `1`, "/meter/usage/a b", "a character that no class has"},
		{"/meter/prices/input", `"3.0"`, "/meter/prices/input", `"3.0": trailing zero…`},
		{"/meter/cost_usd", `"-1"`, "/meter/cost_usd", `"-1": does not begin with a digit…`},
	} {
		mustRefuse(t, c.pointer+c.text, parseHeader(edit(t, header, c.pointer, c.text)), c.path, c.reason)
	}
	for _, left := range []string{"/meter/usage", "/meter/prices"} {
		err := parseHeader(edit(t, header, left, `{}`, "/meter/source", `"none"`))
		mustRefuse(t, "none with "+left+" empty alone", err, "/meter/source", none)
	}
	bare := edit(t, header, "/meter/usage", `{}`, "/meter/prices", `{}`, "/meter/source", `"none"`)
	for _, good := range []string{
		bare, edit(t, bare, "/meter/cost_usd", ""),
		edit(t, header, "/meter/source", `"estimated"`),
		edit(t, header, "/meter/usage/input", `9007199254740991`),
	} {
		if err := parseHeader(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
