package meter

import (
	"encoding/json"
	"errors"
	"io"
	"maps"

	"github.com/docket-audit/docket/chain"
)

// Reading is what a call used, before any price.
type Reading struct {
	// Model is the one that the answer names, else the requested one, as
	// spelled there; "" where neither names one. HeaderName gives the form
	// that an event's header takes.
	Model          string
	RequestedModel string
	// Usage counts units by class, without classes of 0 units; empty for
	// source none, and for calls that are known to have used nothing.
	Usage  map[string]uint64
	Source string // chain.SourceReported, SourceEstimated or SourceNone
	// Modifiers are service_tier, speed and inference_geo as served, by
	// name, in the provider's words. Where the answer names no tier, the one
	// asked for counts as served.
	Modifiers     map[string]string
	RequestedTier string
	// Prompt is what a long-context threshold looks at, in tokens.
	Prompt uint64
	// RawUsage is the usage as it came: the object, or for a stream of
	// Anthropic's an array of them in the order they came. nil: none came,
	// or it is larger than 64 KiB, which Note then says. It is JSON, but
	// not always what docket's canonical form accepts.
	RawUsage json.RawMessage
	// ErrorInside: an error stood inside a 2xx answer.
	ErrorInside bool
	// Free: the call is of a kind that no provider bills.
	Free bool
	// Note says why the source is not reported; "" where it is and nothing
	// is to be said.
	Note string
}

// Reader reads one answer. Feed it the events of a stream or one body, then
// call Finish. It is not safe for concurrent use. Nothing that is fed to it is
// kept or changed; an answer is never refused.
type Reader struct {
	call     Call
	endpoint Endpoint
	status   int
	stream   bool
	family   family // nil: nothing to read
	facts    facts
	events   int
	fault    string // why a part of the answer could not be read
}

// NewReader reads the answer to c that came with this HTTP status and
// Content-Type.
func NewReader(c Call, status int, contentType string) *Reader {
	e := EndpointOf(c)
	return &Reader{call: c, endpoint: e, status: status, stream: IsEventStream(contentType), family: newFamily(e)}
}

// Event takes the data of one event of a stream, its lines joined by LF.
func (r *Reader) Event(data []byte) {
	if r.family == nil {
		return
	}
	r.events++
	if err := r.family.event(&r.facts, data); err != nil {
		r.Unreadable("an event of the stream is not JSON of the expected shape")
	}
}

// Tail takes the data of an event that the end of the stream closed. What
// breaks off there is the end's doing, no fault of the answer.
func (r *Reader) Tail(data []byte) {
	if r.family == nil {
		return
	}
	// The error is that of a cut: what came before it counts.
	_ = r.family.event(&r.facts, data)
}

// Body takes a whole answer, or as much of it as came.
func (r *Reader) Body(b []byte) {
	if r.family == nil {
		return
	}
	switch err := r.family.body(&r.facts, b); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.Unreadable("the answer breaks off")
	case err != nil:
		r.Unreadable("the answer is not a JSON object")
	}
}

// Unreadable says that a part of the answer could not be read. It counts only
// where no final figure was read.
func (r *Reader) Unreadable(reason string) {
	if r.fault == "" {
		r.fault = reason
	}
}

// Finish settles the call by docs/design/metering.md, section 5. It may be
// called once, whatever was seen before.
func (r *Reader) Finish() Reading {
	req := r.request()
	out := Reading{
		Model: r.facts.model, RequestedModel: req.Model,
		Usage: map[string]uint64{}, Source: chain.SourceReported,
		Modifiers: maps.Clone(r.facts.modifiers), RequestedTier: req.Tier,
		ErrorInside: r.facts.failed && r.good(),
		Free:        r.endpoint == Free,
	}
	if out.Model == "" {
		out.Model = req.Model
	}
	if out.Modifiers == nil {
		out.Modifiers = map[string]string{}
	}
	if out.Modifiers["service_tier"] == "" && req.Tier != "" {
		out.Modifiers["service_tier"] = req.Tier
	}
	r.settle(&out)
	return out
}

func (r *Reader) request() Request {
	if r.call.Parsed != nil {
		return *r.call.Parsed
	}
	return ParseRequest(r.call)
}

// good says whether the status promises an answer.
func (r *Reader) good() bool { return r.status >= 200 && r.status < 300 }

func (r *Reader) settle(out *Reading) {
	if r.family == nil {
		if r.endpoint != Free && r.good() {
			out.none("docket does not meter this endpoint")
		}
		return
	}
	t, err := r.family.settle(func() bool { return asksForHour(r.call.Body) })
	out.RawUsage, out.Note = t.raw, t.note
	switch {
	case err != nil:
		out.none(err.Error())
	case t.inputKnown && t.outputKnown:
		out.use(t)
	case !t.seen && !r.good(), !t.seen && r.facts.failed && r.facts.text == 0:
		// The provider says that nothing was served: that is a figure.
	case r.fault != "":
		out.none(r.fault)
	case !t.seen && !r.facts.known && (!r.stream || r.events > 0):
		out.none("the answer has not the shape of this endpoint")
	default:
		r.estimate(out, t)
	}
}

// estimate fills in the side that no final figure came for.
func (r *Reader) estimate(out *Reading, t tally) {
	note := "no final usage came: the output is counted from its text"
	if !t.outputKnown {
		t.output = map[string]uint64{"output": max(t.leastOutput, tokensOf(r.facts.text))}
	}
	if !t.inputKnown {
		tokens, err := Estimate(r.call.Body)
		if err != nil {
			out.none(err.Error())
			return
		}
		t.input, t.prompt = map[string]uint64{"input": tokens}, tokens
		note = "no final usage came: input and output are counted from their text"
		if t.outputKnown {
			note = "no input figure came: it is counted from its text"
		}
	}
	out.use(t)
	if out.Source == chain.SourceReported {
		out.Source, out.Note = chain.SourceEstimated, note
	}
}

func (out *Reading) use(t tally) {
	units, err := t.units()
	if err != nil {
		out.none(err.Error())
		return
	}
	out.Usage, out.Prompt = units, t.prompt
}

// none says that nothing is known of what the call used.
func (out *Reading) none(why string) {
	out.Usage, out.Source, out.Prompt, out.Note = map[string]uint64{}, chain.SourceNone, 0, why
}

// Nothing is the Reading of a call whose answer could not be metered at all.
func Nothing(c Call, why string) Reading {
	out := Reading{Modifiers: map[string]string{}}
	out.none(why)
	if c.Parsed != nil {
		out.RequestedModel, out.RequestedTier = c.Parsed.Model, c.Parsed.Tier
		out.Model = c.Parsed.Model
	}
	return out
}
