// Package tasktest helps to test task handlers.
//
// Run and Try call one handler in memory: no Redis, no worker, no waiting. Run is for what a handler returns, Try also for what a worker would make of it: done, dead, or retried and when.
//
// Client and Open start an in-process Redis for handlers that submit tasks, and for everything around them; Drain then runs whatever was submitted, delayed tasks and retries at
// once, until nothing is left, and says what ended how. The in-process Redis keeps nothing and is slow: it is for tests alone.
package tasktest
