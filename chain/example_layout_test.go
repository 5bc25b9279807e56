package chain_test

import (
	"fmt"

	"github.com/docket-audit/docket/chain"
)

func ExampleBuckets() {
	fmt.Println(chain.Buckets())
	// Output: [meta events runs keys calls totals]
}

func ExampleSeqKey() {
	fmt.Printf("%x\n", chain.SeqKey(4711))
	seq, err := chain.ParseSeqKey(chain.SeqKey(4711))
	fmt.Println(seq, err)
	// Output:
	// 0000000000001267
	// 4711 <nil>
}

func ExampleParseSeqKey() {
	_, err := chain.ParseSeqKey([]byte("short"))
	fmt.Println(err)
	// Output: key of 5 bytes, not 8: value not laid out as the schema says
}

func ExampleEncodeSchema() {
	b := chain.EncodeSchema(chain.SchemaVersion)
	version, err := chain.ParseSchema(b)
	fmt.Printf("%x %d %v\n", b, version, err)
	// Output: 00000001 1 <nil>
}

func ExampleParseSchema() {
	_, err := chain.ParseSchema([]byte{1})
	fmt.Println(err)
	// Output: schema of 1 bytes, not 4: value not laid out as the schema says
}

// The hash, a flag byte, and the header behind its length; here also the
// content behind its salt and length.
func ExampleEncodeEvent() {
	e := chain.Event{
		Hash:    chain.Hash{0xaa},
		Header:  []byte(`{"seq":2}`),
		Content: []byte(`{}`),
		Salt:    chain.Salt{0xbb},
	}
	b := chain.EncodeEvent(nil, &e)
	fmt.Printf("hash %x… flags %d length %d header %s\n", b[:2], b[32], b[33], b[34:43])
	fmt.Printf("salt %x… length %d content %s\n", b[43:45], b[59], b[60:])
	// Output:
	// hash aa00… flags 1 length 9 header {"seq":2}
	// salt bb00… length 2 content {}
}

func ExampleDecodeEvent() {
	e, err := chain.DecodeEvent(chain.EncodeEvent(nil, &chain.Event{
		Header:    []byte(`{"seq":2}`),
		PartSalts: map[string]chain.Salt{"request": {1}},
	}))
	fmt.Println(err)
	fmt.Printf("%s, content erased: %v, salt of request %s\n", e.Header, e.Content == nil, e.PartSalts["request"])
	// Output:
	// <nil>
	// {"seq":2}, content erased: true, salt of request 01000000000000000000000000000000
}

func ExampleHead_Append() {
	var h chain.Head
	for seq := uint64(1); seq <= 6; seq++ {
		h.Seq, h.Hash = seq, chain.Hash{byte(seq)}
		h.Frontier.Add(h.Hash)
	}
	b := h.Append(nil)
	fmt.Printf("number %x, hash %x…, %d peaks\n", b[:8], b[8:10], len(b[40:])/32)
	// Output: number 0000000000000006, hash 0600…, 2 peaks
}

func ExampleParseHead() {
	var h chain.Head
	h.Seq = 1
	h.Frontier.Add(h.Hash)
	again, err := chain.ParseHead(h.Append(nil))
	fmt.Println(again.Seq, again.Frontier.Root() == h.Frontier.Root(), err)
	_, err = chain.ParseHead(h.Append(nil)[:40])
	fmt.Println(err)
	// Output:
	// 1 true <nil>
	// head: size 1 has 1 peaks, not 0: peaks do not fit the tree's size: value not laid out as the schema says
}

func ExampleRunState_Append() {
	r := chain.RunState{RunSeq: 3, First: 5, Last: 9}
	fmt.Printf("%x\n", r.Append(nil))
	// Output: 0000000000000003000000000000000500000000000000090000000000000000
}

func ExampleParseRunState() {
	r := chain.RunState{RunSeq: 3, First: 5, Last: 9, Closed: 9}
	again, err := chain.ParseRunState(r.Append(nil))
	fmt.Printf("%+v %v\n", again, err)
	// Output: {RunSeq:3 First:5 Last:9 Closed:9} <nil>
}

func ExampleTotals_Append() {
	cost, err := chain.ParseAmount("0.25")
	if err != nil {
		fmt.Println(err)
		return
	}
	t := chain.Totals{Calls: 2, Cost: cost}
	b := t.Append(nil)
	fmt.Printf("%x… %s\n", b[:8], b[32:])
	// Output: 0000000000000002… 0.25
}

func ExampleParseTotals() {
	var t chain.Totals
	again, err := chain.ParseTotals(t.Append(nil))
	fmt.Println(again.Calls, again.Cost, err)
	_, err = chain.ParseTotals(t.Append(nil)[:32])
	fmt.Println(err)
	// Output:
	// 0 0 <nil>
	// totals: "": does not begin with a digit: not a decimal of the ledger: value not laid out as the schema says
}

func ExampleTotalKey() {
	fmt.Printf("%q\n", chain.TotalKey(chain.ScopeContext, "reviewer", "billing"))
	// Output: "context\x00reviewer\x00billing"
}

func ExampleParseTotalKey() {
	scope, parts := chain.ParseTotalKey("model\x00anthropic\x00claude-x")
	fmt.Println(scope, parts)
	// Output: model [anthropic claude-x]
}

func ExampleTotalKeys() {
	h := &chain.Header{
		Type:  chain.TypeFailed,
		TS:    "2026-11-30T12:00:00.000000000Z",
		Run:   "run-1",
		Actor: &chain.Actor{Role: "reviewer", Context: "billing", Pass: "p-1"},
	}
	for _, key := range chain.TotalKeys(h) {
		fmt.Printf("%q\n", key)
	}
	// Output:
	// "ledger"
	// "day\x002026-11-30"
	// "run\x00run-1"
	// "role\x00reviewer"
	// "context\x00reviewer\x00billing"
}
