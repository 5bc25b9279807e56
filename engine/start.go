package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
)

// start brings the engine's view up from the file, settles the calls of a
// crash, and records the start, in one transaction. Nothing is admitted before.
func (e *Engine) start(ctx context.Context) error {
	if e.opts.Signer != nil {
		if err := e.signerFits(); err != nil {
			return err
		}
	}
	if err := e.loadRuns(); err != nil {
		return err
	}
	open, err := e.store.OpenCalls()
	if err != nil {
		return err
	}
	events, err := e.startEvents(open)
	if err != nil {
		return err
	}
	t, err := e.store.SequenceClosing(func(q *store.Sequencer) error {
		for _, p := range events {
			q.Add(p)
		}
		return nil
	})
	if err == nil {
		_, err = t.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("record the start: %w", err)
	}
	e.store.KeepUnavailable(0)
	if len(open) > 0 {
		e.log.Warn("settled the calls that the last service left open", "calls", len(open))
	}
	return e.startCheckpoints(ctx)
}

// signerFits makes sure that the key may sign for this ledger.
func (e *Engine) signerFits() error {
	events, err := e.store.Read(1, 1)
	if err != nil {
		return err
	}
	c, err := chain.ParseCreated(events[0].Content)
	if err != nil {
		return fmt.Errorf("read event 1: %w", err)
	}
	for _, k := range c.Keys {
		if k == e.opts.Signer.Key() {
			return nil
		}
	}
	return fmt.Errorf("the signing key is not one of ledger %s; give the key that was made with it", c.Ledger)
}

// loadRuns brings the open runs back, with the hashes of their tokens.
func (e *Engine) loadRuns() error {
	type entry struct {
		id    string
		first uint64
	}
	var open []entry
	err := e.store.Runs(func(id string, s chain.RunState) error {
		if s.Closed == 0 {
			open = append(open, entry{id, s.First})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load runs: %w", err)
	}
	for _, x := range open {
		o, actor, err := e.readOpened(x.first)
		if err != nil {
			return err
		}
		r := newRun(x.id, o, actor)
		if b, err := hex.DecodeString(o.TokenSHA256); err == nil && len(b) == sha256.Size {
			r.token = [sha256.Size]byte(b)
			e.tokens[r.token] = x.id
		}
		e.runs[x.id] = r
	}
	return nil
}

// startEvents prepares the events of a start: an outcome for each open call,
// service.started, and prices.loaded where the table is another than before.
func (e *Engine) startEvents(open []store.OpenCall) ([]*store.Prepared, error) {
	var events []*store.Prepared
	for _, c := range open {
		p, err := e.crashed(c)
		if err != nil {
			return nil, err
		}
		events = append(events, p)
	}
	content, err := json.Marshal(struct {
		Clean       bool   `json:"clean"`
		Commit      string `json:"commit,omitempty"`
		Recovered   int    `json:"recovered"`
		Unavailable uint64 `json:"unavailable"`
		Version     string `json:"version"`
	}{!e.store.Unclean(), e.opts.Commit, len(open), e.store.LeftUnavailable(), e.opts.Version})
	if err != nil {
		return nil, err
	}
	p, err := prepare(chain.Header{Type: chain.TypeServiceStart}, content)
	if err != nil {
		return nil, err
	}
	events = append(events, p)
	content, err = e.pricesChanged()
	if err != nil || content == nil {
		return events, err
	}
	p, err = prepare(chain.Header{Type: chain.TypePricesLoaded}, content)
	return append(events, p), err
}

// crashed prepares the outcome of a call that no service will see the end of.
func (e *Engine) crashed(c store.OpenCall) (*store.Prepared, error) {
	events, err := e.store.Read(c.Seq, 1)
	if err != nil || len(events) == 0 {
		return nil, fmt.Errorf("read open call %d: %w", c.Seq, err)
	}
	request, err := chain.ParseHeader(events[0].Header)
	if err != nil {
		return nil, fmt.Errorf("read open call %d: %w", c.Seq, err)
	}
	var about struct{ Upstream string }
	if events[0].Content != nil {
		if err := json.Unmarshal(events[0].Content, &about); err != nil {
			return nil, fmt.Errorf("read open call %d: %w", c.Seq, err)
		}
	}
	h := chain.Header{Type: chain.TypeFailed, Run: request.Run, Call: c.Seq, Peer: request.Peer}
	if a := request.Actor; a != nil {
		// No lock outlives its process, so its fence is dead by now.
		h.Actor = &chain.Actor{Role: a.Role, Context: a.Context, Pass: a.Pass}
	}
	return prepareFailed(h, about.Upstream, failedCrash, 0)
}

// pricesWindow is how far back the last prices.loaded is looked for. Further
// back it is written anew, which is no less true.
const pricesWindow = 4096

// pricesChanged returns the content of prices.loaded, or nil where the last
// one within reach says the same.
func (e *Engine) pricesChanged() ([]byte, error) {
	type file struct {
		Name   string `json:"name"`
		SHA256 string `json:"sha256"`
	}
	var now struct {
		Files []file `json:"files"`
		Rows  int    `json:"rows"`
	}
	for _, f := range e.prices.Files() {
		now.Files = append(now.Files, file{f.Name, f.SHA256})
		now.Rows += len(f.Rows)
	}
	content, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	if content, err = chain.CanonicalContent(content); err != nil {
		return nil, fmt.Errorf("names of price files: %w", err)
	}
	var last []byte
	head := e.store.Head().Seq
	for from := max(head, pricesWindow) - pricesWindow + 1; from <= head; {
		events, err := e.store.Read(from, pricesWindow)
		if err != nil || len(events) == 0 {
			return nil, fmt.Errorf("look for the last prices: %w", err)
		}
		for _, ev := range events {
			h, err := chain.ParseHeader(ev.Header)
			if err != nil {
				return nil, fmt.Errorf("look for the last prices: %w", err)
			}
			if h.Type == chain.TypePricesLoaded {
				last = ev.Content
			}
		}
		from += uint64(len(events))
	}
	if string(last) == string(content) {
		return nil, nil
	}
	return content, nil
}
