package boundary_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/docket-audit/docket/internal/boundary"
)

// TestMedia spells content types as a part's media takes them.
func TestMedia(t *testing.T) {
	for given, want := range map[string]string{
		"":                                 "application/octet-stream",
		"  ;; ":                            "application/octet-stream",
		"application/json":                 "application/json",
		"text/event-stream; charset=utf-8": "text/event-stream;charset=utf-8",
		"text/plain; x=\"a b\"":            `text/plain;x="a%20b"`,
		"text/\u00e9":                      "text/%C3%A9",
	} {
		if got := boundary.MediaOf(http.Header{"Content-Type": {given}}); got != want {
			t.Errorf("%q is %q, want %q", given, got, want)
		}
	}
	if got := boundary.MediaOf(http.Header{"Content-Type": {strings.Repeat("x", 200)}}); len(got) > 128 {
		t.Errorf("media of %d bytes", len(got))
	}
}

// TestBudget lets in what fits, in the order of coming, and forgets who leaves.
func TestBudget(t *testing.T) {
	b := boundary.NewBudget(10)
	if err := b.Take(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	leaver, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- b.Take(leaver, 10) }()
	eventually(t, "one waiter", func() bool { return b.Waiting() == 1 })
	small := make(chan error)
	go func() { small <- b.Take(t.Context(), 4) }()
	eventually(t, "two waiters", func() bool { return b.Waiting() == 2 }) // it fits, but is not first
	leave()
	if err := <-left; err == nil {
		t.Error("who left was let in")
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	b.Give(6)
	b.Give(4)
	var wg sync.WaitGroup
	for n := range int64(200) {
		wg.Go(func() {
			if err := b.Take(t.Context(), n%11); err != nil {
				t.Error(err)
			}
			b.Give(n % 11)
		})
	}
	wg.Wait()
	// Who leaves at the moment of being let in gives its share back.
	for range 2000 {
		if err := b.Take(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if b.Take(ctx, 10) == nil {
				b.Give(10)
			}
		})
		eventually(t, "a waiter", func() bool { return b.Waiting() == 1 })
		cancel()
		b.Give(10)
		wg.Wait()
		if b.Free() != 10 {
			t.Fatalf("%d free", b.Free())
		}
	}
	if b.Free() != 10 || b.Waiting() != 0 {
		t.Errorf("%d free, %d waiting at the end", b.Free(), b.Waiting())
	}
}

// TestBudgetIsGivenBack has all of a boundary's budget free after calls that
// ended in each way.
func TestBudgetIsGivenBack(t *testing.T) {
	up := provider(t, answerChat)
	b := newBench(t, setup{upstreams: upstreams(up.URL)})
	whole := boundary.BudgetOf(b.handler).Free()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		if _, _, err := b.post(b.url("openai", path), chatBody); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.post(b.url("openai", "/v1/chat/completions"), strings.Repeat("x", boundary.MinBody+1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.do(http.MethodPost, b.url("openai", "/v1/chat/completions"), strings.NewReader(chatBody), "Content-Encoding", "gzip"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the whole budget", func() bool { return boundary.BudgetOf(b.handler).Free() == whole })
}
