package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SchemaVersion is the layout of the database file that this file describes.
// It says where things lie, never what their hashes are: a migration moves
// bytes and leaves every event as it is.
//
//   - 1: the buckets below.
const SchemaVersion = 1

// The buckets of a ledger file. Only BucketEvents is evidence; the others
// are derived from it, kept in the same transaction, and rebuilt where they
// don't fit. A verifier reads events alone.
const (
	BucketMeta   = "meta"   // KeySchema, KeyHead, KeyDerived
	BucketEvents = "events" // SeqKey → EncodeEvent
	BucketRuns   = "runs"   // run id → RunState
	BucketKeys   = "keys"   // idempotency key → SeqKey
	BucketCalls  = "calls"  // SeqKey of a model.request without outcome → run id
	BucketTotals = "totals" // TotalKeys → Totals
)

// Buckets lists every bucket of the schema.
func Buckets() []string {
	return []string{BucketMeta, BucketEvents, BucketRuns, BucketKeys, BucketCalls, BucketTotals}
}

// Keys of BucketMeta.
const (
	KeySchema  = "schema"  // SchemaVersion, 4 bytes big-endian
	KeyHead    = "head"    // Head
	KeyDerived = "derived" // the writer's checksum over all that is derived, 32 bytes
)

// ErrLayout tells that a stored value is not laid out as its schema says.
var ErrLayout = errors.New("value not laid out as the schema says")

// SeqKey is the key of event seq: big-endian, so that keys rise with numbers.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey reads a key of BucketEvents.
func ParseSeqKey(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("key of %d bytes, not 8: %w", len(b), ErrLayout)
	}
	return binary.BigEndian.Uint64(b), nil
}

// EncodeSchema and ParseSchema spell the value of KeySchema.
func EncodeSchema(version uint32) []byte { return binary.BigEndian.AppendUint32(nil, version) }

// ParseSchema reads the value of KeySchema.
func ParseSchema(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("schema of %d bytes, not 4: %w", len(b), ErrLayout)
	}
	return binary.BigEndian.Uint32(b), nil
}

const flagContent = 1

// EncodeEvent appends the stored form of e: the hash, a flag byte, the
// header, then content and salt where they are there, then the part salts.
// Lengths are unsigned varints.
func EncodeEvent(dst []byte, e *Event) []byte {
	dst = append(dst, e.Hash[:]...)
	flags := byte(0)
	if e.Content != nil {
		flags = flagContent
	}
	dst = appendChunk(append(dst, flags), e.Header)
	if e.Content != nil {
		dst = appendChunk(append(dst, e.Salt[:]...), e.Content)
	}
	for _, name := range slices.Sorted(maps.Keys(e.PartSalts)) {
		salt := e.PartSalts[name]
		dst = append(appendChunk(dst, []byte(name)), salt[:]...)
	}
	return dst
}

func appendChunk(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// DecodeEvent reads what EncodeEvent wrote. The result shares memory with b.
// It accepts one encoding of each event and judges neither hash nor form.
func DecodeEvent(b []byte) (*Event, error) {
	var e Event
	r := layoutReader{b: b}
	copy(e.Hash[:], r.take(len(e.Hash)))
	flags := r.take(1)
	e.Header = r.chunk()
	if !r.bad && flags[0] > flagContent {
		r.bad = true
	}
	if !r.bad && flags[0] == flagContent {
		copy(e.Salt[:], r.take(len(e.Salt)))
		e.Content = r.chunk()
	}
	last := ""
	for !r.bad && len(r.b) > 0 {
		name := string(r.chunk())
		var salt Salt
		copy(salt[:], r.take(len(salt)))
		if r.bad = r.bad || name <= last; !r.bad {
			if e.PartSalts == nil {
				e.PartSalts = map[string]Salt{}
			}
			e.PartSalts[name] = salt
		}
		last = name
	}
	if r.bad {
		return nil, fmt.Errorf("event of %d bytes: %w", len(b), ErrLayout)
	}
	return &e, nil
}

// layoutReader takes pieces off the front of b until one is not there.
type layoutReader struct {
	b   []byte
	bad bool
}

func (r *layoutReader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *layoutReader) chunk() []byte {
	n, k := binary.Uvarint(r.b)
	if r.bad || k <= 0 || n > uint64(len(r.b)) || k > 1 && r.b[k-1] == 0 {
		r.bad = true
		return nil
	}
	r.b = r.b[k:]
	return r.take(int(n))
}

func (r *layoutReader) uint64() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Head is the last event and the tree's frontier over all events.
type Head struct {
	Seq      uint64
	Hash     Hash
	Frontier Frontier
}

// Append appends the value of KeyHead.
func (h *Head) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, h.Seq)
	return h.Frontier.Append(append(dst, h.Hash[:]...))
}

