package receipt_test

import (
	"fmt"
	"strings"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// A checkpoint is signed by the ledger's key and checked with its public half.
func ExampleSignCheckpoint() {
	// A program reads the system's random source here.
	signer, err := receipt.GenerateKey(strings.NewReader(strings.Repeat("s", 32)))
	if err != nil {
		panic(err)
	}
	id := chain.LedgerID([]chain.Key{signer.Key()}, chain.Salt{})
	root := chain.LeafHash(chain.Genesis(id))
	note, err := receipt.SignCheckpoint(signer, id, 1, root)
	if err != nil {
		panic(err)
	}
	fmt.Print(note)

	c, err := receipt.ParseSignedCheckpoint(note)
	if err != nil {
		panic(err)
	}
	v, err := receipt.ParseVerifier(receipt.VerifierKey(id, signer.Key()))
	if err != nil {
		panic(err)
	}
	good, tried := c.Note.VerifiedBy(v)
	fmt.Println(c.Size, c.Root == root, good, tried)
	// Output:
	// docketd.ledger/1/387cf9d607de87bc06df5d8b3d3f0383
	// 1
	// 9C8B+2G2Tw/btpNg73BI3/UPXoFUIzPh3Y7vuIa5zVY=
	//
	// — docketd.ledger/1/387cf9d607de87bc06df5d8b3d3f0383 T8wc60kaWvQMdYnLLFzeIFOskqZobky3qyi9dLDhPX0LaFfjhjV0LvSaoUQKtbRzokA4ksyqKFDhng1sVfuXIUVpQAk=
	// 1 true true true
}
