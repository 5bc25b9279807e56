package chain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-audit/docket/chain"
)

// TestFormatPage holds docs/format.md against what the package does: the
// sections that comments cite, every closed type, every context, every limit
// and every member of a header.
func TestFormatPage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	var want []string
	for i, title := range []string{"Event", "Canonical JSON", "Hashes", "Money", "Tree, checkpoints, keys", "What the ledger itself proves", "Export", "Verdicts", "Receipt"} {
		want = append(want, fmt.Sprintf("\n## %d. %s\n", i+1, title))
	}
	for _, typ := range chain.ClosedTypes() {
		prefix := chain.Prefix(typ)
		_, row, ok := strings.Cut(page, "\n| `"+prefix+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		if word := "`" + strings.TrimPrefix(typ, prefix) + "`"; !ok || !strings.Contains(row, word) {
			t.Errorf("the page does not have the type %s", typ)
		}
	}
	want = append(want, "`"+contexts+"`", chain.FormatName, chain.ReceiptFormat, "65,536", "1,048,576", "2,097,152", "128 levels", "2^53 − 1")
	for _, kind := range []string{"event", "content", "part", "id", "genesis"} {
		want = append(want, "\n| `"+kind+"` | ")
	}
	seen := map[string]bool{}
	for _, text := range fullHeaders(t) {
		for _, m := range parseNode(t, text).members {
			seen[m.name] = true
		}
	}
	for name := range seen {
		if name != "run_seq" { // stands beside run
			want = append(want, "\n| `"+name+"`")
		}
	}
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("the page does not have %q", w)
		}
	}
}
