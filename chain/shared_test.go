package chain_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestVectorsAreTheContracts compares the copy of the worked cases with the
// contract's own, where those lie beside the repository.
func TestVectorsAreTheContracts(t *testing.T) {
	own := filepath.Join("..", "..", "shared", "vectors")
	if _, err := os.Stat(own); os.IsNotExist(err) {
		t.Skip("the contract's own cases do not lie beside this repository")
	}
	names := map[string]bool{}
	for _, dir := range []string{own, vectorDir} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names[e.Name()] = true
		}
	}
	for name := range names {
		want, err := os.ReadFile(filepath.Join(own, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(vectorDir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the contract's own: %v", name, err)
		}
	}
}
