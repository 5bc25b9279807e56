// Package client is a typed client of docket's HTTP API over the unix socket,
// for the command line.
//
// It owns how requests are spelled and how answers and errors are read. It
// knows nothing of the ledger's format: events, exports and snapshots are bytes
// here, and hashes and amounts are text, exactly as the service sent them.
//
// What it promises: an answer is the service's own or an error. An error of the
// service is an *Error with its code; ErrNoService says that nobody answers at
// the socket, so nothing was done; ErrBroken says that the connection ended in
// the middle, so that it is not known what was done. Nothing is tried twice. A
// stream that ends early ends in an error, never in io.EOF.
//
// A Client is safe for concurrent use.
package client
