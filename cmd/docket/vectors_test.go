package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vectors are the worked cases of the format, as they are run on the command
// line.
const vectors = "../../testdata/vectors"

type vector struct {
	Args    []string
	Verdict string
	Exit    int
	Fault   *vectorFault
}

type vectorFault struct {
	Verdict string
	Seq     uint64
}

func loadVectors(t *testing.T) map[string]vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]vector
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 300 {
		t.Fatalf("%d vectors", len(all))
	}
	return all
}

// TestVectors runs each worked case as its page says, docket verify --json
// NAME.jsonl ARGS: its verdict, exit code and place.
func TestVectors(t *testing.T) {
	all := loadVectors(t)
	t.Chdir(vectors)
	for name, v := range all {
		var stdout, stderr bytes.Buffer
		args := append([]string{"verify", "--json", name + ".jsonl"}, v.Args...)
		exit := execute(args, strings.NewReader(""), &stdout, &stderr)
		var report struct {
			Verdict string
			Faults  []vectorFault
		}
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Errorf("%s: %v, %s", name, err, stderr.String())
			continue
		}
		if exit != v.Exit || report.Verdict != v.Verdict || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d %s, want %d %s; %s", name, exit, report.Verdict, v.Exit, v.Verdict, stderr.String())
		}
		if v.Fault != nil && !slices.Contains(report.Faults, *v.Fault) {
			t.Errorf("%s: %+v, want %+v", name, report.Faults, *v.Fault)
		}
	}
}
