package meter_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/internal/meter"
)

func chatCall(body string) meter.Call {
	return meter.Call{Provider: "openai", Dialect: meter.DialectOpenAI, Method: http.MethodPost, Path: "/v1/chat/completions", Body: []byte(body)}
}

func messagesCall(body string) meter.Call {
	return meter.Call{Provider: "anthropic", Dialect: meter.DialectAnthropic, Method: http.MethodPost, Path: "/v1/messages", Body: []byte(body)}
}

// readBody meters one JSON answer of status 200.
func readBody(c meter.Call, body string) meter.Reading {
	r := meter.NewReader(c, 200, "application/json")
	r.Body([]byte(body))
	return r.Finish()
}

// readStream meters the events of a stream of status 200.
func readStream(c meter.Call, events ...string) meter.Reading {
	r := meter.NewReader(c, 200, "text/event-stream")
	for _, e := range events {
		r.Event([]byte(e))
	}
	return r.Finish()
}

type use = map[string]uint64

// usageCase is a usage block and what it has to come to; want nil is source none.
type usageCase struct {
	name, usage string
	want        use
}

func (c usageCase) check(t *testing.T, r meter.Reading) {
	t.Helper()
	if c.want == nil {
		if r.Source != chain.SourceNone || len(r.Usage) > 0 || r.Note == "" {
			t.Errorf("%s: %s, %v (%s), want source none with a reason", c.name, r.Source, r.Usage, r.Note)
		}
		return
	}
	if r.Source != chain.SourceReported || !maps.Equal(r.Usage, c.want) {
		t.Errorf("%s: %s, %v (%s), want %v", c.name, r.Source, r.Usage, r.Note, c.want)
	}
}

