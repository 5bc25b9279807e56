package verify_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-audit/docket/verify"
)

type vectorCase struct {
	Why     string
	Args    []string
	Verdict verify.Verdict
	Exit    int
	Fault   *struct {
		Verdict verify.Verdict
		Seq     uint64
	}
	Needs string

	Events    *uint64
	Head      *string
	Root      *string
	CostUSD   *string `json:"cost_usd"`
	Unpriced  *uint64
	Estimated *uint64
	Withheld  *uint64
	Erased    *uint64
	OpenCalls *uint64 `json:"open_calls"`
	Anchored  *bool
	Proven    [][2]uint64
}

const vectorDir = "../testdata/vectors"

func loadVectors(t testing.TB, dir string) map[string]vectorCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]vectorCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 341 {
		t.Fatalf("%d cases in %s, not 341", len(cases), dir)
	}
	return cases
}

// vectorOptions turns a case's args into options.
func vectorOptions(t testing.TB, dir string, args []string) verify.Options {
	t.Helper()
	var o verify.Options
	for pair := range slices.Chunk(args, 2) {
		b, err := os.ReadFile(filepath.Join(dir, pair[1]))
		if err != nil {
			t.Fatal(err)
		}
		switch pair[0] {
		case "--expect":
			a, err := verify.ParseAnchor(pair[1], b)
			if err != nil {
				t.Fatal(err)
			}
			o.Expect = append(o.Expect, a)
		case "--vkey":
			o.VKeys = append(o.VKeys, string(b))
		default:
			t.Fatalf("argument %q", pair[0])
		}
	}
	return o
}

func checkVector(t *testing.T, want vectorCase, got *verify.Report) {
	t.Helper()
	if got.Verdict != want.Verdict || got.ExitCode() != want.Exit {
		t.Errorf("verdict %s, exit %d; want %s, %d", got.Verdict, got.ExitCode(), want.Verdict, want.Exit)
	}
	if d := got.Deciding(); (d == nil) != (want.Fault == nil) {
		t.Errorf("fault %+v; want %+v", d, want.Fault)
	} else if d != nil && (d.Verdict != want.Fault.Verdict || d.Seq != want.Fault.Seq) {
		t.Errorf("fault %s at %d; want %s at %d", d.Verdict, d.Seq, want.Fault.Verdict, want.Fault.Seq)
	}
	compare(t, "events", got.Events, want.Events)
	compare(t, "head", got.Head, want.Head)
	compare(t, "cost_usd", got.CostUSD, want.CostUSD)
	compare(t, "unpriced", got.Unpriced, want.Unpriced)
	compare(t, "estimated", got.Estimated, want.Estimated)
	compare(t, "withheld", got.Withheld, want.Withheld)
	compare(t, "erased", got.Erased, want.Erased)
	compare(t, "open_calls", got.OpenCalls, want.OpenCalls)
	compare(t, "anchored", got.Anchored, want.Anchored)
	if want.Verdict == verify.Intact {
		switch {
		case (got.Root == nil) != (want.Root == nil):
			t.Errorf("root %v; want %v", got.Root, want.Root)
		case got.Root != nil && *got.Root != *want.Root:
			t.Errorf("root %s; want %s", *got.Root, *want.Root)
		}
	}
	if want.Proven != nil && !slices.Equal(got.Proven, want.Proven) {
		t.Errorf("proven %v; want %v", got.Proven, want.Proven)
	}
	if t.Failed() {
		b, _ := got.JSON()
		t.Logf("%s\n%s", want.Why, b)
	}
}

func compare[T comparable](t *testing.T, name string, got T, want *T) {
	t.Helper()
	if want != nil && got != *want {
		t.Errorf("%s %v; want %v", name, got, *want)
	}
}

// vectorDirs are the project's copy of the cases, and the folder that it was
// copied from where that stands beside the project.
func vectorDirs(t *testing.T) []string {
	dirs := []string{vectorDir}
	if origin := filepath.Join("..", "..", "shared", "vectors"); exists(origin) {
		dirs = append(dirs, origin)
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestVectors runs every case as docket verify does: as a file, compressed, and
// as a stream of both kinds. No case is left out.
func TestVectors(t *testing.T) {
	for _, dir := range vectorDirs(t) {
		for name, c := range loadVectors(t, dir) {
			b, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			o := vectorOptions(t, dir, c.Args)
			packed := compress(t, b)
			t.Run(name, func(t *testing.T) {
				checkVector(t, c, verifyFile(t, filepath.Join(dir, name+".jsonl"), o))
			})
			t.Run(name+"/zst", func(t *testing.T) {
				if len(b) > 0 {
					checkVector(t, c, verifyFile(t, writeFile(t, "x.jsonl.zst", packed), o))
				}
			})
			t.Run(name+"/stream", func(t *testing.T) {
				checkVector(t, c, verifyBytes(t, b, o))
				if len(b) > 0 {
					checkVector(t, c, verifyBytes(t, packed, o))
				}
			})
		}
	}
}

// TestVectorsAreTheOrigins compares the project's copy with where it comes
// from.
func TestVectorsAreTheOrigins(t *testing.T) {
	dirs := vectorDirs(t)
	if len(dirs) == 1 {
		t.Skip("the folder that the cases were copied from is not here")
	}
	names, err := os.ReadDir(dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		a, errA := os.ReadFile(filepath.Join(dirs[0], n.Name()))
		b, errB := os.ReadFile(filepath.Join(dirs[1], n.Name()))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same in both (%v, %v)", n.Name(), errA, errB)
		}
	}
}

// TestReportIsTheSame demands one report whatever the number of workers, how
// often it is made, and how the input comes.
func TestReportIsTheSame(t *testing.T) {
	counts, repeats := []int{1, 2, 3, 8}, 2
	if raceEnabled {
		counts, repeats = []int{1, 3}, 1
	}
	for name, c := range loadVectors(t, vectorDir) {
		o := vectorOptions(t, vectorDir, c.Args)
		var first []byte
		for _, workers := range counts {
			for range repeats {
				o.Workers = workers
				got, err := verifyFile(t, filepath.Join(vectorDir, name+".jsonl"), o).JSON()
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = got
				}
				if !bytes.Equal(got, first) {
					t.Errorf("%s with %d workers:\n%s\nand before:\n%s", name, workers, got, first)
				}
			}
		}
	}
}
