// Package sfc runs recipes: a work entry comes in, equipment commands go out, their answers settle the actions.
//
// It decides nothing itself. What follows from an answer, an event or a time is decided by package recipe; this
// package loads what the decision needs, and commits what it says in one unit with everything that belongs to it:
// the state of the job order, its response, the next commands, the next timer, the work entry that asked.
//
//	sfc:work ────────────────────► start, resume ─┐                             ┌─► job order, response, status event
//	responses/{instance}/{token} ► Answer ────────┤                             ├─► sfc:outbox ─► dispatch ─► equipment
//	equipment/{scope}/events ────► Event ─────────┼─► load ─► recipe ─► commit ─┤
//	sfc:timers ──────────────────► tick ──────────┘                             └─► sfc:timers
//
// What it promises: every order that was started ends, Completed or Aborted, with exactly one response; a command has
// one id per action, iteration and attempt, however often it is sent and by whichever instance; nothing is sent for
// an order that is not Running.
//
// A process may die anywhere. What it committed is on the streams and timers, and another goes on with it; what it did
// not commit did not happen, and its work entry is handed out again. When Redis is away, work entries, answers and
// events are held back and tried again; when the broker is away, commands stay in the outbox. What no stream and no timer
// leads to any more, because an operator cut a stream, the sweeper finds.
package sfc
