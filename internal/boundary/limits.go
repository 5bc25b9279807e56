package boundary

import "time"

// Every loop over outside input, and every wait for somebody else, is bounded
// by a limit named here, by one of Options, or by the stream limits of sse.go
// and decode.go.
const (
	// MinBody is the smallest MaxBody that is accepted, and the default:
	// agents send tens of MiB of screenshots, and a smaller limit would fail
	// them for no reason of theirs.
	MinBody = 32 << 20
	// bodiesInFlight is how many bodies of MaxBody the default budget holds.
	bodiesInFlight = 8
	// firstRead is what is set aside at once for a body: a length that is
	// declared costs nothing to lie about.
	firstRead = 1 << 20
	// maxPath bounds the path of a call, as sent. Real ones have some 30 bytes.
	maxPath = 2 << 10
	// maxUpstreamName, maxMethod and maxModel bound names that go into a record.
	maxUpstreamName = 64
	maxMethod       = 32
	maxModel        = 1 << 10
	// copyBuffer is the size of one read from upstream.
	copyBuffer = 32 << 10
	// maxIdleConns bounds the idle connections to one upstream: enough that
	// 64 agents in parallel find theirs again.
	maxIdleConns = 64
	// maxResponseHeader bounds the head of an answer.
	maxResponseHeader = 1 << 20
)

// The defaults of Options.
const (
	// defaultHeadWait outlasts the ten minutes after which the official SDKs
	// give up on an answer by themselves.
	defaultHeadWait = 15 * time.Minute
	// defaultIdle is the longest silence inside an answer. Providers send
	// pings or comments every few seconds; models that think in silence
	// have been seen to do so for minutes.
	defaultIdle = 10 * time.Minute
	// defaultClientWait is how long a client may take over one piece, of its
	// request or of the answer.
	defaultClientWait = 2 * time.Minute
	dialTimeout       = 30 * time.Second
	tlsTimeout        = 15 * time.Second
	idleConnTimeout   = 90 * time.Second
	keepAlive         = 30 * time.Second
)
