// Package task runs work that may be done by any process, later, again or elsewhere: typed tasks in queues on Redis, with priorities, retries,
// delays, locks and limits, results, groups, schedules and dead letters.
//
//	var Send = task.Define[Mail, string]("mail:Send", task.Retry(task.Backoff{}))
//
//	client, err := task.Open(ctx, "redis://127.0.0.1:6379", task.Options{})
//	worker, err := client.Worker(task.WorkerOptions{}, Send.Handle(send)) // then worker.Run(ctx)
//	handle, err := Send.Submit(ctx, client, Mail{To: "ada@example.org"})
//	receipt, err := handle.Await(ctx)
//
//	                                        ┌──────── retry, snooze, no locks ────────┐
//	                                        ▼                                         │
//	Submit ──┬── now ──────────► stream PRIORITY:SIZE ──► worker: locks, handler ──► finish ──► done       result, callback
//	         │                        ▲                      │                        │
//	         └── later ─► delayed ────┘                      └─ dies, lease over:     ├───────► dead       dead letter, result
//	                      set    promote, when due              another worker        └───────► cancelled  result
//
// What runs again goes through the delayed set. A finish is one script that does all of it, or nothing: the end of the entry, the result, the retry or
// dead letter, the counters, the group, the unique key.
//
// Arguments and results travel by the names of their fields, or those of their json tags; types that programs in Python share are defined with Positional.
//
// # What it promises
//
// Once Submit has returned nil, the task ends exactly once: as done, dead or cancelled. Its id is the same over all runs.
//
// Until then it runs at least once, unless it is cancelled, or its deadline passes, before. It runs more than once if its handler fails and its type has a retry policy, and if its worker dies or
// is away for longer than its lease. Effects outside Redis may therefore come twice; Info.ID, Info.Attempt and Info.Fence, which is higher in every later run, are there
// to tell them apart. Nothing that a worker says after it was declared dead changes anything.
//
// Submit returns an error of the connection if the outcome is not known. Under the option Key, or ID, it can be repeated: there is one task.
//
// Priorities are shares (Weighted) or an order (Strict). Within a queue tasks begin in the order of
// coming, but for those that are retried, delayed, blocked or taken over.
//
// # When something dies
//
// A worker: its heartbeat expires after WorkerOptions.Lease (10 s), and others run its tasks. A task that takes its worker with it is dead after
// WorkerOptions.MaxDeliveries (5) such deaths.
//
// A worker that is stopped by its context hands back what it has not begun at once, gives the rest WorkerOptions.Drain, and hands back what is left. That counts as no attempt.
//
// Redis, or the way to it: workers keep what they hold, try again, and go on when it is back. If that takes longer than the lease, they end the contexts
// of their handlers (ErrLost), since somebody else may have the tasks; these run again. Submissions fail with an error for which Away is true.
//
// Redis comes back without its memory (no append-only file, FLUSHALL): its tasks, results and dynamic schedules are gone. Workers and schedulers go on with what is submitted and declared
// from then on. With appendfsync everysec a power failure loses about the last second, with asynchronous replication a failover what was
// not copied, but for submissions under Options.Replicas.
//
// A scheduler: another one leads within its lease (30 s) and a second, and makes up for what was missed, as each schedule says. No slot is submitted twice.
//
// Whoever awaits: nothing. A result is kept for the retention of its type, whoever waits.
//
// What does not end: a group that expires before its children do never calls back; a Handle.Await whose result has expired waits for its context.
//
// # Words
//
//	Type        what those who submit and those who handle a task agree on: name, arguments, result, policies
//	Task        one piece of work, with an id
//	Queue       a stream, PRIORITY:SIZE: one of nine, or of a pool; a worker serves all priorities of its sizes
//	Run         one call of a handler; an attempt is one that counts
//	Lease       how long a worker counts as alive without a sign of life
//	Fence       a number that rises with every run of a task, or with every holder of a lock
//	Delayed     not due yet; Blocked: delayed until its locks are free; Collected: waits for others, see Aggregate
//	Dead letter a task that failed for good, with its message and history, until somebody requeues or deletes it
//	Group       children and the callback that follows them
//	Slot        an instant at which a schedule is due
//
// # Read on
//
// submit.go, worker.go, run.go, outcome.go and finish.go are the way of a task, in that order; each script has a header that is its contract. Locks are those of package lock, limits those
// of package limit, schedules are read by schedule; and handlers are tested with task/tasktest.
// Check says whether all that is stored agrees.
package task
