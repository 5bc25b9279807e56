// Package api answers docket's HTTP API: on the unix socket of the data
// folder, and on loopback behind a guard.
//
// It owns the routes, the strict reading of what clients send, the guard of
// docs/threats.md, section 8, the peer credentials of the socket, and the one
// closed list of error codes (Codes). It leaves to engine every decision about
// the ledger, and to the program that wires it which listeners there are.
//
// What it promises:
//
//   - An append is answered when the event is durable. An answer other than
//     201 and 200 says by its code whether something can have been written:
//     only outcome-unknown leaves that open.
//   - What a client sends is taken as it is or refused: duplicate, misspelt and
//     unknown members, broken UTF-8 and compressed bodies are refused, with the
//     member's path. Nothing is converted in silence.
//   - On TCP nothing is routed before Host, Origin, Referer, the fetch metadata
//     and the message's framing were judged, and nothing but the boundary, whose
//     paths hold run tokens, is served without the bearer token.
//   - A stream that fails midway is broken off, so that a part never looks like
//     the whole. An export ends with its trailer.
//   - Every loop over what a client sends has a limit, named beside it.
//
// Errors have the body {"error":{"code","message","hint"}}.
//
// A program serves both listeners like this:
//
//	s := api.New(api.Options{Engine: e, Token: token, BaseURLs: urls})
//	socket, err := api.ListenUnix(path)
//	…
//	go api.HTTP(s.Socket(), log).Serve(api.Limit(socket, api.MaxConns))
package api
