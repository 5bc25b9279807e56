package api_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

type receiptAnswer struct {
	Seq  uint64
	Hash string
	TS   string
}

func TestAppend(t *testing.T) {
	s := start(t)
	a := s.post("/v1/events", `{"type":"tool.call","content":{"name":"search"},"run":"r1","key":"k1"}`)
	got := decode[receiptAnswer](t, a)
	if a.status != http.StatusCreated || got.Seq != s.seq() || got.Hash != s.engine.Head().Hash.String() {
		t.Fatalf("%d %+v, head %d", a.status, got, s.seq())
	}
	if s.post("/v1/events", `{"type":"tool.call","content":{"name":"search"},"run":"r1","key":"k1"}`); s.seq() != got.Seq {
		t.Errorf("a repeat added event %d", s.seq())
	}
	again := s.post("/v1/events", `{"content":{ "name" : "search" },"run":"r1","key":"k1","type":"tool.call"}`)
	if again.status != http.StatusOK || decode[receiptAnswer](t, again) != got {
		t.Errorf("the repeat was answered %d %s", again.status, again.body)
	}
	other := s.post("/v1/events", `{"type":"tool.call","content":{"name":"other"},"run":"r1","key":"k1"}`)
	if other.status != http.StatusConflict || other.code() != "key-conflict" {
		t.Errorf("another draft under the key was answered %d %s", other.status, other.body)
	}
	events, err := s.engine.Read(got.Seq, 1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := chain.ParseHeader(events[0].Header)
	if err != nil || h.Run != "r1" || h.Key != "k1" || h.Peer == nil || string(events[0].Content) != `{"name":"search"}` {
		t.Errorf("%s %s: %v", events[0].Header, events[0].Content, err)
	}
}

// TestDoor is the table of docs/threats.md, section 9 at the API's own door,
// and every member of a draft with what is wrong with it.
func TestDoor(t *testing.T) {
	s := start(t)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	content := func(c string) string { return `{"type":"a.b","content":` + c + `}` }
	actor := func(a string) string { return `{"type":"a.b","content":{},"actor":` + a + `}` }
	part := func(p string) string { return `{"type":"a.b","content":{},"parts":` + p + `}` }
	for _, x := range []struct{ name, body, code, message string }{
		{"empty", ``, "bad-draft", "empty"},
		{"no object", `[]`, "bad-draft", "not an object"},
		{"without end", `{"type":"a.b","content":{}`, "bad-draft", "without end"},
		{"second value", `{"type":"a.b","content":{}}{}`, "bad-draft", "after the value"},
		{"BOM", "\ufeff" + content(`{}`), "bad-draft", "not JSON"},
		{"comma", `{"type":"a.b","content":{},}`, "bad-draft", "not JSON"},
		{"comment", `{"type":"a.b",/**/"content":{}}`, "bad-draft", "not JSON"},
		{"member twice", `{"type":"a.b","type":"a.b","content":{}}`, "bad-draft", "/type: member twice"},
		{"member twice by an escape", `{"type":"a.b","\u0074ype":"a.b","content":{}}`, "bad-draft", "/type: member twice"},
		{"other letters", `{"Type":"a.b","content":{}}`, "bad-draft", "/Type: unknown member"},
		{"unknown", `{"type":"a.b","content":{},"x/y":1}`, "bad-draft", "/x~1y: unknown member"},
		{"the service's", `{"type":"a.b","content":{},"meter":{}}`, "bad-draft", "/meter: is written by the service"},
		{"a fixed place", `{"type":"a.b","content":{},"seq":7}`, "bad-draft", "/seq: is written by the service"},
		{"no type", `{"content":{}}`, "bad-draft", "/type: missing"},
		{"no content", `{"type":"a.b"}`, "bad-draft", "/content: missing"},
		{"type of another type", `{"type":1,"content":{}}`, "bad-draft", "/type: not a string"},
		{"type malformed", `{"type":"Tool.call","content":{}}`, "bad-draft", "/type: "},
		{"reserved", `{"type":"model.request","content":{}}`, "reserved-type", "model."},
		{"reserved for later", `{"type":"import.usage","content":{}}`, "reserved-type", "import."},
		{"run empty", `{"type":"a.b","content":{},"run":""}`, "bad-draft", "/run: empty"},
		{"run null", `{"type":"a.b","content":{},"run":null}`, "bad-draft", "/run: not a string"},
		{"run with a space", `{"type":"a.b","content":{},"run":"a b"}`, "bad-draft", "/run: "},
		{"run too long", `{"type":"a.b","content":{},"run":"` + strings.Repeat("r", 129) + `"}`, "bad-draft", "/run: "},
		{"key empty", `{"type":"a.b","content":{},"key":""}`, "bad-draft", "/key: empty"},
		{"key not ASCII", `{"type":"a.b","content":{},"key":"é"}`, "bad-draft", "/key: "},
		{"content no object", content(`[]`), "bad-draft", "/content"},
		{"content null", content(`null`), "bad-draft", "/content"},
		{"duplicate inside", content(`{"a":{"b":1,"b":2}}`), "bad-draft", "/content/a/b: member twice"},
		{"duplicate by an escape", content(`{"a":1,"\u0061":2}`), "bad-draft", "/content/a: member twice"},
		{"lone surrogate", content(`{"a":"\ud800"}`), "bad-draft", "/content"},
		{"no UTF-8", content("{\"a\":\"\xff\"}"), "bad-draft", "invalid UTF-8"},
		{"large integer", content(`{"a":9007199254740993}`), "bad-draft", "/content/a: "},
		{"1e400", content(`{"a":[1e400]}`), "bad-draft", "/content/a/0: "},
		{"1e-400", content(`{"a":1e-400}`), "bad-draft", "/content/a: "},
		{"long fraction", content(`{"a":0.10000000000000000001}`), "bad-draft", "/content/a: "},
		{"-0", content(`{"a":-0}`), "bad-draft", "/content/a: "},
		{"-0e5", content(`{"a":-0e5}`), "bad-draft", "/content/a: "},
		{"01", content(`{"a":01}`), "bad-draft", "/content: not JSON"},
		{"NaN", content(`{"a":NaN}`), "bad-draft", "/content: not JSON"},
		{"depth 129", content(deep(129)), "bad-draft", "128 levels"},
		{"content too large", content(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), "bad-draft", "/content"},
		{"actor no object", actor(`"me"`), "bad-draft", "/actor: not an object"},
		{"actor without pass", actor(`{"role":"r","context":"c"}`), "bad-draft", "/actor/pass: missing"},
		{"actor in other letters", actor(`{"Role":"r","context":"c","pass":"p"}`), "bad-draft", "/actor/Role: unknown member"},
		{"actor twice", actor(`{"role":"r","role":"r","context":"c","pass":"p"}`), "bad-draft", "/actor/role: member twice"},
		{"actor with a surrogate", actor(`{"role":"\udc00","context":"c","pass":"p"}`), "bad-draft", "/actor/role: "},
		{"actor with a control character", actor(`{"role":"a\u202eb","context":"c","pass":"p"}`), "bad-draft", "/actor/role: "},
		{"fence 0", actor(`{"role":"r","context":"c","pass":"p","fence":0}`), "bad-draft", "/actor/fence: "},
		{"fence with a fraction", actor(`{"role":"r","context":"c","pass":"p","fence":1.5}`), "bad-draft", "/actor/fence: "},
		{"fence beyond 2^53", actor(`{"role":"r","context":"c","pass":"p","fence":9007199254740992}`), "bad-draft", "/actor/fence: "},
		{"fence of no lock", actor(`{"role":"r","context":"c","pass":"p","fence":3}`), "fence-stale", "fence 3"},
		{"parts empty", part(`{}`), "bad-draft", "/parts: empty"},
		{"part without media", part(`{"p":{"data":""}}`), "bad-draft", "/parts/p/media: missing"},
		{"part without data", part(`{"p":{"media":"a/b"}}`), "bad-draft", "/parts/p/data: missing"},
		{"part with more", part(`{"p":{"media":"a/b","data":"","commit":"0"}}`), "bad-draft", "/parts/p/commit: unknown member"},
		{"part twice", part(`{"p":{"media":"a/b","data":""},"p":{"media":"a/b","data":""}}`), "bad-draft", "/parts/p: member twice"},
		{"base64 with a line break", part(`{"p":{"media":"a/b","data":"aGVs\nbG8="}}`), "bad-draft", "/parts/p/data: "},
		{"base64 without padding", part(`{"p":{"media":"a/b","data":"aGVsbG8"}}`), "bad-draft", "/parts/p/data: "},
		{"base64 with bits set", part(`{"p":{"media":"a/b","data":"aGVsbG9="}}`), "bad-draft", "/parts/p/data: "},
		{"media with a space", part(`{"p":{"media":"text/plain; charset=utf-8","data":""}}`), "bad-draft", "/parts/p/media: "},
		{"part name with a space", part(`{"a b":{"media":"a/b","data":""}}`), "bad-draft", "/parts"},
	} {
		t.Run(x.name, func(t *testing.T) {
			before := s.seq()
			a := s.post("/v1/events", x.body)
			if a.status < 400 || a.code() != x.code || !strings.Contains(a.body, x.message) {
				t.Errorf("%d %s, want %s with %q", a.status, a.body, x.code, x.message)
			}
			if s.seq() != before {
				t.Error("something was written")
			}
		})
	}
	for _, good := range []string{
		content(deep(128)), content(`{"a":9007199254740992,"b":0.1,"c":5e-324,"d":1.0,"e":1E21,"f":"\/"}`),
		actor(`{"role":"ré","context":"c","pass":"p"}`),
	} {
		if a := s.post("/v1/events", good); a.status != http.StatusCreated {
			t.Errorf("%.80s: %d %s", good, a.status, a.body)
		}
	}
}

// form is a multipart request under construction.
type form struct {
	b bytes.Buffer
	w *multipart.Writer
}

func newForm() *form {
	f := &form{}
	f.w = multipart.NewWriter(&f.b)
	if err := f.w.SetBoundary("B"); err != nil {
		panic(err)
	}
	return f
}

func (f *form) add(name, media, data string, more ...string) *form {
	h := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", name)}}
	if media != "" {
		h.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	w, _ := f.w.CreatePart(h)
	w.Write([]byte(data))
	return f
}

// end closes the form and returns its bytes.
func (f *form) end() string {
	f.w.Close()
	return f.b.String()
}

const plainDraft = `{"type":"tool.call","content":{}}`

func TestMultipart(t *testing.T) {
	s := start(t)
	body := strings.Repeat("=0A body that quoted-printable would change\n", 50_000)
	send := func(f *form) answer {
		return s.do("POST", "/v1/events", f.w.FormDataContentType(), f.end())
	}
	keyed := `{"type":"tool.call","content":{},"key":"k"}`
	for _, draft := range []string{plainDraft, keyed, keyed} {
		a := send(newForm().add("draft", "application/json", draft).add("in", "text/plain", body).add("out", "a/b", ""))
		if a.status >= 300 {
			t.Fatal(a.status, a.body)
		}
		events, err := s.engine.Read(decode[receiptAnswer](t, a).Seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := chain.ParseHeader(events[0].Header)
		if err != nil {
			t.Fatal(err)
		}
		in := h.Parts["in"]
		if in.Bytes != uint64(len(body)) || in.Media != "text/plain" || in.Commit != chain.PartCommit(events[0].PartSalts["in"], []byte(body)) || len(h.Parts) != 2 {
			t.Errorf("parts %+v", h.Parts)
		}
	}
	other := send(newForm().add("draft", "application/json", keyed).add("in", "text/plain", body[1:]).add("out", "a/b", ""))
	if other.code() != "key-conflict" {
		t.Errorf("another body under the key: %d %s", other.status, other.body)
	}
	const asDraft = "application/json"
	for name, x := range map[string]struct{ body, code string }{
		"draft not first":   {newForm().add("in", "a/b", "x").add("draft", asDraft, plainDraft).end(), "bad-request"},
		"no part":           {newForm().end(), "bad-request"},
		"draft with parts":  {newForm().add("draft", asDraft, `{"type":"a.b","content":{},"parts":{"p":{"media":"a/b","data":""}}}`).end(), "bad-draft"},
		"file twice":        {newForm().add("draft", asDraft, plainDraft).add("in", "a/b", "x").add("in", "a/b", "y").end(), "bad-draft"},
		"file without name": {newForm().add("draft", asDraft, plainDraft).add("", "a/b", "x").end(), "bad-request"},
		"file without type": {newForm().add("draft", asDraft, plainDraft).add("in", "", "x").end(), "bad-draft"},
		"transfer encoding": {newForm().add("draft", asDraft, plainDraft).add("in", "a/b", "x", "Content-Transfer-Encoding", "quoted-printable").end(), "unsupported-media"},
		"cut":               {newForm().add("draft", asDraft, plainDraft).add("in", "text/plain", body).b.String(), "bad-request"},
	} {
		before := s.seq()
		if a := s.do("POST", "/v1/events", "multipart/form-data; boundary=B", x.body); a.code() != x.code {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.body, x.code)
		}
		if s.seq() != before {
			t.Errorf("%s: something was written", name)
		}
	}
}

func TestMediaAndSize(t *testing.T) {
	s := start(t)
	before := s.seq()
	for _, x := range []struct {
		name, media, body, code string
		header                  []string
	}{
		{"no type", "", plainDraft, "unsupported-media", nil},
		{"text", "text/plain", plainDraft, "unsupported-media", nil},
		{"form", "application/x-www-form-urlencoded", "type=a.b", "unsupported-media", nil},
		{"gzip", "application/json", plainDraft, "unsupported-media", []string{"Content-Encoding", "gzip"}},
		{"no boundary", "multipart/form-data", plainDraft, "bad-request", nil},
		{"too large", "application/json", strings.Repeat(" ", 17<<20), "too-large", nil},
		{"upgrade", "application/json", plainDraft, "upgrade-refused", []string{"Upgrade", "h2c", "Connection", "Upgrade"}},
	} {
		if a := s.do("POST", "/v1/events", x.media, x.body, x.header...); a.code() != x.code {
			t.Errorf("%s: %d %s, want %s", x.name, a.status, a.body, x.code)
		}
	}
	if s.seq() != before {
		t.Error("something was written")
	}
}
