package imports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/docket-audit/docket"

// listed is what the go command says of one package.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, CgoFiles                  []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
	Standard                           bool
	Error                              *struct{ Err string }
}

func TestImports(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	touchTree(t, root)
	for _, problem := range check(t, root, modulePath) {
		t.Error(problem)
	}
}

// touchTree looks at every folder of the module, so that the go command's
// cache of test results knows what this test depends on: it sees what a test
// reads, and not what a command that the test starts reads.
func touchTree(t *testing.T, root string) {
	t.Helper()
	folders := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders++
			if name := d.Name(); name == "testdata" || path != root && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
		}
		return err
	})
	if err != nil || folders < 5 {
		t.Fatalf("walked %d folders of %s: %v", folders, root, err)
	}
}

// check lists what in the module at root is against the table, sorted.
func check(t *testing.T, root, module string) []string {
	t.Helper()
	var problems []string
	for _, goos := range []string{"linux", "darwin"} {
		all := list(t, root, goos, "-deps")
		own := list(t, root, goos)
		if len(own) == 0 {
			t.Fatalf("no packages in %s", root)
		}
		outside := map[string]bool{}
		for _, p := range all {
			if !p.Standard && !within(p.ImportPath, module) {
				outside[p.ImportPath] = true
			}
		}
		for _, p := range own {
			c := checker{module: module, p: p, outside: outside}
			problems = append(problems, c.check(t)...)
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

func list(t *testing.T, dir, goos string, flags ...string) []listed {
	t.Helper()
	args := append([]string{"list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports,Deps,Standard,Error"}, flags...)
	c := exec.Command("go", append(args, "./...")...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v\n%s", dir, err, &stderr)
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// within says whether path is the package root or one below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func withinAny(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(path, root) })
}

// checker holds one package against its row.
type checker struct {
	module  string
	p       listed
	outside map[string]bool // packages of other modules that are in use
}

// own is path without the module's, where it is of the module.
func (c *checker) own(path string) (string, bool) {
	if path == c.module {
		return ".", true
	}
	return strings.CutPrefix(path, c.module+"/")
}

func (c *checker) check(t *testing.T) []string {
	name, _ := c.own(c.p.ImportPath)
	if c.p.Error != nil {
		return []string{fmt.Sprintf("%s: can't be listed: %s", name, c.p.Error.Err)}
	}
	r, ok := table[name]
	if !ok {
		return []string{name + ": has no row in the table"}
	}
	var problems []string
	for _, path := range c.p.Imports {
		if reason := c.refuse(r, path); reason != "" {
			problems = append(problems, fmt.Sprintf("%s: imports %s: %s", name, c.short(path), reason))
		}
	}
	for _, path := range c.p.Deps {
		if !c.neverThrough(r, path) || slices.ContainsFunc(c.p.Imports, func(direct string) bool { return within(direct, path) }) {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: imports something that imports %s: never", name, c.short(path)))
	}
	if r.tests {
		for _, path := range append(slices.Clone(c.p.TestImports), c.p.XTestImports...) {
			if own, ok := c.own(path); ok && own != name && !slices.Contains(r.docket, own) {
				problems = append(problems, fmt.Sprintf("%s: its tests import %s: not in its row", name, own))
			}
		}
	}
	if r.pure {
		for _, file := range append(slices.Clone(c.p.GoFiles), c.p.CgoFiles...) {
			problems = append(problems, impure(t, name, filepath.Join(c.p.Dir, file))...)
		}
	}
	return problems
}

func (c *checker) short(path string) string {
	if own, ok := c.own(path); ok {
		return own
	}
	return path
}

// refuse says why the code of a package with row r may not import path.
func (c *checker) refuse(r row, path string) string {
	own, ours := c.own(path)
	switch {
	case withinAny(c.short(path), r.never):
		return "never"
	case ours && table[own].onlyTests:
		return "for tests alone"
	case ours && !slices.Contains(r.docket, own) && !slices.Contains(r.docket, "*"):
		return "not in its row"
	case c.outside[path] && !withinAny(path, r.outside):
		return "not in its row"
	}
	return ""
}

// neverThrough says whether path, which the package has from something that it
// imports, is one that it must not even have so.
func (c *checker) neverThrough(r row, path string) bool {
	if within(path, "net") {
		return slices.Contains(r.never, path)
	}
	_, ours := c.own(path)
	return withinAny(c.short(path), r.never) && (ours || c.outside[path])
}
