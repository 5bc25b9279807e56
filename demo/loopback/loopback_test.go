package loopback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/demo/loopback"
)

const key = "key-of-the-client"

func load(t *testing.T) []loopback.Case {
	t.Helper()
	cases, err := loopback.Load(filepath.Join("..", "..", "testdata", "billing", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// calls makes one call of every case, all of them with the case's own end.
func calls(cases []loopback.Case) []loopback.Call {
	var list []loopback.Call
	for i := range cases {
		list = append(list, loopback.Call{ID: i + 1, Case: &cases[i], End: cases[i].End, AsksUsage: true, Credential: key})
	}
	return list
}

func start(t *testing.T, seed uint64, list []loopback.Call) *loopback.Provider {
	t.Helper()
	p, err := loopback.New(seed, list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func request(t *testing.T, ctx context.Context, p *loopback.Provider, c loopback.Call) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+c.Case.Endpoint, bytes.NewReader(c.Case.Request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(loopback.CallHeader, strconv.Itoa(c.ID))
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func send(t *testing.T, r *http.Request) (int, string, error) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestServesEveryCaseByteForByte(t *testing.T) {
	cases := load(t)
	if len(cases) < 40 {
		t.Fatalf("%d cases, fewer than 40", len(cases))
	}
	for seed := range uint64(3) {
		list := calls(cases)
		p := start(t, seed, list)
		for _, c := range list {
			ctx, leave := context.WithCancel(t.Context())
			if c.End == loopback.EndClient {
				readAndLeave(t, request(t, ctx, p, c), leave, len(c.Case.Body))
				continue
			}
			status, body, err := send(t, request(t, ctx, p, c))
			if status != c.Case.Status || body != c.Case.Body || err != nil {
				t.Errorf("seed %d, %s: status %d, %d bytes, error %v", seed, c.Case.ID, status, len(body), err)
			}
			leave()
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if f := p.Faults(); len(f) > 0 {
			t.Errorf("seed %d: faults %q", seed, f)
		}
		if n := len(p.List()); n != len(list) {
			t.Errorf("seed %d: %d calls in the list, %d were made", seed, n, len(list))
		}
	}
}

// readAndLeave reads n bytes and hangs up.
func readAndLeave(t *testing.T, r *http.Request, leave context.CancelFunc, n int) {
	t.Helper()
	defer leave()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func TestBreaksOffAfterTheLastByte(t *testing.T) {
	cases := load(t)
	list := calls(cases)[:1]
	list[0].End = loopback.EndCut
	p := start(t, 1, list)
	_, body, err := send(t, request(t, t.Context(), p, list[0]))
	if !errors.Is(err, io.ErrUnexpectedEOF) || body != list[0].Case.Body {
		t.Errorf("%d of %d bytes, error %v", len(body), len(list[0].Case.Body), err)
	}
}

func TestFaults(t *testing.T) {
	cases := load(t)
	chat := slices.IndexFunc(cases, func(c loopback.Case) bool { return c.ID == "openai-stream-final-chunk" })
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   string
	}{
		{"nothing", func(*http.Request) {}, ""},
		{"path", func(r *http.Request) { r.URL.Path = "/v1/chat" }, "came as POST /v1/chat"},
		{"query", func(r *http.Request) { r.URL.RawQuery = "key=1" }, "came as POST"},
		{"host", func(r *http.Request) { r.Host = "127.0.0.1:7423" }, "Host is"},
		{"no key", func(r *http.Request) { r.Header.Del("Authorization") }, "0 credentials came"},
		{"two keys", func(r *http.Request) { r.Header.Set("X-Api-Key", key) }, "2 credentials came"},
		{"other key", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, "another than the client's"},
		{"secret in header", func(r *http.Request) { r.Header.Set("Referer", "/b/run-token/") }, "Referer carries a secret"},
		{"secret in body", func(r *http.Request) { setBody(r, `{"run-token":1}`) }, "body carries a secret"},
		{"no usage", func(r *http.Request) { setBody(r, `{"model":"gpt-5.5","stream":true}`) }, "does not ask for its usage"},
		{"other model", func(r *http.Request) { setBody(r, `{"model":"gpt-4"}`) }, `asks for model "gpt-4"`},
		{"no JSON", func(r *http.Request) { setBody(r, `{`) }, "no JSON"},
		{"no call", func(r *http.Request) { r.Header.Del(loopback.CallHeader) }, "no call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := calls(cases)[chat]
			p := start(t, 1, []loopback.Call{c})
			p.Forbid("run-token")
			r := request(t, t.Context(), p, c)
			tt.change(r)
			if _, _, err := send(t, r); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(p.Faults(), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
			if strings.Contains(got, "run-token/") || strings.Contains(got, key) {
				t.Errorf("a fault tells a secret: %q", got)
			}
		})
	}
}

func setBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

func TestCallThatComesTwiceIsAFault(t *testing.T) {
	c := calls(load(t))[0]
	p := start(t, 1, []loopback.Call{c})
	for range 2 {
		if _, _, err := send(t, request(t, t.Context(), p, c)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if f := p.Faults(); len(f) != 1 || !strings.Contains(f[0], "came twice") {
		t.Errorf("faults %q", f)
	}
	if n := len(p.List()); n != 2 {
		t.Errorf("%d calls in the list: both were served", n)
	}
}

// Every case goes through an upstream whose only row for the case's model is
// the case's own, and a model that the case leaves without a row has none.
func TestArrange(t *testing.T) {
	cases := load(t)
	a := loopback.Arrange(cases)
	names := map[string]loopback.Upstream{}
	for _, u := range a.Upstreams {
		if _, twice := names[u.Name]; twice {
			t.Errorf("two upstreams are called %s", u.Name)
		}
		names[u.Name] = u
	}
	for _, c := range cases {
		u := names[a.ByCase[c.ID]]
		if u.Vendor != c.Provider {
			t.Errorf("%s: upstream of %q, not of %q", c.ID, u.Vendor, c.Provider)
		}
		for _, r := range u.Rows {
			switch {
			case r.Model == c.Model && !sameJSON(t, r, c.PriceRow):
				t.Errorf("%s: upstream %s has another row for %s", c.ID, u.Name, r.Model)
			case r.Model != c.Model && (r.Model == c.Want.Model || slices.Contains(r.Aliases, c.Want.Model)):
				t.Errorf("%s: upstream %s has a row for %s, which the case leaves without", c.ID, u.Name, c.Want.Model)
			}
		}
	}
	if p := a.PriceFile(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)); bytes.Count(p, []byte("[[row]]")) < len(a.Upstreams)-1 {
		t.Errorf("the price file has too few rows:\n%s", p)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return bytes.Equal(x, y)
}

func TestSum(t *testing.T) {
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{nil, "0"},
		{[]string{"0", "0"}, "0"},
		{[]string{"0.1", "0.2"}, "0.3"},
		{[]string{"0.5", "0.50", "9"}, "10"},
		{[]string{"0.000000000000000000000001", "1000000"}, "1000000.000000000000000000000001"},
	} {
		if got, err := loopback.Sum(tt.in); got != tt.want || err != nil {
			t.Errorf("Sum(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "1e5", "+1", "-1", "01", ".5", "1.", "NaN", "1/2"} {
		if got, err := loopback.Sum([]string{bad}); err == nil {
			t.Errorf("Sum(%q) = %q", bad, got)
		}
	}
}

func TestBill(t *testing.T) {
	cost := "0.25"
	mk := func(w loopback.Want) loopback.Served {
		return loopback.Served{Call: &loopback.Call{Case: &loopback.Case{Want: w}}}
	}
	got, err := loopback.Bill([]loopback.Served{
		mk(loopback.Want{CostUSD: &cost, Source: "reported"}),
		mk(loopback.Want{CostUSD: &cost, Source: "estimated"}),
		mk(loopback.Want{Source: "none", Unpriced: true}),
	})
	if want := (loopback.Total{Calls: 3, Unpriced: 1, Estimated: 1, CostUSD: "0.5"}); got != want || err != nil {
		t.Errorf("Bill = %+v, %v", got, err)
	}
}
