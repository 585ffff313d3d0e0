// Package mes is the MES side of Takt's protocol, for MES connectors written in Go, the command line, the demo and the
// tests. It needs MQTT alone.
//
// Client sends the job methods, queries and configuration events, each under one id until it is answered. Follow keeps up
// with what the stations did: it hears the retained state index of each scope, fetches the results, gives each to the
// MES' own function, clears the order and remembers how far it came:
//
//	state-index ──> seq compared ──> result/{id} fetched ──> OnResult ──> Memory.Handed ──> Clear ──> Memory.Settled(seq)
//
// No result is lost while either side, the broker or Redis is away: an order stays in the index until it is cleared, and
// it is cleared only after its result is remembered as handed over. A result is handed over once as far as the memory is
// kept. The one exception: if the process dies after OnResult returned and before Memory.Handed did, that result is handed
// over again (under load the few results whose receipts share that write), so OnResult should know a JobResponse it has
// seen, or keep the receipts in its own transaction.
//
// StoreOnce stores an order once, over any number of repeats and restarts. What it stored is remembered, so Follow reports an order that
// Takt lost: Redis failed over to a replica that lagged, or an older copy was restored. An order is lost (OnLost) if an index that is newer
// than its acceptance, by seq or epoch, lists neither the order nor its end, and Takt does not know it when it is asked. After such a loss
// orders that are over may run again; their results are not handed over again (OnDuplicate), for seven days. One MES follows a station.
package mes