// TestChatUsage: the rules of docs/design/metering.md, sections 2 and 3, that
// no worked case shows.
func TestChatUsage(t *testing.T) {
	for _, c := range []usageCase{
		{"all parts", `"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":20,
			"cache_write_tokens_details":{"ttl_30m_tokens":15,"ttl_12h_tokens":5},"audio_tokens":3,"image_tokens":4,"text_tokens":90},
			"completion_tokens_details":{"audio_tokens":6,"image_tokens":7,"reasoning_tokens":8,"text_tokens":30,"accepted_prediction_tokens":1,"rejected_prediction_tokens":2}`,
			use{"input": 63, "cache_read": 10, "cache_write": 15, "cache_write_12h": 5, "audio_input": 3, "image_input": 4, "output": 37, "audio_output": 6, "image_output": 7}},
		{"null is nothing said", `"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}`, use{"input": 9, "output": 3}},
		{"write life above the writes", `"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cache_write_tokens":20,"cache_write_tokens_details":{"ttl_12h_tokens":21}}`,
			use{"input": 80, "unresolved_cache_write": 20, "output": 5}},
		{"write lives without their total", `"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cache_write_tokens_details":{"ttl_30m_tokens":7,"ttl_12h_tokens":3}}`,
			use{"input": 90, "cache_write": 7, "cache_write_12h": 3, "output": 5}},
		{"output parts above the total", `"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"audio_tokens":6}`, use{"input": 10, "unresolved_output": 5}},
		{"reasoning above the total, and no identity", `"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":6}`, use{"input": 10, "unresolved_output": 5}},
		{"reasoning beside the total by identity", `"prompt_tokens":10,"completion_tokens":5,"total_tokens":21,"completion_tokens_details":{"reasoning_tokens":6}`, use{"input": 10, "output": 11}},
		{"reasoning inside", `"prompt_tokens":10,"completion_tokens":8,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":6}`, use{"input": 10, "output": 8}},
		{"no identity without a total", `"prompt_tokens":10,"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":6}`, use{"input": 10, "output": 8}},
		{"text above its total", `"prompt_tokens":10,"completion_tokens":8,"prompt_tokens_details":{"text_tokens":11}`, use{"unresolved_input": 10, "output": 8}},
		{"hits and misses do not add up", `"prompt_tokens":10,"completion_tokens":8,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5`, use{"unresolved_input": 10, "output": 8}},
		{"misses alone", `"prompt_tokens":10,"completion_tokens":8,"prompt_cache_miss_tokens":5`, use{"unresolved_input": 10, "output": 8}},
		{"hits alone", `"prompt_tokens":10,"completion_tokens":8,"prompt_cache_hit_tokens":4`, use{"input": 6, "cache_read": 4, "output": 8}},
		{"the same hits told three times", `"prompt_tokens":10,"completion_tokens":8,"cached_tokens":4,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6,"prompt_tokens_details":{"cached_tokens":4}`, use{"input": 6, "cache_read": 4, "output": 8}},
		{"hits told differently", `"prompt_tokens":10,"completion_tokens":8,"cached_tokens":4,"prompt_tokens_details":{"cached_tokens":3}`, use{"unresolved_input": 10, "output": 8}},
		{"parts of a missing total", `"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":2}`, use{"unresolved_input": 5, "output": 8}},
		{"searches", `"prompt_tokens":10,"completion_tokens":8,"server_side_tool_usage_details":{"web_search_calls":1,"x_search_calls":2,"mcp_calls":3}`,
			use{"input": 10, "output": 8, "web_search": 1, "x_search": 2, "server_side_tool_usage_details.mcp_calls": 3}},
		{"unknown counters at every depth", `"prompt_tokens":10,"completion_tokens":8,"new_units":1,"deep":{"er":{"units":2}},"zero":0,"list":[{"units":3},null,4]`,
			use{"input": 10, "output": 8, "new_units": 1, "deep.er.units": 2, "list.0.units": 3, "list.2": 4}},
		{"what is no counter", `"prompt_tokens":10,"completion_tokens":8,"queue_time":3,"cost":5,"cost_details":{"x":7},"upstream_cost":2,"is_byok":1,"rate":1.5,"big":1e9,"name":"x","on":true,"no":null`,
			use{"input": 10, "output": 8}},
		{"an unknown counter never joins a known class", `"prompt_tokens":10,"completion_tokens":8,"input":3,"web_search":2,"unresolved_x":1`,
			use{"input": 10, "output": 8, "usage.input": 3, "usage.web_search": 2, "usage.unresolved_x": 1}},
		{"a point in a name is no path", `"prompt_tokens":10,"completion_tokens":8,"prompt_tokens_details.cached_tokens":3`,
			use{"input": 10, "output": 8, "prompt_tokens_details.cached_tokens": 3}},
		{"two counters of one path", `"prompt_tokens":10,"completion_tokens":8,"a.b":1,"a":{"b":2}`, nil},
		{"negative", `"prompt_tokens":-1,"completion_tokens":8`, nil},
		{"negative zero", `"prompt_tokens":-0,"completion_tokens":8`, nil},
		{"fractional", `"prompt_tokens":1.5,"completion_tokens":8`, nil},
		{"exponent", `"prompt_tokens":1e3,"completion_tokens":8`, nil},
		{"text", `"prompt_tokens":"12","completion_tokens":8`, nil},
		{"true", `"prompt_tokens":true,"completion_tokens":8`, nil},
		{"2^53 − 1", `"prompt_tokens":9007199254740991,"completion_tokens":8`, use{"input": 9007199254740991, "output": 8}},
		{"2^53", `"prompt_tokens":9007199254740992,"completion_tokens":8`, nil},
		{"2^53 whose parts are fewer", `"prompt_tokens":9007199254740992,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":2}`, nil},
		{"more than 64 bits", `"prompt_tokens":99999999999999999999,"completion_tokens":8`, nil},
		{"a negative counter that is unknown", `"prompt_tokens":1,"completion_tokens":8,"units":-2`, nil},
		{"an unknown counter of 2^53", `"prompt_tokens":1,"completion_tokens":8,"units":9007199254740992`, nil},
		{"details that are no object", `"prompt_tokens":1,"completion_tokens":8,"prompt_tokens_details":5`, nil},
		{"a member twice", `"prompt_tokens":1,"prompt_tokens":2,"completion_tokens":8`, nil},
		{"a path that is no class name", `"prompt_tokens":1,"completion_tokens":8,"größe":1`, nil},
		{"a path of 65 bytes", `"prompt_tokens":1,"completion_tokens":8,"` + strings.Repeat("x", 65) + `":1`, nil},
		{"a path of 64 bytes", `"prompt_tokens":1,"completion_tokens":8,"` + strings.Repeat("x", 64) + `":1`, use{"input": 1, "output": 8, strings.Repeat("x", 64): 1}},
		{"64 classes", `"prompt_tokens":1,"completion_tokens":8` + counters(62), merged(use{"input": 1, "output": 8}, 62)},
		{"a 65th class", `"prompt_tokens":1,"completion_tokens":8` + counters(63), nil},
		{"deeper than anything is read", `"prompt_tokens":1,"completion_tokens":8,"x":` + strings.Repeat(`{"x":`, 200) + "1" + strings.Repeat("}", 200), nil},
		{"an array deeper than anything is read", `"prompt_tokens":1,"completion_tokens":8,"x":` + strings.Repeat(`[`, 200) + "1" + strings.Repeat("]", 200), nil},
	} {
		body := `{"model":"m","choices":[{"message":{"content":"hi"}}],"usage":{` + c.usage + `}}`
		c.check(t, readBody(chatCall(`{"model":"m"}`), body))
		c.check(t, readStream(chatCall(`{"model":"m"}`), `{"choices":[]}`, body, `{"choices":[],"usage":null}`, `{"choices":[],"usage":{}}`, "[DONE]"))
	}
}

