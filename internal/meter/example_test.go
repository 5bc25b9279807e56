package meter_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/docket-audit/docket/internal/meter"
)

// A call is metered and billed: the cached part of the prompt has its own price.
func Example() {
	call := meter.Call{
		Provider: "openai", Dialect: meter.DialectOpenAI, Method: http.MethodPost, Path: "/v1/chat/completions",
		Body: []byte(`{"model":"gpt-5.5","messages":[{"role":"user","content":"Hello."}]}`),
	}
	r := meter.NewReader(call, http.StatusOK, "application/json")
	r.Body([]byte(`{"model":"gpt-5.5-2026-04-23","choices":[{"message":{"content":"Hi."}}],
		"usage":{"prompt_tokens":1204,"completion_tokens":17,"prompt_tokens_details":{"cached_tokens":1024}}}`))

	table, err := meter.LoadTable() // the built-in rows alone
	if err != nil {
		fmt.Println(err)
		return
	}
	bill := table.Price(call.Provider, r.Finish(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	fmt.Println(bill.Meter.Model, bill.Meter.Source)
	fmt.Println(bill.Meter.Usage)
	fmt.Println(bill.Meter.Prices)
	fmt.Println(bill.Meter.Cost, "USD by the row of", bill.Row.Ref().From)
	// Output:
	// gpt-5.5-2026-04-23 reported
	// map[cache_read:1024 input:180 output:17]
	// map[cache_read:0.5 input:5 output:30]
	// 0.001922 USD by the row of 2026-04-23
}
