package meter

import (
	"mime"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Dialects: which vendor's paths an upstream speaks.
const (
	DialectOpenAI    = "openai"
	DialectAnthropic = "anthropic"
)

// Call is what is known of a call before its answer.
type Call struct {
	Provider string // the name in meters and price rows
	Dialect  string // DialectOpenAI or DialectAnthropic
	Method   string // HTTP method
	Path     string // path after the upstream's base; a query is not looked at
	Body     []byte // the client's body as it sent it; only read, kept until Finish
	// Parsed is what ParseRequest gave for this call. Nil: the Reader parses
	// the body itself when it needs it.
	Parsed *Request
}

// Request is what of a request's body matters before it is forwarded. A member
// that is missing, null or of another type is the zero value.
type Request struct {
	Model        string
	Stream       bool   // "stream": true
	IncludeUsage bool   // "stream_options": {"include_usage": true}
	Tier         string // "service_tier"
}

// ParseRequest reads the body of c. It never fails: of a body that is no JSON
// object, or that breaks off, what could be read is told and the rest is zero.
func ParseRequest(c Call) Request {
	var r Request
	// The error is of no use here: the provider judges the body, not docket.
	_ = members(c.Body, func(name string, value jsontext.Value) error {
		switch name {
		case "model":
			r.Model = text(value)
		case "stream":
			r.Stream = value.Kind() == 't'
		case "service_tier":
			r.Tier = text(value)
		case "stream_options":
			r.IncludeUsage = includesUsage(value)
		}
		return nil
	})
	return r
}

func includesUsage(options jsontext.Value) bool {
	asked := false
	_ = members(options, func(name string, value jsontext.Value) error {
		if name == "include_usage" {
			asked = value.Kind() == 't'
		}
		return nil
	})
	return asked
}

// IsEventStream says whether an answer of this Content-Type is read as a
// stream of events. What was asked for does not matter: some providers answer
// a stream request with one JSON body.
func IsEventStream(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		// A broken parameter does not hide what stands before it.
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media == "text/event-stream"
}

// family reads the answers of one family of endpoints. A family is fed either
// events or one body, keeps the usage figures it saw to itself and what all
// families have in common in the facts, and is settled once.
type family interface {
	// event reads the data of one event of a stream.
	event(f *facts, data []byte) error
	// body reads a whole answer. One that is cut off gives
	// io.ErrUnexpectedEOF; what stood whole before the cut is kept.
	body(f *facts, data []byte) error
	// settle puts the figures into classes. hour says whether the request
	// asks for a cache life of one hour. An error means that the figures
	// can't be read: the call's source is none.
	settle(hour func() bool) (tally, error)
}

// facts is what every family finds in an answer.
type facts struct {
	model     string            // the last one named
	modifiers map[string]string // as served, by name
	text      uint64            // bytes of text that the model wrote
	failed    bool              // an error stood inside the answer
	known     bool              // something had the family's shape
}

// serve notes a modifier of the answer; null and empty say nothing.
func (f *facts) serve(name string, value jsontext.Value) {
	if value.Kind() == 'n' {
		return
	}
	v := text(value)
	if value.Kind() != '"' {
		v = value.String() // of an odd type: no row prices it
	}
	if v == "" {
		return
	}
	if f.modifiers == nil {
		f.modifiers = map[string]string{}
	}
	f.modifiers[name] = v
}

// name notes the model of the answer; some chunks carry an empty one.
func (f *facts) name(value jsontext.Value) {
	if m := text(value); m != "" {
		f.model = m
	}
}

// Endpoint says how a call is metered.
type Endpoint int

const (
	// Unknown is an endpoint that this package does not read: a 2xx answer
	// is recorded as source none.
	Unknown Endpoint = iota
	// Free is a call that no provider bills: reading and token counting.
	Free
	// Chat is OpenAI's chat completions, from whichever provider.
	Chat
	// Messages is Anthropic's messages.
	Messages
)

// EndpointOf says what kind of endpoint c goes to. Paths are matched at their
// end, since gateways put a prefix of their own in front.
func EndpointOf(c Call) Endpoint {
	switch c.Method {
	case "GET", "HEAD", "OPTIONS":
		return Free
	case "POST":
	default:
		return Unknown
	}
	path, _, _ := strings.Cut(c.Path, "?")
	path = "/" + strings.Trim(path, "/")
	bare := c.Dialect == DialectAnthropic // OpenAI has other things called messages
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/v1/messages"), bare && strings.HasSuffix(path, "/messages"):
		return Messages
	case strings.HasSuffix(path, "/v1/messages/count_tokens"), bare && strings.HasSuffix(path, "/messages/count_tokens"):
		return Free
	}
	return Unknown
}

// newFamily is the reader of e's answers; nil where there is nothing to read.
func newFamily(e Endpoint) family {
	switch e {
	case Chat:
		return &chat{}
	case Messages:
		return &messages{}
	}
	return nil
}
