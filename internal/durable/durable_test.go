package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-audit/docket/internal/durable"
)

func content(s string) func(*os.File) error {
	return func(f *os.File) error { _, err := f.WriteString(s); return err }
}

// stands is what stands in dir: names and contents.
func stands(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !e.IsDir() {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func only(t *testing.T, dir, name, want string) {
	t.Helper()
	if got := stands(t, dir); len(got) != 1 || got[name] != want {
		t.Errorf("in the folder: %q", got)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.WriteFile(path, 0o640, durable.Create, content("one")); err != nil {
		t.Fatal(err)
	}
	only(t, dir, "f", "one")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	if err := durable.WriteFile(path, 0o600, durable.Create, content("two")); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	only(t, dir, "f", "one")
	if err := durable.WriteFile(path, 0o600, durable.Replace, content("three")); err != nil {
		t.Fatal(err)
	}
	only(t, dir, "f", "three")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// The permissions are those asked for, whatever the process's mask is.
func TestPermissionsAndMask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "f")
	if err := durable.WriteFile(path, 0o644, durable.Create, content("")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Error(info.Mode(), err)
	}
}

// While the content is written, the name holds what it held before.
func TestNameComesLast(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := durable.WriteFile(path, 0o600, durable.Replace, func(f *os.File) error {
		if filepath.Dir(f.Name()) != dir {
			t.Errorf("written in %s", f.Name())
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
			t.Errorf("%q %v", b, err)
		}
		return content("new")(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	only(t, dir, "f", "new")
}

// Whatever fails, the old file stands as it was and nothing is left beside it.
func TestErrorsLeaveNothing(t *testing.T) {
	no := errors.New("no")
	for _, mode := range []durable.Mode{durable.Create, durable.Replace} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func(*os.File) error{
			"write": func(f *os.File) error { return errors.Join(content("half")(f), no) },
			"sync":  func(f *os.File) error { return f.Close() },
			"name":  func(f *os.File) error { return os.Remove(f.Name()) },
		} {
			if err := durable.WriteFile(filepath.Join(dir, "f"), 0o600, mode, write); err == nil {
				t.Errorf("%s: no error", name)
			}
			only(t, dir, "f", "old")
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "d"), 0o600, durable.Replace, content("x")); err == nil {
		t.Error("a folder was replaced")
	}
	only(t, dir, "d", "")
	if err := durable.WriteFile(filepath.Join(dir, "no", "f"), 0o600, durable.Create, content("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A dangling link is something that stands there.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "f")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(link, 0o600, durable.Create, content("x")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := durable.WriteFile(link, 0o600, durable.Replace, content("x")); err != nil {
		t.Error(err)
	}
	only(t, dir, "f", "x") // the link itself is replaced, its target is not made
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := durable.MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for p := deep; p != dir; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o700 || !info.IsDir() {
			t.Error(p, info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"f", "f/x"} {
		if err := durable.MkdirAll(filepath.Join(dir, p), 0o700); err == nil {
			t.Errorf("made %s", p)
		}
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := durable.Remove(filepath.Join(dir, "no", "f")); err == nil {
		t.Error("no error without a folder")
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Remove(path); err == nil {
		t.Error("a folder was removed")
	}
}

// Only what Temp left beside this path goes away.
func TestRemoveTemps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	left, err := durable.Temp(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	keep := []string{"f", "f.tmp", ".f.tmpx", ".g.1.tmp", ".f", "x.f.1.tmp"}
	for _, n := range keep {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.RemoveTemps(path); err != nil {
		t.Fatal(err)
	}
	got := stands(t, dir)
	if len(got) != len(keep) {
		t.Errorf("in the folder: %q", got)
	}
	for _, n := range keep {
		if _, ok := got[n]; !ok {
			t.Errorf("%s is gone", n)
		}
	}
	if err := durable.RemoveTemps(filepath.Join(dir, "no", "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A path without a folder means the current one.
	t.Chdir(dir)
	if left, err = durable.Temp("f", 0o600); err != nil {
		t.Fatal(err)
	}
	left.Close()
	if err := durable.RemoveTemps("f"); err != nil {
		t.Error(err)
	}
	if got := stands(t, dir); len(got) != len(keep) {
		t.Errorf("in the folder: %q", got)
	}
}

func TestSyncDir(t *testing.T) {
	if err := durable.SyncDir(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := durable.SyncDir(filepath.Join(t.TempDir(), "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
