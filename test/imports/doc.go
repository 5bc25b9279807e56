// Package imports holds no code. Its test holds the table of who may import
// whom in docket, and runs it against every package of the module, on Linux and
// on darwin: a package without a row fails, and so does an import that its row
// does not allow. Of the pure packages it also walks the syntax, for reads of
// the clock, timers and sources of randomness.
//
// Whoever adds a package adds its row in the same commit.
package imports
