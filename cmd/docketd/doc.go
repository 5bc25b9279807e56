// Command docketd is docket's local service: it holds a ledger, serves the API
// on a unix socket and on loopback, and records model traffic at its boundary.
//
// This package is wiring: which files a data folder holds, the order of steps
// of a start and a stop, signals and exit codes. What is served lives in
// internal/api and internal/boundary, what is recorded in engine.
//
// Standard output gets one line, "listening http://…", when requests are
// answered; everything else goes to standard error. The exit codes are 0 for a
// clean stop, 1 where something failed, 2 for wrong words, and 74 where storage
// failed and the ledger is latched: then a restart examines the file first.
package main
