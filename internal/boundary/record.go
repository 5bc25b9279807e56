package boundary

import (
	"context"
	"time"

	"github.com/docket-audit/docket/engine"
)

// Recorder is what the boundary needs of an engine. All methods are safe for
// concurrent use, and none is retried here: an error is final for the request
// that it belongs to.
type Recorder interface {
	// RunByToken finds the run that a token was issued for. The error is
	// engine.ErrRunUnknown, engine.ErrRunClosed, or means that the ledger
	// can't say.
	RunByToken(token string) (engine.Run, error)
	// Begin records that a call is about to leave; the record is durable when
	// it returns. On any error nothing may be forwarded.
	Begin(ctx context.Context, s engine.CallSpec) (Call, error)
	// Refuse records a request that is not forwarded, durably.
	Refuse(ctx context.Context, s engine.CallSpec, code string, httpStatus int) (engine.Receipt, error)
	// CountUnavailable counts a refusal that could not be recorded.
	CountUnavailable()
}

// Call is one forwarded call, as *engine.Call. Exactly one of Respond and Fail
// is called, once; both are durable when they return and wait for no client.
type Call interface {
	// Context ends, with a cause, when the call has to be given up because its
	// run closes or the service stops.
	Context() context.Context
	Respond(o engine.Response) (engine.Receipt, error)
	Fail(reason string, took time.Duration) (engine.Receipt, error)
}

// Record makes a Recorder of an engine.
func Record(e *engine.Engine) Recorder { return recorder{e} }

type recorder struct{ *engine.Engine }

// Begin gives the engine's call as the interface that this package declares.
func (r recorder) Begin(ctx context.Context, s engine.CallSpec) (Call, error) {
	c, err := r.Engine.Begin(ctx, s)
	if err != nil {
		return nil, err // a nil *engine.Call must not become a Call that is not nil
	}
	return c, nil
}
