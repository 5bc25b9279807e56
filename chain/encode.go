package chain

import (
	"maps"
	"slices"
	"strconv"
)

// Append appends the canonical form of h to dst. It does not judge h: Check
// does, and whoever writes events calls it first.
func (h *Header) Append(dst []byte) []byte {
	dst = append(dst, '{')
	if h.Actor != nil {
		dst = append(h.Actor.append(append(dst, `"actor":`...)), ',')
	}
	if h.Call != 0 {
		dst = append(strconv.AppendUint(append(dst, `"call":`...), h.Call, 10), ',')
	}
	if h.Cap != nil {
		dst = append(h.Cap.append(append(dst, `"cap":`...)), ',')
	}
	dst = appendHash(append(dst, `"content":`...), h.Content)
	if h.Erased != nil {
		dst = h.Erased.append(append(dst, `,"erased":`...))
	}
	if h.Key != "" {
		dst = appendString(append(dst, `,"key":`...), h.Key)
	}
	if h.Keys != nil {
		dst = appendKeys(append(dst, `,"keys":`...), h.Keys)
	}
	if h.Meter != nil {
		dst = h.Meter.append(append(dst, `,"meter":`...))
	}
	if h.Note != "" {
		dst = appendString(append(dst, `,"note":`...), h.Note)
	}
	if h.Parts != nil {
		dst = appendParts(append(dst, `,"parts":`...), h.Parts)
	}
	if h.Peer != nil {
		dst = h.Peer.append(append(dst, `,"peer":`...))
	}
	dst = appendHash(append(dst, `,"prev":`...), h.Prev)
	if h.Run != "" {
		dst = appendString(append(dst, `,"run":`...), h.Run)
		dst = strconv.AppendUint(append(dst, `,"run_seq":`...), h.RunSeq, 10)
	}
	dst = strconv.AppendUint(append(dst, `,"seq":`...), h.Seq, 10)
	if h.Totals != nil {
		dst = h.Totals.append(append(dst, `,"totals":`...))
	}
	dst = appendString(append(dst, `,"ts":`...), h.TS)
	dst = appendString(append(dst, `,"type":`...), h.Type)
	return append(dst, '}')
}

func appendHash(dst []byte, h Hash) []byte {
	dst = append(dst, '"')
	dst = appendHex(dst, h[:])
	return append(dst, '"')
}

func appendHex(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range b {
		dst = append(dst, hex[c>>4], hex[c&15])
	}
	return dst
}

func (a *Actor) append(dst []byte) []byte {
	dst = appendString(append(dst, `{"context":`...), a.Context)
	if a.Fence != 0 {
		dst = strconv.AppendUint(append(dst, `,"fence":`...), a.Fence, 10)
	}
	dst = appendString(append(dst, `,"pass":`...), a.Pass)
	dst = appendString(append(dst, `,"role":`...), a.Role)
	return append(dst, '}')
}

func (c *Cap) append(dst []byte) []byte {
	dst = append(dst, '{')
	text := func(name, v string) {
		if v != "" {
			dst = append(dst, '"')
			dst = append(dst, name...)
			dst = append(appendString(append(dst, `":`...), v), ',')
		}
	}
	text("context", c.Context)
	if c.Limit != nil {
		text("limit_usd", c.Limit.String())
	}
	text("period", c.Period)
	text("role", c.Role)
	text("run", c.Run)
	dst = appendString(append(dst, `"scope":`...), c.Scope)
	if c.Spent != nil {
		dst = appendString(append(dst, `,"spent_usd":`...), c.Spent.String())
	}
	return append(dst, '}')
}

func (e *Erased) append(dst []byte) []byte {
	dst = append(dst, `{"parts":[`...)
	for i, p := range e.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHash(dst, p)
	}
	dst = append(dst, `],"seqs":[`...)
	for i, s := range e.Seqs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, s, 10)
	}
	return append(dst, `]}`...)
}

func appendKeys(dst []byte, keys []Key) []byte {
	dst = append(dst, '[')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k.String())
	}
	return append(dst, ']')
}

func (m *Meter) append(dst []byte) []byte {
	dst = append(dst, '{')
	if m.Cost != nil {
		dst = append(appendString(append(dst, `"cost_usd":`...), m.Cost.String()), ',')
	}
	dst = appendString(append(dst, `"model":`...), m.Model)
	dst = append(dst, `,"prices":{`...)
	for i, class := range slices.Sorted(maps.Keys(m.Prices)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, class), ':')
		dst = appendString(dst, m.Prices[class].String())
	}
	dst = appendString(append(dst, `},"provider":`...), m.Provider)
	dst = appendString(append(dst, `,"source":`...), m.Source)
	dst = append(dst, `,"usage":{`...)
	for i, class := range slices.Sorted(maps.Keys(m.Usage)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, class), ':')
		dst = strconv.AppendUint(dst, m.Usage[class], 10)
	}
	return append(dst, `}}`...)
}

func appendParts(dst []byte, parts map[string]Part) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(parts)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		p := parts[name]
		dst = appendString(dst, name)
		dst = strconv.AppendUint(append(dst, `:{"bytes":`...), p.Bytes, 10)
		dst = appendHash(append(dst, `,"commit":`...), p.Commit)
		dst = appendString(append(dst, `,"media":`...), p.Media)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func (p *Peer) append(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"gid":`...), p.GID, 10)
	dst = strconv.AppendUint(append(dst, `,"pid":`...), p.PID, 10)
	dst = strconv.AppendUint(append(dst, `,"uid":`...), p.UID, 10)
	return append(dst, '}')
}

func (t *RunTotals) append(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"calls":`...), t.Calls, 10)
	dst = appendString(append(dst, `,"cost_usd":`...), t.Cost.String())
	dst = strconv.AppendUint(append(dst, `,"failed":`...), t.Failed, 10)
	dst = strconv.AppendUint(append(dst, `,"unpriced":`...), t.Unpriced, 10)
	return append(dst, '}')
}
