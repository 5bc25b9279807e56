// Package boundary is the recording proxy in front of model providers: the
// paths below /b/ that agents use as their providers' base URLs.
//
// # What it owns
//
// A Handler takes /b/<run token>/<upstream name>/<path>, finds the run that the
// token was issued for, and passes the call to <upstream url>/<path>. Status,
// headers, body and trailers of the answer reach the client as the provider
// sent them, each piece when it comes. A copy goes to the meter, and the
// commitments to both bodies go into the ledger. DefaultUpstreams are there
// without any configuration; a run's opener may name another address for one
// of them.
//
// # What it promises
//
//   - No call leaves before its model.request is durable, and a call that left
//     has exactly one outcome, whichever way it ends: the client gone, the
//     provider broken off or silent, the run closed, the service stopping, a
//     panic. The outcome is durable before the client can see the answer's end.
//     The ledger is waited for at these two moments and at no other.
//   - Nothing is free because docket does not know it: what is forwarded is
//     metered, or of a kind that no provider bills, and the rest is refused.
//   - A refusal is recorded before it is answered, has the shape of the
//     provider's own error, and tells SDKs not to repeat it. Codes lists the
//     reasons. The two exceptions have no record: a token that no open run has,
//     for there is no run to record under, and a ledger that takes nothing,
//     which is counted.
//   - What goes upstream is the client's request: the same body, and the same
//     headers but for those that frame the message. One body is changed: a
//     streaming chat completion that does not ask for its usage is made to ask,
//     and the client's stream is kept as if it had not. The request's
//     commitment is to the client's bytes, so that whoever holds them can check
//     it; the event says that usage was added. The response's commitment is to
//     the bytes that came from the provider, before anything was taken out.
//   - No header's value, no query and no part of a body reaches a log, an error
//     or a record, and neither does the text of an error from elsewhere, which
//     could repeat them. A call's record names its upstream, not the address.
//   - Upgrades are answered with 426: what follows one could not be metered.
//     Redirects are passed on and not followed.
//
// # What it leaves to others
//
// The engine numbers events, prices readings and bounds the refusals in hand.
// The server in front checks Host, bounds headers and connections, and must
// have neither a ReadTimeout nor a WriteTimeout, which cut long streams: the
// boundary moves the connection's deadlines by itself, piece by piece. The
// program must give the standard library's logger no place where secrets may
// not be: net/http prints there what a provider sends on an idle connection.
//
// docs/design/boundary.md has the reasons.
package boundary
