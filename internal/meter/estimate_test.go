package meter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/docket-audit/docket/internal/meter"
)

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       uint64
		refused    string // what the reason names
	}{
		{"all the members that count, at any depth", `{"messages":"1","input":["2"],"prompt":"3","system":[{"text":"4"}],"instructions":"5","contents":[[["6"]]],"systemInstruction":{"a":{"b":"7"}},"tools":[{"x":"8"}],"model":"not","user":"not"}`, 3, ""},
		{"names do not count", `{"messages":[{"aaaaaaaaaaaa":"123"}]}`, 1, ""},
		{"rounded up", `{"messages":["1234"]}`, 2, ""},
		{"bytes, not characters", `{"messages":["\u20ac€"]}`, 2, ""},
		{"numbers and the like do not count", `{"messages":[1,true,null,{"a":2.5}]}`, 0, ""},
		{"nothing", `{}`, 0, ""},
		{"null members", `{"messages":null,"previous_response_id":null,"conversation":null,"prompt":null,"input":["123"]}`, 1, ""},
		{"null media", `{"messages":[{"source":null,"text":"123"}]}`, 1, ""},
		{"media in tools are names", `{"tools":[{"parameters":{"data":{"type":"string"},"source":"x"}}]}`, 3, ""},
		{"media names elsewhere", `{"data":"x","source":"y","metadata":{"file_id":"z"},"input":"123"}`, 1, ""},
		{"previous response", `{"input":"x","previous_response_id":"resp_1"}`, 0, "previous_response_id"},
		{"conversation", `{"input":"x","conversation":{"id":"c"}}`, 0, "conversation"},
		{"cached content", `{"contents":[],"cachedContent":"c"}`, 0, "cachedContent"},
		{"stored prompt", `{"prompt":{"id":"p"}}`, 0, "prompt"},
		{"data", `{"input":[{"data":"QUJD"}]}`, 0, "data"},
		{"source", `{"messages":[{"content":[{"type":"image","source":{}}]}]}`, 0, "source"},
		{"image_url", `{"messages":[{"image_url":"x"}]}`, 0, "image_url"},
		{"input_audio", `{"messages":[{"input_audio":{}}]}`, 0, "input_audio"},
		{"file_data", `{"contents":[{"file_data":{}}]}`, 0, "file_data"},
		{"file_id", `{"input":[{"file_id":"f"}]}`, 0, "file_id"},
		{"inlineData", `{"contents":[{"parts":[{"inlineData":{}}]}]}`, 0, "inlineData"},
		{"inline_data", `{"contents":[{"parts":[{"inline_data":{}}]}]}`, 0, "inline_data"},
		{"fileData", `{"systemInstruction":{"fileData":{}}}`, 0, "fileData"},
		{"not JSON", `hello`, 0, "read request"},
		{"cut off", `{"messages":["123"`, 0, "read request"},
		{"no object", `["messages"]`, 0, "read request"},
		{"empty", ``, 0, "read request"},
		{"broken characters still count", "{\"messages\":[\"\\ud800abcdef\"]}", 3, ""},
	} {
		got, err := meter.Estimate([]byte(c.body))
		switch {
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		case c.refused != "" && (!errors.Is(err, meter.ErrNoEstimate) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %d, %v, want a refusal that names %s", c.name, got, err, c.refused)
		}
	}
}

func TestAddIncludeUsage(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"absent", `{"model":"m","stream":true}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{"the rest keeps its form", " {\n \"stream\" : true , \"n\": 1.0e0, \"s\":\"\\u0061\" \n} \n", " {\n \"stream\" : true , \"n\": 1.0e0, \"s\":\"\\u0061\" \n,\"stream_options\":{\"include_usage\":true}} \n"},
		{"null", `{"stream":true,"stream_options":null,"a":1}`, `{"stream":true,"stream_options":{"include_usage":true},"a":1}`},
		{"empty", `{"stream_options": { },"stream":true}`, `{"stream_options": { "include_usage":true},"stream":true}`},
		{"other options", `{"stream":true,"stream_options":{"x":[1, 2]}}`, `{"stream":true,"stream_options":{"x":[1, 2],"include_usage":true}}`},
		{"false", `{"stream":true,"stream_options":{"include_usage": false ,"x":1}}`, `{"stream":true,"stream_options":{"include_usage": true ,"x":1}}`},
		{"null inside", `{"stream":true,"stream_options":{"include_usage":null}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"asked for already", `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"no stream", `{"model":"m"}`, ""},
		{"stream false", `{"stream":false}`, ""},
		{"stream is no boolean", `{"stream":"true"}`, ""},
		{"stream twice", `{"stream":true,"stream":true}`, ""},
		{"options twice", `{"stream":true,"stream_options":{},"stream_options":{}}`, ""},
		{"include_usage twice", `{"stream":true,"stream_options":{"include_usage":false,"include_usage":false}}`, ""},
		{"another spelling of a name is the same name", `{"stream":true,"stream_option\u0073":{"include_usage":true}}`, ""},
		{"options of another type", `{"stream":true,"stream_options":[]}`, ""},
		{"include_usage of another type", `{"stream":true,"stream_options":{"include_usage":1}}`, ""},
		{"cut off", `{"stream":true`, ""},
		{"something behind", `{"stream":true}{}`, ""},
		{"no object", `[]`, ""},
		{"no JSON", `hello`, ""},
		{"empty body", ``, ""},
	} {
		before := c.body
		body := []byte(c.body)
		got, ok := meter.AddIncludeUsage(body)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t, want %q", c.name, got, ok, c.want)
		}
		if string(body) != before {
			t.Errorf("%s: the body itself was changed to %q", c.name, body)
		}
		if ok && !meter.ParseRequest(chatCall(string(got))).IncludeUsage {
			t.Errorf("%s: %s does not ask for usage", c.name, got)
		}
	}
}

// FuzzAddIncludeUsage: an edit leaves every byte that was there, but for a
// false or null that it replaces, and makes the request ask for usage.
func FuzzAddIncludeUsage(f *testing.F) {
	for _, s := range []string{`{"stream":true}`, `{"stream":true,"stream_options":{}}`, `{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":false}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := meter.AddIncludeUsage(body)
		if !ok {
			return
		}
		if r := meter.ParseRequest(chatCall(string(got))); !r.Stream || !r.IncludeUsage {
			t.Fatalf("%q became %q: %+v", body, got, r)
		}
		start := 0
		for start < len(body) && body[start] == got[start] {
			start++
		}
		end := 0
		for end < len(body)-start && body[len(body)-1-end] == got[len(got)-1-end] {
			end++
		}
		if replaced := string(body[start : len(body)-end]); replaced != "" && !strings.Contains("false null", replaced) {
			t.Fatalf("%q became %q: %q was replaced", body, got, replaced)
		}
	})
}
