// Package meter tells what one call to a model provider used and what that
// cost, to the last digit.
//
// # What it owns
//
// Three steps, each pure: no clock, no file and no network is touched.
//
//   - A [Reader] reads one answer, an event at a time or as one body, and
//     settles it as a [Reading]: units by class, and where they are from.
//   - A [Table] of price rows gives the row in force for a model at the moment
//     of the request.
//   - [Table.Price] puts both together as a [Bill], whose meter goes into the
//     header of the call's event.
//
// docs/design/metering.md states the rules; the comments cite its sections.
//
// # What it promises
//
//   - Every answer gets a Reading, whatever was fed and wherever it broke off.
//     What can't be known is source none, which is unpriced and never free.
//   - The result does not depend on how a stream was cut into reads.
//   - Counts are integers and prices are decimals from end to end. Nothing is
//     rounded, clamped or dropped: a counter that nobody knows becomes a class
//     of its own, and a total whose parts do not add up one without a price.
//   - A call has a cost if and only if every class with units has a price, so
//     that a checker finds the same cost from the meter alone.
//   - A model has a row by its exact id, an alias, or either and a date, or it
//     has none. A price is never derived from another.
//   - What is fed is only read, and nothing of an answer is kept but its
//     usage blocks.
//
// # What it leaves to others
//
// Splitting a stream into events, decoding bodies, and containing a panic are
// the boundary's; reading price files from disk and recording a Bill are the
// engine's. A provider's answer is never judged here, let alone refused.
//
// # Endpoints
//
// Read are OpenAI's chat completions, with the differences of the providers
// that speak them, and Anthropic's messages, both plain and as a stream;
// [Free] are reads and token counting. A further family of endpoints is one
// more implementation of the package's family interface, a line in EndpointOf
// and one in newFamily; settling and pricing stay as they are.
package meter
