package imports_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// impureNames are the names, by package, that read the clock, wait for it or
// draw from a source of randomness.
var impureNames = map[string][]string{
	"time":           {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Timer", "Ticker"},
	"context":        {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"crypto/ed25519": {"GenerateKey"},
	"hash/maphash":   {"MakeSeed", "String", "Bytes", "Comparable"},
}

// impure lists where the file reads the clock, uses a timer or draws random
// values. It goes by the syntax: a name of a package that the file imports,
// under whatever name, called or not.
func impure(t *testing.T, name, path string) []string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	report := func(n ast.Node, what string) {
		problems = append(problems, fmt.Sprintf("%s: %s:%d: %s", name, filepath.Base(path), set.Position(n.Pos()).Line, what))
	}
	local := map[string]string{} // by the name in this file
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(random, imported) {
			report(spec, "imports "+imported)
			continue
		}
		if impureNames[imported] == nil {
			continue
		}
		as := imported[strings.LastIndexByte(imported, '/')+1:]
		if spec.Name != nil {
			as = spec.Name.Name
		}
		if as == "." {
			report(spec, "imports the names of "+imported+" as its own")
		}
		local[as] = imported
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && slices.Contains(impureNames[local[x.Name]], sel.Sel.Name) {
			report(sel, "uses "+local[x.Name]+"."+sel.Sel.Name)
		}
		return true
	})
	return problems
}
