//go:build 386 || arm || mips || mipsle

package main

// A ledger file is mapped into memory whole and grows without bound, and
// counters and file offsets are 64 bits wide: a 32-bit build would work until
// the ledger is large. So it does not build at all.
var _ = docket_needs_a_64_bit_system_since_a_ledger_outgrows_32_bits
