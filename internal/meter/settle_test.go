package meter_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"Hello."}]}` // 10 bytes of text: 4 tokens

// TestSettle: docs/design/metering.md, section 5, beyond the worked cases.
func TestSettle(t *testing.T) {
	const (
		text       = `{"choices":[{"delta":{"content":"123456"}}]}`
		figures    = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
		failure    = `{"error":{"message":"x"}}`
		start      = `{"type":"message_start","message":{"content":[],"usage":{"input_tokens":5,"output_tokens":3}}}`
		claudeText = `{"type":"content_block_delta","delta":{"type":"text_delta","text":"123456"}}`
		claudeFail = `{"type":"error","error":{"type":"overloaded_error"}}`
		delta      = `{"type":"message_delta","usage":{"output_tokens":9}}`
	)
	media := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`
	chat, claude := chatCall(hello), messagesCall(hello)
	for _, c := range []struct {
		name   string
		call   meter.Call
		events []string
		source string
		usage  use
		inside bool
	}{
		{"an error after the figures changes nothing", chat, []string{figures, failure}, chain.SourceReported, use{"input": 1, "output": 2}, true},
		{"an error first", chat, []string{failure}, chain.SourceReported, use{}, true},
		{"an error after a role and no text", chat, []string{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, failure}, chain.SourceReported, use{}, true},
		{"an error after text", chat, []string{text, failure}, chain.SourceEstimated, use{"input": 4, "output": 2}, true},
		{"an error that is null is none", chat, []string{`{"error":null,"choices":[{"delta":{"content":"123456"}}]}`}, chain.SourceEstimated, use{"input": 4, "output": 2}, false},
		{"input told, output not", chat, []string{text, `{"choices":[],"usage":{"prompt_tokens":7}}`}, chain.SourceEstimated, use{"input": 7, "output": 2}, false},
		{"output told, input not", chat, []string{text, `{"choices":[],"usage":{"completion_tokens":7}}`}, chain.SourceEstimated, use{"input": 4, "output": 7}, false},
		{"a total alone is no figure", chat, []string{text, `{"choices":[],"usage":{"total_tokens":7}}`}, chain.SourceEstimated, use{"input": 4, "output": 2}, false},
		{"usage that is no object", chat, []string{text, `{"choices":[],"usage":7}`}, chain.SourceNone, use{}, false},
		{"usage that is no object, then figures", chat, []string{`{"choices":[],"usage":7}`, figures}, chain.SourceReported, use{"input": 1, "output": 2}, false},
		{"the last usage wins, whole", chat, []string{`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":5}}}`, figures}, chain.SourceReported, use{"input": 1, "output": 2}, false},
		{"no event at all", chat, nil, chain.SourceEstimated, use{"input": 4}, false},
		{"[DONE] alone", chat, []string{"[DONE]"}, chain.SourceEstimated, use{"input": 4}, false},
		{"JSON of another shape", chat, []string{`{"hello":1}`}, chain.SourceNone, use{}, false},
		{"media in the request", chatCall(media), []string{text}, chain.SourceNone, use{}, false},
		{"media and figures", chatCall(media), []string{text, figures}, chain.SourceReported, use{"input": 1, "output": 2}, false},
		{"a request that is no JSON", chatCall("hello"), []string{text}, chain.SourceNone, use{}, false},
		{"message_start, then nothing", claude, []string{start}, chain.SourceEstimated, use{"input": 5, "output": 3}, false},
		{"message_start, then an error", claude, []string{start, claudeFail}, chain.SourceEstimated, use{"input": 5, "output": 3}, true},
		{"text longer than the initial figure", claude, []string{start, claudeText, claudeText}, chain.SourceEstimated, use{"input": 5, "output": 4}, false},
		{"the delta is final", claude, []string{start, claudeText, delta}, chain.SourceReported, use{"input": 5, "output": 9}, false},
		{"a delta without an output figure is not", claude, []string{start, claudeText, `{"type":"message_delta","usage":{"input_tokens":6}}`}, chain.SourceEstimated, use{"input": 6, "output": 3}, false},
		{"a delta without usage is not", claude, []string{start, `{"type":"message_delta","usage":null}`, `{"type":"message_delta","usage":{}}`, `{"type":"message_delta"}`}, chain.SourceEstimated, use{"input": 5, "output": 3}, false},
		{"text without message_start", claude, []string{claudeText}, chain.SourceEstimated, use{"input": 4, "output": 2}, false},
		{"a delta without message_start", claude, []string{delta}, chain.SourceNone, use{}, false},
		{"media do not matter once the input is known", messagesCall(media), []string{start, claudeText}, chain.SourceEstimated, use{"input": 5, "output": 3}, false},
		{"pings only", claude, []string{`{"type":"ping"}`}, chain.SourceEstimated, use{"input": 4}, false},
		{"an event of a new kind", claude, []string{start, `{"type":"new_kind","x":1}`, delta}, chain.SourceReported, use{"input": 5, "output": 9}, false},
		{"another provider's error", claude, []string{failure}, chain.SourceReported, use{}, true},
	} {
		r := readStream(c.call, c.events...)
		if r.Source != c.source || !maps.Equal(r.Usage, c.usage) || r.ErrorInside != c.inside {
			t.Errorf("%s: %s, %v, error inside %t (%s); want %s, %v, %t", c.name, r.Source, r.Usage, r.ErrorInside, r.Note, c.source, c.usage, c.inside)
		}
		if (r.Source == chain.SourceReported) != (r.Note == "") {
			t.Errorf("%s: source %s with note %q", c.name, r.Source, r.Note)
		}
	}
}

