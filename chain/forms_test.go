package chain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

const (
	hexA = "9a1bd3b8a91b7e5e5cf1c0a2f6fa6d33a3c9a4a8fd33f6cb5c1b9e0bb2b0a9d1"
	hexB = "b11bd3b8a91b7e5e5cf1c0a2f6fa6d33a3c9a4a8fd33f6cb5c1b9e0bb2b0a9d1"
	key1 = "AeS/1fd8YOYVj9ZM/svROk5W5gO+cX/roTJp6I1vB2GP"
	key2 = "AVIaHUevh2T/7oBIWYYbfjqpvM3EvL0oyrigvb7PJ40A"

	// bare is the shortest header: the members that always stand.
	bare = `{"content":"` + hexA + `","prev":"` + hexB + `","seq":9,"ts":"2026-11-30T12:00:00.000000001Z","type":"tool.call"}`
)

// fullHeaders are good headers that together have every member of
// docs/format.md, section 1, at every depth.
func fullHeaders(t testing.TB) map[string]string {
	run := []string{"/run", `"run-1"`, "/run_seq", "3"}
	of := func(typ string, changes ...string) string {
		return edit(t, bare, append([]string{"/type", `"` + typ + `"`}, changes...)...)
	}
	actor := `{"context":"billing","fence":4,"pass":"p-1","role":"reviewer"}`
	return map[string]string{
		"tool.call": of("tool.call", append(run,
			"/actor", actor,
			"/key", `"idem-1"`,
			"/parts", `{"request":{"bytes":0,"commit":"`+hexA+`","media":"text/plain"},"response":{"bytes":17,"commit":"`+hexB+`","media":"application/json"}}`,
			"/peer", `{"gid":0,"pid":4711,"uid":1000}`)...),
		"ledger.created": of("ledger.created", "/seq", "1"),
		"model.response": of("model.response", append(run,
			"/call", "8",
			"/meter", `{"cost_usd":"0.000011","model":"m-1","prices":{"input":"3","output":"4"},"provider":"p","source":"reported","usage":{"input":1,"output":2}}`)...),
		"model.failed":      of("model.failed", append(run, "/call", "8")...),
		"model.request":     of("model.request", run...),
		"run.closed":        of("run.closed", append(run, "/totals", `{"calls":3,"cost_usd":"0.2","failed":1,"unpriced":0}`)...),
		"cap.set":           of("cap.set", "/cap", `{"context":"c","limit_usd":"5","role":"r","scope":"context"}`),
		"cap.exceeded":      of("cap.exceeded", "/cap", `{"limit_usd":"5","run":"r-1","scope":"run","spent_usd":"5.01"}`),
		"cap.exceeded day":  of("cap.exceeded", "/cap", `{"limit_usd":"5","period":"2026-11-30","scope":"day","spent_usd":"5.01"}`),
		"ledger.checkpoint": of("ledger.checkpoint", "/note", `"three lines\n"`),
		"key.rotated":       of("key.rotated", "/keys", `["`+key1+`","`+key2+`"]`, "/note", `"five lines\n"`),
		"ledger.erased":     of("ledger.erased", "/erased", `{"parts":["`+hexA+`","`+hexB+`"],"seqs":[2,5]}`),
		"lock.acquired":     of("lock.acquired", "/actor", actor),
		"lock.refused":      of("lock.refused", "/actor", `{"context":"billing","pass":"p-1","role":"reviewer"}`),
	}
}

// eachFull runs f for every full header in a fixed order.
func eachFull(t *testing.T, f func(name, header string, root *node)) {
	t.Helper()
	all := fullHeaders(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f(name, all[name], parseNode(t, all[name]))
	}
}

func parseHeader(text string) error {
	_, err := chain.ParseHeader([]byte(text))
	return err
}

func TestFullHeadersAreAccepted(t *testing.T) {
	seen := map[string]bool{}
	eachFull(t, func(name, header string, root *node) {
		h, err := chain.ParseHeader([]byte(header))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := string(h.Append(nil)); got != header {
			t.Errorf("%s: re-encoded as\n%s\nnot\n%s", name, got, header)
		}
		if err := h.Check(); err != nil {
			t.Errorf("%s: Check: %v", name, err)
		}
		for _, m := range root.members {
			seen[m.name] = true
		}
	})
	for _, name := range []string{"actor", "call", "cap", "content", "erased", "key", "keys", "meter", "note", "parts", "peer", "prev", "run", "run_seq", "seq", "totals", "ts", "type"} {
		if !seen[name] {
			t.Errorf("no full header has %s: the tables below would miss it", name)
		}
	}
}

