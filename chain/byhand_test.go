package chain_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	oracle "lukechampine.com/blake3"
)

// toolEnv makes this test binary stand for a tool that not every machine has.
const toolEnv = "DOCKET_TEST_TOOL"

func TestMain(m *testing.M) {
	if tool := os.Getenv(toolEnv); tool != "" {
		if err := runTool(tool, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, tool+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runTool does what docs/verify-by-hand.md asks of b3sum, xxd and sha256sum,
// by other code than this package's own.
func runTool(tool string, args []string) error {
	switch {
	case tool == "b3sum" && len(args) == 4 && args[0] == "--no-names" && args[1] == "--derive-key":
		b, err := os.ReadFile(args[3])
		if err != nil {
			return err
		}
		var sum [32]byte
		oracle.DeriveKey(sum[:], args[2], b)
		fmt.Printf("%x\n", sum)
		return nil
	case tool == "xxd" && strings.Join(args, " ") == "-r -p":
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		b, err := hex.DecodeString(strings.TrimSuffix(string(text), "\n"))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(b)
		return err
	case tool == "sha256sum" && len(args) == 0:
		b, err := io.ReadAll(os.Stdin)
		fmt.Printf("%x  -\n", sha256.Sum256(b))
		return err
	}
	return fmt.Errorf("not made for %q", args)
}

// TestVerifyByHand runs the commands of docs/verify-by-hand.md, in order, and
// wants what the page shows under them.
func TestVerifyByHand(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "verify-by-hand.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```\n").FindAllSubmatch(page, -1)
	if len(blocks) < 7 {
		t.Fatalf("only %d examples on the page", len(blocks))
	}
	dir, tools := t.TempDir(), t.TempDir()
	for _, name := range []string{"usual.jsonl", "bodies.jsonl", "empty-ledger.jsonl"} {
		b, err := os.ReadFile(filepath.Join(vectorDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"b3sum", "xxd", "sha256sum"} {
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", toolEnv, tool, self)
		if err := os.WriteFile(filepath.Join(tools, tool), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range blocks {
		c := exec.Command("/bin/sh", "-eu", "-c", string(block[1]))
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C")
		c.Stderr = os.Stderr
		got, err := c.Output()
		if err != nil || string(got) != string(block[2]) {
			t.Errorf("%s\nprints\n%s\n%v; the page shows\n%s", block[1], got, err, block[2])
		}
	}
}
