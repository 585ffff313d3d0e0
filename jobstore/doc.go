// Package jobstore keeps job orders, their responses and recipes in execution, and the streams that carry a
// change on: to the recipe engine, to the publisher, to whoever listens for status events.
//
// It promises one thing: a Change is written whole or not at all, and only if what it was decided on is still
// what is stored.
//
//	             one round trip                        one round trip
//	Query ──► Load ──► Snapshot ──► decide (pure) ──► Commit(Snapshot, Change)
//	                                                    │  job order, response, execution, indexes,
//	                                                    │  reply to the command that asked,
//	                                                    ├─► joborder:changes ──► publisher
//	                                                    ├─► sfc:work ──────────► sfc
//	                                                    ├─► sfc:outbox ────────► equipment commands
//	                                                    └─► event:*:list ──────► status events
//
// The examples show each store: orders, responses and executions (Commit), what a station has (Configure, Resources), events and transactions that came before
// (FirstTransaction), counters (Count), a hook that one of several replicas runs (PostStart), change streams and cursors (SaveCursor).
//
// When Redis is away, Load and Commit fail with an error for which Away is true; nothing was decided, or the
// outcome of the Commit is unknown: load again and see. When a process dies between Load and Commit, nothing has
// happened. When it dies after the Commit, another process finds the entries on the streams.
package jobstore
