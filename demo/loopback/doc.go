// Package loopback is a model provider that runs inside the program: it
// serves the golden answers of testdata/billing/cases.json on 127.0.0.1, and
// keeps its own list of what it served and what that costs.
//
// A [Call] joins one case with one way to end. [New] takes the calls and
// listens; each call is then served once, to whoever names it in the header
// [CallHeader], in pieces of random size that follow from the seed alone. The
// bytes are those of the case: the provider invents no answer and no price.
// A call ends as its End says: whole, broken off in the middle of the body, or
// held open until the other side hangs up.
//
// The provider also judges what reaches it, since only it can see it: path,
// Host, credential, the body's digest, whether a stream asks for its usage,
// and that no secret of the proxy in between comes along. What is wrong stands
// in [Provider.Faults]; a call with a fault is served all the same.
//
// Costs are those that the cases state. [Bill] adds them as exact decimals and
// shares no code with docket, so that its sum can stand against docket's.
//
// [Arrange] gives every case an upstream with the price row of the case.
// Cases of one provider whose rows contradict each other come under upstreams
// of their own, so that no body has to be changed.
//
// The package needs the standard library alone.
package loopback
