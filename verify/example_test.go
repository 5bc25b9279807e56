package verify_test

import (
	"context"
	"fmt"

	"github.com/docket-audit/docket/verify"
)

// A ledger whose content was changed in place: the report says what doesn't
// hold, where, and what stays consistent.
func ExampleFile() {
	r, err := verify.File(context.Background(), "../testdata/vectors/content-edited.jsonl", verify.Options{})
	if err != nil {
		fmt.Println("can't be read:", err)
		return
	}
	fmt.Println(r.Verdict, r.ExitCode(), r.Consistent)
	for _, f := range r.Faults {
		fmt.Println(f.Seq, f.Verdict)
	}
	fmt.Println("anchored:", r.Anchored)
	// Output:
	// altered 10 [[1 5] [7 20]]
	// 6 altered
	// anchored: false
}
