package boundary

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
)

func chatCall() meter.Call {
	return meter.Call{
		Provider: "openai", Dialect: meter.DialectOpenAI, Method: http.MethodPost, Path: "/v1/chat/completions",
		Body: []byte(`{"model":"gpt-5.5","stream":true,"messages":[{"role":"user","content":"Hello."}]}`),
	}
}

// brittle panics at its nth call.
type brittle struct {
	answerReader
	left  int
	fired *bool
}

func (b *brittle) step() {
	if b.left--; b.left < 0 && !*b.fired {
		*b.fired = true
		panic("secret of the answer")
	}
}

func (b *brittle) Event(data []byte)        { b.step(); b.answerReader.Event(data) }
func (b *brittle) Tail(data []byte)         { b.step(); b.answerReader.Tail(data) }
func (b *brittle) Body(data []byte)         { b.step(); b.answerReader.Body(data) }
func (b *brittle) Unreadable(reason string) { b.step(); b.answerReader.Unreadable(reason) }
func (b *brittle) Finish() meter.Reading    { b.step(); return b.answerReader.Finish() }

// TestPanicInMeter: whatever panics while metering, and at whichever chunk,
// there is a Reading, of source none, with the requested model (BerriAI/litellm#28943).
func TestPanicInMeter(t *testing.T) {
	for _, c := range goldenCases(t) {
		steps := 0
		for ; ; steps++ {
			fired := false
			o := newObserver(c.call(), c.Status, c.header())
			o.reader = &brittle{answerReader: o.reader, left: steps, fired: &fired}
			feed(o, []byte(c.Body), 64)
			r := o.Finish()
			if !fired {
				break // every step has panicked once
			}
			bill := c.table(t).Price(c.Provider, r, requested)
			if r.Source != chain.SourceNone || bill.Meter.Cost != nil || len(bill.Meter.Usage) > 0 {
				t.Fatalf("%s, panic at step %d: %+v", c.ID, steps, bill)
			}
			if !strings.Contains(string(c.Request), fmt.Sprintf("%q", bill.Meter.Model)) || strings.Contains(bill.Why, "secret") {
				t.Fatalf("%s, panic at step %d: model %s, why %q", c.ID, steps, bill.Meter.Model, bill.Why)
			}
		}
		if steps < 2 {
			t.Fatalf("%s: %d steps, want the body and the end at least", c.ID, steps)
		}
	}
}

// TestObserverCut: an answer may break off after any byte. There is always a
// Reading that can be priced, and never a figure that is free.
func TestObserverCut(t *testing.T) {
	for _, c := range goldenCases(t) {
		if len(c.Body) > 4096 {
			continue
		}
		table := c.table(t)
		for n := 0; n < len(c.Body); n += SweepStride {
			o := newObserver(c.call(), c.Status, c.header())
			feed(o, []byte(c.Body[:n]), 0)
			r := o.Finish()
			bill := table.Price(c.Provider, r, requested)
			if err := recompute(bill.Meter); err != nil {
				t.Fatalf("%s cut at %d: %v", c.ID, n, err)
			}
			if c.Status == 200 && !r.Free && !r.ErrorInside && r.Source != chain.SourceNone && len(r.Usage) == 0 && c.ID != "openai-zero-usage" && c.ID != "openai-stream-running-totals" {
				t.Fatalf("%s cut at %d: %s and nothing used", c.ID, n, r.Source)
			}
		}
	}
}

func TestObserverLimits(t *testing.T) {
	jsonBody := `{"model":"gpt-5.5","choices":[{"message":{"content":"` + strings.Repeat("x", 200) + `"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	final := "data: {\"model\":\"gpt-5.5\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
	long := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 200) + "\"}}]}\n\n"
	short := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
	for _, c := range []struct {
		name, media, body, source string
		status                    int
	}{
		{"body over the limit", "application/json", jsonBody, chain.SourceNone, 200},
		{"body over the limit, error status", "application/json", jsonBody, chain.SourceReported, 500},
		{"long event, then the figures", "text/event-stream", long + final, chain.SourceReported, 200},
		{"long event, no figures", "text/event-stream", short + long + short, chain.SourceNone, 200},
		{"long event alone", "text/event-stream", long, chain.SourceNone, 200},
		{"called a stream and none", "text/event-stream", "<html>\n<body>\n</html>\n", chain.SourceNone, 200},
		{"comments only", "text/event-stream", ": wait\n\n: wait\n\n", chain.SourceEstimated, 200},
		{"nothing at all", "text/event-stream", "", chain.SourceEstimated, 200},
		{"an event that is no JSON", "text/event-stream", short + "data: oops\n\n" + short, chain.SourceNone, 200},
		{"an event that is no JSON, then the figures", "text/event-stream", "data: oops\n\n" + final, chain.SourceReported, 200},
		{"an event cut off", "text/event-stream", short + "data: {\"choices\":[{\"del", chain.SourceEstimated, 200},
		{"the figures, not closed", "text/event-stream", short + final[:len(final)-2], chain.SourceReported, 200},
		{"an empty body", "application/json", "", chain.SourceNone, 200},
	} {
		for size := range 50 {
			o := newObserver(chatCall(), c.status, http.Header{"Content-Type": {c.media}})
			o.limit = 100
			if o.split != nil {
				o.split.limit = 100
			}
			feed(o, []byte(c.body), size)
			r := o.Finish()
			if r.Source != c.source {
				t.Errorf("%s in pieces of %d: source %s (%s), want %s", c.name, size, r.Source, r.Note, c.source)
			}
			if len(o.body) > 100 {
				t.Errorf("%s: %d bytes kept", c.name, len(o.body))
			}
		}
	}
}

// TestErrorInside: an error inside a 2xx answer is told, since a breaker has to
// know of it, and the status alone tells one otherwise.
func TestErrorInside(t *testing.T) {
	for _, c := range goldenCases(t) {
		want := c.Status == 200 && (strings.Contains(c.ID, "error"))
		o := newObserver(c.call(), c.Status, c.header())
		feed(o, []byte(c.Body), 0)
		if r := o.Finish(); r.ErrorInside != want {
			t.Errorf("%s: error inside %t, want %t", c.ID, r.ErrorInside, want)
		}
	}
}