// TestWrongType puts a value of every other JSON type in the place of every
// value of every full header.
func TestWrongType(t *testing.T) {
	values := map[byte]string{'n': `null`, '"': `"x"`, '0': `7`, 't': `true`, '[': `[]`, '{': `{}`}
	reasons := map[byte]string{
		'"': "not a string",
		'0': "not an integer from 0 to 2^53-1",
		'[': "not an array",
		'{': "not an object",
	}
	tried := 0
	eachFull(t, func(name, _ string, root *node) {
		root.walk("", func(path string, v *node) {
			for kind, wrong := range values {
				if kind != v.kind {
					tried++
					mustRefuse(t, name+" with "+wrong+" at "+path, parseHeader(root.edit(path, wrong).String()), path, reasons[v.kind])
				}
			}
		})
	})
	if tried < 500 {
		t.Errorf("only %d values tried", tried)
	}
	for kind, wrong := range values {
		if kind != '{' {
			mustRefuse(t, wrong+" as a header", parseHeader(wrong), "", "not an object")
		}
	}
}

// TestMissing takes every member of every full header away. What may be
// absent is listed; all else is refused, with the member's own path.
func TestMissing(t *testing.T) {
	optional := map[string]string{
		"tool.call": "/actor /actor/fence /key /parts /parts/request /parts/response /peer",
		// A call without a cost is unpriced; whether it should be is for a
		// verifier. Classes come and go.
		"model.response": "/meter/cost_usd /meter/prices/input /meter/prices/output /meter/usage/input /meter/usage/output",
		"cap.set":        "/cap/limit_usd",
		"key.rotated":    "/keys/0 /keys/1",
		"ledger.erased":  "/erased/parts/0 /erased/parts/1 /erased/seqs/0 /erased/seqs/1",
	}
	// Two members whose absence shows elsewhere.
	other := map[string][2]string{
		"/run":     {"/run", "missing beside run_seq"},
		"/run_seq": {"/run_seq", "missing beside run"},
	}
	eachFull(t, func(name, _ string, root *node) {
		may := strings.Fields(optional[name])
		root.walk("", func(path string, _ *node) {
			err := parseHeader(root.edit(path, "").String())
			if i := slices.Index(may, path); i >= 0 {
				may = slices.Delete(may, i, i+1)
				if err != nil {
					t.Errorf("%s without %s: %v", name, path, err)
				}
				return
			}
			want, ok := other[path]
			if !ok {
				want = [2]string{path, "missing…"}
			}
			mustRefuse(t, name+" without "+path, err, want[0], want[1])
		})
		if len(may) > 0 {
			t.Errorf("%s: never tried %v", name, may)
		}
	})
}

// TestExtra puts an unknown member into every object of every full header,
// and every member there twice and out of order.
func TestExtra(t *testing.T) {
	// The objects whose names are open: what a value there has to be.
	open := map[string]string{"/parts": "not an object", "/meter/prices": "not a string", "/meter/usage": "not an integer from 0 to 2^53-1"}
	eachFull(t, func(name, _ string, root *node) {
		object := func(path string, v *node) {
			if v.kind != '{' {
				return
			}
			reason, ok := open[path]
			if !ok {
				reason = "unknown member"
			}
			for _, extra := range []string{"Seq", "zz", "a"} {
				p := path + "/" + extra
				mustRefuse(t, name+" with "+p, parseHeader(root.edit(p, `true`).String()), p, reason)
			}
			for i, m := range v.members {
				twice := &node{kind: '{', members: slices.Insert(slices.Clone(v.members), i, m)}
				mustRefuse(t, name+" twice "+m.name, parseHeader(replace(root, path, twice)), path+"/"+m.name, "member twice")
			}
			if len(v.members) > 1 {
				swapped := &node{kind: '{', members: slices.Clone(v.members)}
				slices.Reverse(swapped.members)
				second := swapped.members[1].name
				mustRefuse(t, name+" swapped", parseHeader(replace(root, path, swapped)), path+"/"+second, "member out of canonical order")
			}
		}
		object("", root)
		root.walk("", object)
	})
}

func replace(root *node, path string, by *node) string {
	if path == "" {
		return by.String()
	}
	return root.edit(path, by.String()).String()
}

// TestEveryCut cuts every full header short, and lengthens it.
func TestEveryCut(t *testing.T) {
	eachFull(t, func(name, header string, _ *node) {
		for i := range header {
			if parseHeader(header[:i]) == nil {
				t.Errorf("%s: accepted its first %d bytes", name, i)
			}
			// White space between tokens has no place in canonical JSON.
			if strings.IndexByte(`{}[],:`, header[i]) >= 0 && parseHeader(header[:i]+" "+header[i:]) == nil {
				t.Errorf("%s: accepted a space at %d", name, i)
			}
		}
		mustRefuse(t, name+" and a space", parseHeader(header+" "), "", "bytes after the value")
		mustRefuse(t, name+" and a newline", parseHeader(header+"\n"), "", "bytes after the value")
		mustRefuse(t, name+" and another", parseHeader(header+header), "", "bytes after the value")
	})
}