// TestSettleByStatus: an error status without figures has cost nothing.
func TestSettleByStatus(t *testing.T) {
	for _, c := range []struct {
		status       int
		body, source string
		usage        use
	}{
		{400, `{"error":{}}`, chain.SourceReported, use{}},
		{500, `<html>`, chain.SourceReported, use{}},
		{302, ``, chain.SourceReported, use{}},
		{500, `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, chain.SourceReported, use{"input": 1, "output": 2}},
		{500, `{"usage":{"prompt_tokens":-1,"completion_tokens":2}}`, chain.SourceNone, use{}},
		{200, `<html>`, chain.SourceNone, use{}},
		{200, `{}`, chain.SourceNone, use{}},
		{200, `[]`, chain.SourceNone, use{}},
		{200, ``, chain.SourceNone, use{}},
		{200, `{"choices":[{"message":{"content":"123456"}}`, chain.SourceNone, use{}},
		{200, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2},"x`, chain.SourceReported, use{"input": 1, "output": 2}},
		{204, `{"choices":[{"message":{"content":"123456"}}]}`, chain.SourceEstimated, use{"input": 4, "output": 2}},
	} {
		r := meter.NewReader(chatCall(hello), c.status, "application/json")
		r.Body([]byte(c.body))
		if got := r.Finish(); got.Source != c.source || !maps.Equal(got.Usage, c.usage) {
			t.Errorf("%d %s: %s, %v (%s), want %s, %v", c.status, c.body, got.Source, got.Usage, got.Note, c.source, c.usage)
		}
	}
}

// TestTail: what the end of a stream broke off is no fault of the answer.
func TestTail(t *testing.T) {
	for tail, want := range map[string]string{
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`: chain.SourceReported,
		`{"choices":[],"usage":{"prompt_tokens":1,"complet`:                chain.SourceEstimated,
	} {
		r := meter.NewReader(chatCall(hello), 200, "text/event-stream")
		r.Event([]byte(`{"choices":[{"delta":{"content":"x"}}]}`))
		r.Tail([]byte(tail))
		if got := r.Finish(); got.Source != want {
			t.Errorf("%s: %s (%s), want %s", tail, got.Source, got.Note, want)
		}
	}
}

// TestOutputText: what of an answer is the model's text.
func TestOutputText(t *testing.T) {
	const nine = "123456789" // 3 tokens
	for _, c := range []struct {
		name string
		call meter.Call
		body string
		want uint64
	}{
		{"content", chatCall(hello), `{"choices":[{"message":{"role":"assistant","content":"` + nine + `"}}]}`, 3},
		{"several choices", chatCall(hello), `{"choices":[{"message":{"content":"` + nine + `"}},{"message":{"content":"` + nine + `"}}]}`, 6},
		{"parts, refusal, thinking", chatCall(hello), `{"choices":[{"message":{"content":[{"type":"text","text":"123"},{"type":"refusal","refusal":"456"},{"type":"thinking","thinking":[{"type":"text","text":"789"}]}]}}]}`, 3},
		{"refusal", chatCall(hello), `{"choices":[{"message":{"content":null,"refusal":"` + nine + `"}}]}`, 3},
		{"reasoning under two names", chatCall(hello), `{"choices":[{"message":{"reasoning":"` + nine + `","reasoning_content":"` + nine + `"}}]}`, 3},
		{"arguments", chatCall(hello), `{"choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"n","arguments":"123"}},{"custom":{"name":"n","input":"456"}}],"function_call":{"arguments":"789"}}}]}`, 3},
		{"transcript", chatCall(hello), `{"choices":[{"message":{"audio":{"data":"QUJD","transcript":"` + nine + `"}}}]}`, 3},
		{"UTF-8 bytes, escapes undone", chatCall(hello), `{"choices":[{"message":{"content":"\u20acä€"}}]}`, 3},
		{"claude's blocks", messagesCall(hello), `{"content":[{"type":"text","text":"123"},{"type":"thinking","thinking":"456","signature":"xxxxxxxxx"},{"type":"compaction","content":"789"}]}`, 3},
		{"claude's tool", messagesCall(hello), `{"content":[{"type":"tool_use","id":"x","name":"n","input":{"a":123}}]}`, 3},
		{"what a server's tool found is not the model's", messagesCall(hello), `{"content":[{"type":"web_search_tool_result","content":[{"title":"` + nine + `"}]},{"type":"text","text":"` + nine + `"}]}`, 3},
	} {
		if r := readBody(c.call, c.body); r.Source != chain.SourceEstimated || r.Usage["output"] != c.want {
			t.Errorf("%s: %s, %v, want %d of output", c.name, r.Source, r.Usage, c.want)
		}
	}
	r := readStream(messagesCall(hello),
		`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":5,"output_tokens":0}}}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use","name":"n","input":{}}}`,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\":1"}}`,
		`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"xx"}}`,
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"xxxxxxxxxxxxx"}}`)
	if r.Usage["output"] != 3 {
		t.Errorf("a stream's arguments and thinking of 8 bytes: %v", r.Usage)
	}
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		method, dialect, path string
		want                  meter.Endpoint
	}{
		{"POST", "openai", "/v1/chat/completions", meter.Chat},
		{"POST", "openai", "v1/chat/completions", meter.Chat},
		{"POST", "openai", "/chat/completions/?x=1", meter.Chat},
		{"POST", "openai", "/openai/deployments/d/chat/completions?api-version=1", meter.Chat},
		{"POST", "anthropic", "/v1/chat/completions", meter.Chat},
		{"GET", "openai", "/v1/chat/completions", meter.Free},
		{"HEAD", "openai", "/v1/chat/completions", meter.Free},
		{"OPTIONS", "openai", "/v1/chat/completions", meter.Free},
		{"PUT", "openai", "/v1/chat/completions", meter.Unknown},
		{"POST", "openai", "/v1/chat/completions/chatcmpl-1", meter.Unknown},
		{"POST", "anthropic", "/v1/messages", meter.Messages},
		{"POST", "anthropic", "/messages", meter.Messages},
		{"POST", "openai", "/v1/messages", meter.Messages},
		{"POST", "openai", "/v1/threads/t/messages", meter.Unknown},
		{"POST", "anthropic", "/v1/messages/count_tokens?beta=true", meter.Free},
		{"POST", "anthropic", "/v1/messages/batches", meter.Unknown},
		{"POST", "openai", "/v1/files", meter.Unknown},
		{"GET", "openai", "/v1/models", meter.Free},
	} {
		if got := meter.EndpointOf(meter.Call{Method: c.method, Dialect: c.dialect, Path: c.path}); got != c.want {
			t.Errorf("%s %s of %s: %v, want %v", c.method, c.path, c.dialect, got, c.want)
		}
	}
}