// ParseHead reads what Append wrote.
func ParseHead(b []byte) (Head, error) {
	r := layoutReader{b: b}
	h := Head{Seq: r.uint64()}
	copy(h.Hash[:], r.take(len(h.Hash)))
	var peaks []TreeHash
	for !r.bad && len(r.b) > 0 {
		if p := r.take(len(TreeHash{})); p != nil {
			peaks = append(peaks, TreeHash(p))
		}
	}
	if r.bad {
		return Head{}, fmt.Errorf("head of %d bytes: %w", len(b), ErrLayout)
	}
	f, err := NewFrontier(h.Seq, peaks)
	if err != nil {
		return Head{}, fmt.Errorf("head: %w: %w", err, ErrLayout)
	}
	h.Frontier = f
	return h, nil
}

// RunState is where a run stands.
type RunState struct {
	RunSeq uint64 // of the run's last event
	First  uint64 // seq of the run's first event
	Last   uint64 // seq of the run's last event
	Closed uint64 // seq of its run.closed; 0 while it is open
}

// Append appends the value of BucketRuns.
func (r *RunState) Append(dst []byte) []byte {
	for _, n := range []uint64{r.RunSeq, r.First, r.Last, r.Closed} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// ParseRunState reads what Append wrote.
func ParseRunState(b []byte) (RunState, error) {
	r := layoutReader{b: b}
	s := RunState{RunSeq: r.uint64(), First: r.uint64(), Last: r.uint64(), Closed: r.uint64()}
	if r.bad || len(r.b) > 0 {
		return RunState{}, fmt.Errorf("run state of %d bytes: %w", len(b), ErrLayout)
	}
	return s, nil
}

// Totals sums the outcomes of calls in one scope.
type Totals struct {
	Calls     uint64 // model.response events
	Failed    uint64 // model.failed events
	Unpriced  uint64 // model.response events without a cost
	Estimated uint64 // model.response events whose usage is estimated
	Cost      Decimal
}

// Add counts one outcome; other events change nothing.
func (t *Totals) Add(h *Header) {
	switch h.Type {
	case TypeFailed:
		t.Failed++
	case TypeResponse:
		t.Calls++
		if h.Meter.Cost == nil {
			t.Unpriced++
		} else {
			t.Cost = t.Cost.Add(*h.Meter.Cost)
		}
		if h.Meter.Source == SourceEstimated {
			t.Estimated++
		}
	}
}

// Append appends the value of BucketTotals.
func (t *Totals) Append(dst []byte) []byte {
	for _, n := range []uint64{t.Calls, t.Failed, t.Unpriced, t.Estimated} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return append(dst, t.Cost.String()...)
}

// ParseTotals reads what Append wrote.
func ParseTotals(b []byte) (Totals, error) {
	r := layoutReader{b: b}
	t := Totals{Calls: r.uint64(), Failed: r.uint64(), Unpriced: r.uint64(), Estimated: r.uint64()}
	if r.bad {
		return Totals{}, fmt.Errorf("totals of %d bytes: %w", len(b), ErrLayout)
	}
	cost, err := ParseAmount(string(r.b))
	if err != nil {
		return Totals{}, fmt.Errorf("totals: %w: %w", err, ErrLayout)
	}
	t.Cost = cost
	return t, nil
}

// Scopes in which outcomes are summed, beside those of a cap.
const ScopeModel = "model"

// TotalKey is the key of a scope in BucketTotals: its name and what
// distinguishes it, joined by NUL, which no part can contain.
func TotalKey(scope string, parts ...string) string {
	return strings.Join(append([]string{scope}, parts...), "\x00")
}

// ParseTotalKey takes a key of BucketTotals apart.
func ParseTotalKey(key string) (scope string, parts []string) {
	list := strings.Split(key, "\x00")
	return list[0], list[1:]
}

// TotalKeys lists the scopes that the outcome h belongs to, by its own run,
// actor and ts as docs/format.md, section 6 says: the ledger, its UTC day, its
// run, its provider and model, its role, its role and context. It is empty
// for an event that is no outcome.
func TotalKeys(h *Header) []string {
	if h.Type != TypeResponse && h.Type != TypeFailed {
		return nil
	}
	keys := []string{
		TotalKey(ScopeLedger),
		TotalKey(ScopeDay, h.TS[:len("2006-01-02")]),
		TotalKey(ScopeRun, h.Run),
	}
	if h.Meter != nil {
		keys = append(keys, TotalKey(ScopeModel, h.Meter.Provider, h.Meter.Model))
	}
	if h.Actor != nil {
		keys = append(keys, TotalKey(ScopeRole, h.Actor.Role), TotalKey(ScopeContext, h.Actor.Role, h.Actor.Context))
	}
	return keys
}
