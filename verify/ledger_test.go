package verify_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// ledger makes events as a writer would: runs of calls and tools, under locks,
// with checkpoints, one after the other and the same for the same seed.
type ledger struct {
	rnd      *rand.Rand
	signer   *receipt.Signer
	id       string
	frontier chain.Frontier
	prev     chain.Hash
	run      string
	runs     int
	runSeq   uint64
	left     int // steps of the run to come
	open     uint64
	totals   chain.RunTotals
	every    uint64 // a checkpoint each so many events
	nonce    chain.Salt
	steps    int // least steps of a run
	text     string
}

func newLedger(t testing.TB, seed uint64) *ledger {
	t.Helper()
	signer, err := receipt.GenerateKey(strings.NewReader(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	nonce := chain.Salt{byte(seed), 1}
	l := &ledger{nonce: nonce, steps: 40, rnd: rand.New(rand.NewPCG(seed, 1)), signer: signer, every: 1000, text: strings.Repeat("x", 60)}
	l.id = chain.LedgerID([]chain.Key{signer.Key()}, nonce)
	l.prev = chain.Genesis(l.id)
	return l
}

// next makes the next event.
func (l *ledger) next() *chain.Event {
	h := chain.Header{Actor: &chain.Actor{Role: "implementer", Context: "billing", Pass: "p-1"}}
	content := fmt.Appendf(nil, `{"arguments":{"path":"src/%06d.go"},"name":"read","note":"%s"}`, l.rnd.IntN(1e6), l.text)
	n := l.frontier.Size() + 1
	switch {
	case n == 1:
		c := chain.Created{CreatedBy: "test", Keys: []chain.Key{l.signer.Key()}, Ledger: l.id, Nonce: l.nonce}
		h.Type, content, h.Actor = chain.TypeCreated, c.Append(nil), nil
	case n%l.every == 0:
		h.Type, content, h.Actor = chain.TypeCheckpoint, []byte(`{"reason":"count"}`), nil
		h.Note, _ = receipt.SignCheckpoint(l.signer, l.id, n-1, l.frontier.Root())
	case l.run == "":
		l.runs++
		l.run, l.runSeq, l.left, l.totals = fmt.Sprintf("run-%d", l.runs), 0, l.steps+l.rnd.IntN(l.steps), chain.RunTotals{}
		h.Type = chain.TypeRunOpened
	case l.left == 0 && l.open == 0:
		h.Type = chain.TypeRunClosed
		t := l.totals
		h.Totals = &t
	case l.open != 0:
		h.Type, h.Call, h.Meter = chain.TypeResponse, l.open, l.meter()
		l.open = 0
	case l.rnd.IntN(8) == 0:
		h.Type, l.open = chain.TypeRequest, n
	default:
		h.Type = "tool.call"
	}
	return l.seal(&h, content)
}

func (l *ledger) meter() *chain.Meter {
	in, out := uint64(l.rnd.IntN(20000)), uint64(l.rnd.IntN(2000))
	price := func(s string) chain.Decimal { d, _ := chain.ParsePrice(s); return d }
	m := &chain.Meter{
		Model: "claude-x", Provider: "anthropic", Source: chain.SourceReported,
		Usage:  map[string]uint64{"input": in, "output": out},
		Prices: map[string]chain.Decimal{"input": price("3"), "output": price("15")},
	}
	cost := m.Prices["input"].TimesUnits(in).Add(m.Prices["output"].TimesUnits(out))
	m.Cost = &cost
	l.totals.Calls++
	l.totals.Cost = l.totals.Cost.Add(cost)
	return m
}

// seal numbers, links and hashes an event.
func (l *ledger) seal(h *chain.Header, content []byte) *chain.Event {
	h.Seq = l.frontier.Size() + 1
	h.TS = chain.FormatTime(time.Unix(1_790_000_000, int64(h.Seq)*1_000_000))
	h.Prev = l.prev
	if l.run != "" && h.Type != chain.TypeCheckpoint {
		l.runSeq++
		l.left--
		h.Run, h.RunSeq = l.run, l.runSeq
		l.left = max(l.left, 0)
		if h.Type == chain.TypeRunClosed {
			l.run = ""
		}
	}
	e := &chain.Event{Content: content}
	for i := range e.Salt {
		e.Salt[i] = byte(l.rnd.Uint32())
	}
	h.Content = chain.ContentCommit(e.Salt, content)
	e.Header = h.Append(nil)
	e.Hash = chain.EventHash(e.Header)
	l.prev = e.Hash
	l.frontier.Add(e.Hash)
	return e
}

// take makes n events.
func (l *ledger) take(n int) []*chain.Event {
	list := make([]*chain.Event, n)
	for i := range list {
		list[i] = l.next()
	}
	return list
}

// writeExport writes events 1 to n and the trailer.
func (l *ledger) writeExport(t testing.TB, w io.Writer, n int) {
	t.Helper()
	var b []byte
	for range n {
		b = append(l.next().AppendLine(b), '\n')
		if len(b) > 1<<20 {
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
			b = b[:0]
		}
	}
	root := l.frontier.Root()
	trailer := chain.Trailer{Events: uint64(n), First: 1, Last: uint64(n), Head: l.prev, Root: &root}
	b = append(trailer.AppendLine(b), '\n')
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

// export is a whole export of n events.
func export(t testing.TB, seed uint64, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	newLedger(t, seed).writeExport(t, &b, n)
	return b.Bytes()
}