// TestFreeAndUnknown: a free call has cost nothing whatever it answers, one to
// an endpoint that is not metered is source none, never free.
func TestFreeAndUnknown(t *testing.T) {
	usage := `{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	for _, c := range []struct {
		method, path, body, source string
		status                     int
		free                       bool
	}{
		{"GET", "/v1/chat/completions/x", usage, chain.SourceReported, 200, true},
		{"POST", "/v1/messages/count_tokens", `{"input_tokens":5}`, chain.SourceReported, 200, true},
		{"POST", "/v1/messages/count_tokens", `<html>`, chain.SourceReported, 200, true},
		{"POST", "/v1/unheard-of", usage, chain.SourceNone, 200, false},
		{"POST", "/v1/unheard-of", usage, chain.SourceReported, 404, false},
	} {
		call := meter.Call{Provider: "p", Dialect: "anthropic", Method: c.method, Path: c.path, Body: []byte(hello)}
		r := meter.NewReader(call, c.status, "application/json")
		r.Body([]byte(c.body))
		r.Event([]byte(c.body))
		r.Tail([]byte(c.body))
		got := r.Finish()
		if got.Source != c.source || got.Free != c.free || len(got.Usage) > 0 || got.Model != "m" {
			t.Errorf("%s %s, %d: %+v", c.method, c.path, c.status, got)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for body, want := range map[string]meter.Request{
		`{"model":"a","stream":true,"stream_options":{"include_usage":true},"service_tier":"flex"}`:  {Model: "a", Stream: true, IncludeUsage: true, Tier: "flex"},
		`{"model":null,"stream":false,"stream_options":{"include_usage":false},"service_tier":null}`: {},
		`{"model":7,"stream":"true","stream_options":[],"service_tier":{}}`:                          {},
		`{"model":"a","messages":[`: {Model: "a"},
		`{"model":"\u0061"}`:        {Model: "a"},
		`hello`:                     {},
		``:                          {},
		`[]`:                        {},
	} {
		if got := meter.ParseRequest(chatCall(body)); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
	// A request that was parsed before is not read again.
	c := chatCall(`{"model":"other"}`)
	c.Parsed = &meter.Request{Model: "parsed"}
	if r := readBody(c, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`); r.Model != "parsed" || r.RequestedModel != "parsed" {
		t.Errorf("model %q, requested %q", r.Model, r.RequestedModel)
	}
	if r := meter.Nothing(c, "why"); r.Model != "parsed" || r.Source != chain.SourceNone || r.Note != "why" {
		t.Errorf("nothing: %+v", r)
	}
}

func TestIsEventStream(t *testing.T) {
	for media, want := range map[string]bool{
		"text/event-stream": true, "TEXT/Event-Stream; charset=utf-8": true, "text/event-stream;;": true,
		"text/event-stream; charset": true, "application/json": false, "": false, "text/event-stream-x": false,
	} {
		if got := meter.IsEventStream(media); got != want {
			t.Errorf("%q: %t", media, got)
		}
	}
}

func TestHeaderName(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-5.5": "gpt-5.5", "": "(unnamed)", "a b": "a%20b", "é": "%C3%A9", "a\n": "a%0A", "100%": "100%",
		strings.Repeat("x", 128): strings.Repeat("x", 128),
	} {
		if got := meter.HeaderName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	a, b := meter.HeaderName(strings.Repeat("x", 129)), meter.HeaderName(strings.Repeat(" ", 43))
	if !strings.HasPrefix(a, "sha256:") || !strings.HasPrefix(b, "sha256:") || len(a) != 71 || a == b {
		t.Errorf("long names became %q and %q", a, b)
	}
}
