package chain_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// worked writes the ledger of two events that the package's doc shows, step by
// step. Real salts and nonces come from the system's random source; these are
// fixed so that the bytes can stand on a page.
func worked(w io.Writer) error {
	nonce := chain.Salt{0x0f}
	created := chain.Created{CreatedBy: "example", Keys: []chain.Key{}, Ledger: chain.LedgerID(nil, nonce), Nonce: nonce}
	first := event(&chain.Header{
		Seq: 1, TS: "2026-11-30T12:00:00.000000000Z", Type: chain.TypeCreated,
		Prev: chain.Genesis(created.Ledger),
	}, chain.Salt{1}, created.Append(nil))

	said, err := chain.CanonicalContent([]byte(`{ "name": "read_file", "limit": 1e2 }`))
	if err != nil {
		return err
	}
	second := event(&chain.Header{
		Seq: 2, TS: "2026-11-30T12:00:01.500000000Z", Type: "tool.call",
		Prev: first.Hash,
	}, chain.Salt{2}, said)

	var tree chain.Frontier
	tree.Add(first.Hash)
	tree.Add(second.Hash)
	root := tree.Root()
	trailer := chain.Trailer{Events: 2, First: 1, Last: 2, Head: second.Hash, Root: &root}

	fmt.Fprintf(w, "id      %s\n", created.Ledger)
	for _, e := range []*chain.Event{first, second} {
		fmt.Fprintf(w, "content %s\nheader  %s\nhash    %s\n", e.Content, e.Header, e.Hash)
	}
	fmt.Fprintf(w, "line    %s\ntrailer %s\n", second.AppendLine(nil), trailer.AppendLine(nil))
	return nil
}

// event commits to content and hashes the header.
func event(h *chain.Header, salt chain.Salt, content []byte) *chain.Event {
	h.Content = chain.ContentCommit(salt, content)
	header := h.Append(nil)
	return &chain.Event{Hash: chain.EventHash(header), Header: header, Content: content, Salt: salt}
}

// A ledger of two events, from its id to the trailer of its export.
func Example() {
	if err := worked(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// id      271ce01e362e7aac1e4100493f071530
	// content {"created_by":"example","format":"docketd.ledger/1","keys":[],"ledger":"271ce01e362e7aac1e4100493f071530","nonce":"0f000000000000000000000000000000"}
	// header  {"content":"b73980a6115ec288c087622e4c8550d237eaa952c24cecf7ecaa9679a7c92fc8","prev":"6e2cb67cf5e985b09c5053b5e484986cb1d98042a3698e54d255e679f7af7d03","seq":1,"ts":"2026-11-30T12:00:00.000000000Z","type":"ledger.created"}
	// hash    7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5
	// content {"limit":100,"name":"read_file"}
	// header  {"content":"7012fad0899c1a3f3fb2efaf4bf5250e3e624dba1db316c7bf65366cc1625091","prev":"7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5","seq":2,"ts":"2026-11-30T12:00:01.500000000Z","type":"tool.call"}
	// hash    e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869
	// line    {"content":{"limit":100,"name":"read_file"},"hash":"e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869","header":{"content":"7012fad0899c1a3f3fb2efaf4bf5250e3e624dba1db316c7bf65366cc1625091","prev":"7326e5bfe52cbf8be03f72536b693f9e787f64556f448f0da1bf00baef034dd5","seq":2,"ts":"2026-11-30T12:00:01.500000000Z","type":"tool.call"},"salt":"02000000000000000000000000000000"}
	// trailer {"trailer":{"bodies":0,"erased":0,"events":2,"first":1,"head":"e033d6e75fad5b54b93b7706f923ffd4578a64111f3d7418b6bf7b95214c6869","last":2,"root":"4694f544b6220fa92e4ac67f84a79f5cb0ef24117bf2281c4619bcc9cb941989","withheld":0}}
}

// TestDocShowsExample: every line that the example prints stands in the
// package's doc.
func TestDocShowsExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := worked(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if !strings.Contains(string(doc), "//\t"+line) {
			t.Errorf("the doc does not show %s", line)
		}
	}
}
