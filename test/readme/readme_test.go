// Package readme_test runs what the documents tell people to run.
package readme_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

// TestCommandsOfTheReadmeRun runs every sh block of the README in one shell, in
// order, in a new home, with the programs built from this tree.
func TestCommandsOfTheReadmeRun(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(readme, -1)
	if len(blocks) < 5 {
		t.Fatalf("%d blocks found", len(blocks))
	}
	var script strings.Builder
	script.WriteString("set -e\n")
	for _, b := range blocks {
		block := string(b[1])
		if strings.Contains(block, "make build") {
			continue // done below, into a folder of its own
		}
		// Another service may have the usual port while this test runs.
		script.WriteString(strings.ReplaceAll(block, "docketd run &", "docketd run --listen 127.0.0.1:0 &\n"))
		if strings.Contains(block, "docketd run") {
			script.WriteString("until docket status >/dev/null 2>&1; do sleep 0.1; done\n")
		}
	}
	script.WriteString("kill %1; wait\n")

	bin, home := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/docket", "./cmd/docketd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash on this machine: the README's commands were not run")
	}
	cmd := exec.Command(shell, "-c", "set -m\n"+script.String())
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	err = cmd.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"nightly-1 closed: 3 events", "anchor"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

// TestLinksOfTheDocumentsLead checks each relative link and each path in code
// that the documents name.
func TestLinksOfTheDocumentsLead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(append(files, top...), filepath.Join(root, "README.md"))
	links := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`).FindAllSubmatch(b, -1) {
			target := string(m[1])
			if strings.Contains(target, "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s: link to %s leads nowhere", file, target)
			}
		}
	}
	if links == 0 {
		t.Error("no link found")
	}
}

// TestGuaranteesNameTestsThatExist reads the tables of docs/guarantees.md.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		for _, part := range strings.Split(cells[2], ";") {
			m := regexp.MustCompile("^ *`([^`]+)` (.*)$").FindStringSubmatch(part)
			if m == nil {
				t.Errorf("not of the form `package` TestA, TestB: %q", part)
				continue
			}
			for _, test := range strings.Split(m[2], ",") {
				named++
				if !declares(t, filepath.Join(root, m[1]), strings.TrimSpace(test)) {
					t.Errorf("%s has no %s", m[1], strings.TrimSpace(test))
				}
			}
		}
	}
	if named == 0 {
		t.Error("no test found in the page")
	}
}

func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("func "+test+"(")) {
			return true
		}
	}
	return false
}
