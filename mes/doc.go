// Package mes is the MES side of Takt's protocol, for MES connectors written in Go, the command line, the demo and the
// tests. It needs MQTT alone.
//
// Client sends the job methods, queries and configuration events, each under one id until it is answered. Follow keeps up
// with what the stations did: it hears the retained state index of each scope, fetches the results, gives each to the
// MES' own function, clears the order and remembers how far it came (spec/sfc-and-publisher C.8):
//
//	state-index ──> seq compared ──> result/{id} fetched ──> OnResult ──> Memory.Handed ──> Clear ──> Memory.Settled(seq)
//
// No result is lost while either side, the broker or Redis is away: an order stays in the index until it is cleared, and
// it is cleared only after its result is remembered as handed over. A result is handed over once as far as the memory is
// kept. The one exception: if the process dies after OnResult returned and before Memory.Handed did, that result is handed
// over again (under load the few results whose receipts share that write), so OnResult should know a JobResponse it has
// seen, or keep the receipts in its own transaction.
package mes