func counters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"c%d":1`, i)
	}
	return b.String()
}

func merged(u use, n int) use {
	for i := range n {
		u[fmt.Sprintf("c%d", i)] = 1
	}
	return u
}

// TestMessagesUsage: the rules of docs/design/metering.md, section 4, that no
// worked case shows.
func TestMessagesUsage(t *testing.T) {
	const hour = `{"model":"m","system":[{"cache_control":{"type":"ephemeral","ttl":"1h"},"text":"x"}]}`
	for _, c := range []struct {
		usageCase
		request string
	}{
		{usageCase{"no split", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":30`, use{"input": 1, "output": 2, "cache_write_5m": 30}}, ""},
		{usageCase{"no split, and an hour was asked for", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":30`, use{"input": 1, "output": 2, "unresolved_cache_write": 30}}, hour},
		{usageCase{"an empty split is none", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}`, use{"input": 1, "output": 2, "unresolved_cache_write": 30}}, hour},
		{usageCase{"split of an hour, total above it", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20}`, use{"input": 1, "output": 2, "cache_write_1h": 30}}, hour},
		{usageCase{"split of both, total above it", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":20}`, use{"input": 1, "output": 2, "unresolved_cache_write": 30}}, ""},
		{usageCase{"split of both, total below it", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":20}`, use{"input": 1, "output": 2, "unresolved_cache_write": 3}}, ""},
		{usageCase{"split without its total", `"input_tokens":1,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":20}`, use{"input": 1, "output": 2, "cache_write_5m": 1, "cache_write_1h": 20}}, ""},
		{usageCase{"a life that is unknown", `"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1w_input_tokens":4}`, use{"input": 1, "output": 2, "cache_write_5m": 3, "cache_creation.ephemeral_1w_input_tokens": 4}}, ""},
		{usageCase{"compaction with its caches", `"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"iterations":[
			{"type":"compaction","input_tokens":10,"output_tokens":20,"cache_read_input_tokens":30,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_1h_input_tokens":40}},
			{"type":"compaction","input_tokens":100,"output_tokens":200,"cache_creation_input_tokens":5},{"type":"message","input_tokens":1,"output_tokens":2}]`,
			use{"input": 111, "output": 222, "cache_read": 33, "cache_write_1h": 40, "cache_write_5m": 5}}, ""},
		{usageCase{"an iteration of another type", `"input_tokens":1,"output_tokens":2,"iterations":[{"type":"advisor","input_tokens":10},{"type":"advisor"}]`, use{"input": 1, "output": 2, "iterations.advisor": 2}}, ""},
		{usageCase{"an unknown counter of a compaction", `"input_tokens":1,"output_tokens":2,"iterations":[{"type":"compaction","new":5}]`, use{"input": 1, "output": 2, "iterations.compaction.new": 5}}, ""},
		{usageCase{"an iteration without a type", `"input_tokens":1,"output_tokens":2,"iterations":[{"input_tokens":10}]`, nil}, ""},
		{usageCase{"an iteration that is no object", `"input_tokens":1,"output_tokens":2,"iterations":[7]`, nil}, ""},
		{usageCase{"iterations that are no array", `"input_tokens":1,"output_tokens":2,"iterations":{}`, nil}, ""},
		{usageCase{"an iteration with a count that is none", `"input_tokens":1,"output_tokens":2,"iterations":[{"type":"compaction","input_tokens":-10}]`, nil}, ""},
		{usageCase{"a sum of 2^53 − 1", `"input_tokens":1,"output_tokens":2,"iterations":[{"type":"compaction","input_tokens":9007199254740990}]`, use{"input": 9007199254740991, "output": 2}}, ""},
		{usageCase{"a sum of 2^53", `"input_tokens":1,"output_tokens":2,"iterations":[{"type":"compaction","input_tokens":9007199254740991}]`, nil}, ""},
		{usageCase{"fallback credit", `"input_tokens":1,"output_tokens":2,"fallback_credit":{"amount":5}`, use{"input": 1, "output": 2, "fallback_credit": 1}}, ""},
		{usageCase{"no fallback credit", `"input_tokens":1,"output_tokens":2,"fallback_credit":null`, use{"input": 1, "output": 2}}, ""},
		{usageCase{"thinking above the output", `"input_tokens":1,"output_tokens":2,"output_tokens_details":{"thinking_tokens":3}`, use{"input": 1, "unresolved_output": 2}}, ""},
		{usageCase{"no input figure", `"output_tokens":2`, nil}, ""},
		{usageCase{"text for a count", `"input_tokens":"1","output_tokens":2`, nil}, ""},
	} {
		request := c.request
		if request == "" {
			request = `{"model":"m"}`
		}
		c.check(t, readBody(messagesCall(request), `{"model":"m","content":[],"usage":{`+c.usage+`}}`))
		start := `{"type":"message_start","message":{"model":"m","content":[],"usage":{` + c.usage + `}}}`
		c.check(t, readStream(messagesCall(request), start, `{"type":"ping"}`, `{"type":"message_delta","usage":{"output_tokens":2}}`, `{"type":"message_stop"}`))
	}
}

// TestMessagesStream: later figures overwrite, and what they leave out stays.
func TestMessagesStream(t *testing.T) {
	start := `{"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":6,"output_tokens":1,"service_tier":"batch","speed":"fast","inference_geo":"us","units":9}}}`
	r := readStream(messagesCall(`{"model":"asked"}`), start,
		`{"type":"message_delta","usage":{"output_tokens":20,"input_tokens":null,"cache_read_input_tokens":7}}`,
		`{"type":"message_delta","usage":{"output_tokens":10,"server_tool_use":{"web_search_requests":2},"units":0,"speed":"standard"}}`)
	usageCase{"overwritten", "", use{"input": 5, "cache_read": 7, "output": 10, "web_search": 2}}.check(t, r)
	want := map[string]string{"service_tier": "batch", "speed": "standard", "inference_geo": "us"}
	if !maps.Equal(r.Modifiers, want) {
		t.Errorf("modifiers %v, want %v", r.Modifiers, want)
	}
	if r.Model != "m" || r.RequestedModel != "asked" {
		t.Errorf("model %q, requested %q", r.Model, r.RequestedModel)
	}
	if got := string(r.RawUsage); !strings.HasPrefix(got, `[{"input_tokens":5,`) || strings.Count(got, "output_tokens") != 3 {
		t.Errorf("raw usage %s, want the three blocks as they came", got)
	}
	// One block that can't be read spoils them all: a later figure may lean on it.
	r = readStream(messagesCall(`{}`), strings.Replace(start, `"input_tokens":5`, `"input_tokens":-5`, 1), `{"type":"message_delta","usage":{"input_tokens":5,"output_tokens":20}}`)
	usageCase{"an unreadable block", "", nil}.check(t, r)
}

// TestRawUsage: the usage is kept as it came, byte for byte, unless it is large.
func TestRawUsage(t *testing.T) {
	usage := `{ "prompt_tokens": 1,"completion_tokens":2, "cost": 0.10}`
	if r := readBody(chatCall(`{}`), `{"choices":[],"usage":`+usage+`}`); string(r.RawUsage) != usage {
		t.Errorf("raw usage %s", r.RawUsage)
	}
	if r := readBody(chatCall(`{}`), `{"choices":[]}`); r.RawUsage != nil {
		t.Errorf("raw usage %s where none came", r.RawUsage)
	}
	large := `"service_tier":"` + strings.Repeat("x", 70<<10) + `"`
	for name, r := range map[string]meter.Reading{
		"chat":     readBody(chatCall(`{}`), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,`+large+`}}`),
		"messages": readBody(messagesCall(`{}`), `{"content":[],"usage":{"input_tokens":1,"output_tokens":2,`+large+`}}`),
	} {
		if r.RawUsage != nil || r.Note == "" || r.Source != chain.SourceReported {
			t.Errorf("%s: %d bytes of raw usage, note %q, %s", name, len(r.RawUsage), r.Note, r.Source)
		}
	}
}
