package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-audit/docket/demo/loopback"
)

const cheap = "0.25"

// servedCall is a call that the provider served, and the row that the ledger
// should have of it.
func servedCall(id int) (loopback.Served, string) {
	cost := cheap
	c := &loopback.Case{
		Endpoint: loopback.EndpointMessages, Status: 200, Body: "answer",
		Want: loopback.Want{Model: "m", Usage: map[string]uint64{"input": 3, "output": 0}, CostUSD: &cost, Source: "reported"},
	}
	s := loopback.Served{
		Call:    &loopback.Call{ID: id, Case: c, Upstream: "u"},
		Request: []byte("question"), Response: []byte("answer"),
	}
	return s, `{"content":{"ended":"complete"},"header":{"seq":4,"meter":{"model":"m","provider":"p","source":"reported",` +
		`"usage":{"input":3},"prices":{},"cost_usd":"0.25"},"parts":{"response":{"bytes":6}}}}`
}

func TestCompareRows(t *testing.T) {
	s, line := servedCall(1)
	for _, tt := range []struct{ name, export, want string }{
		{"the same", line, ""},
		{"no row", `{"header":{"seq":1}}`, "the ledger lacks: p m reported input=3 $0.25, 6 bytes"},
		{"twice", line + "\n" + line, "the provider did not serve: p m"},
		{"other cost", strings.Replace(line, "0.25", "0.26", 1), "$0.26"},
		{"no cost", strings.Replace(line, `,"cost_usd":"0.25"`, "", 1), "unpriced"},
		{"other usage", strings.Replace(line, `"input":3`, `"input":2`, 1), "input=2"},
		{"other model", strings.Replace(line, `"m"`, `"n"`, 1), "did not serve: p n"},
		{"other provider", strings.Replace(line, `"p"`, `"q"`, 1), "did not serve: q m"},
		{"other source", strings.Replace(line, "reported", "estimated", 1), "did not serve: p m estimated"},
		{"other size", strings.Replace(line, `"bytes":6`, `"bytes":5`, 1), "5 bytes"},
	} {
		rows, err := readExport([]byte(tt.export + "\n" + `{"trailer":{}}` + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		err = compareRows(rows, []loopback.Served{s}, map[string]string{"u": "p"})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	if _, err := readExport([]byte(line + "\n{")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line: %v", err)
	}
}

func TestCompareCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*result, *loopback.Served)
		want   string
	}{
		{"the same", func(*result, *loopback.Served) {}, ""},
		{"not served", func(_ *result, s *loopback.Served) { s.Call = &loopback.Call{ID: 9} }, "did not serve it"},
		{"status", func(r *result, _ *loopback.Served) { r.status = 502 }, "status 502, not 200"},
		{"request", func(_ *result, s *loopback.Served) { s.Request = []byte("questioN") }, "the request changed"},
		{"answer", func(r *result, _ *loopback.Served) { r.received = r.received[1:] }, "6 bytes became 5"},
		{"left", func(r *result, _ *loopback.Served) { r.left = true }, "should have left"},
		{"stayed", func(r *result, _ *loopback.Served) { r.call.End = loopback.EndClient }, "should have left"},
		{"break not told", func(r *result, _ *loopback.Served) { r.call.End = loopback.EndCut }, "the client was not told"},
		{"break told", func(r *result, _ *loopback.Served) { r.call.End, r.err = loopback.EndCut, fmt.Errorf("EOF") }, ""},
	} {
		s, _ := servedCall(1)
		r := result{call: s.Call, status: 200, sent: []byte("question"), received: []byte("answer")}
		tt.change(&r, &s)
		err := compareCalls([]result{r}, []loopback.Served{s})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

// A chat stream whose client does not ask for the usage: docket asks, and the
// client must not notice.
func TestCompareBodiesWhereUsageWasAdded(t *testing.T) {
	const (
		chunk = `data: {"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":null}` + "\n\n"
		extra = `data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n"
		sent  = `{"model":"m","stream":true}`
		added = `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	)
	for _, tt := range []struct{ name, sent, request, text, want string }{
		{"as it should be", sent, added, "Hi", ""},
		{"other model", sent, strings.Replace(added, `"m"`, `"n"`, 1), "Hi", "more than the usage"},
		{"text lost", sent, added, "", `the client read ""`},
		{"no JSON", sent, "{", "Hi", "read requests"},
	} {
		c := &loopback.Case{
			Endpoint: loopback.EndpointChat, Stream: true, Body: chunk + extra,
			Headers: map[string]string{"content-type": "text/event-stream"},
		}
		r := result{call: &loopback.Call{Case: c}, sent: []byte(tt.sent), text: tt.text}
		err := compareBodies(r, loopback.Served{Request: []byte(tt.request)})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
		r.usage = true
		if err := compareBodies(r, loopback.Served{Request: []byte(added)}); err == nil {
			t.Errorf("%s: the client saw a chunk that it did not ask for", tt.name)
		}
		if got := readCompletion(recordedCompletion(c), 0); got != (completionRead{2, 1, "Hi"}) {
			t.Errorf("the SDK reads %+v", got)
		}
	}
}
