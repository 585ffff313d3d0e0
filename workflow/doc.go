// Package workflow is a durable core for workflows: instances, their history, events that wait for them, timers, and queues of what is to be done. It knows no workflow
// library; package goworkflows runs programs of go-workflows on it.
//
//	Start ──► inbox ──► queue ──► WorkflowTask ──Complete──► history
//	Signal ─►   ▲                                  │  │ │
//	            │        ActivityTask ◄── queue ◄──┘  │ └──► other instances, at once or by the outbox of the shard
//	            └── Complete ──┘                      │
//	            ▲                                     ▼
//	            └───────────────── due ──────────── timers
//
// It promises: what Start, Signal and Complete returned nil for is recorded. A task is one worker's at a time, an instance has one task at a time, and a task's outcome is recorded once, all
// of it or nothing. A task whose worker dies, hangs or loses Redis goes to another, and what the first still says is refused (ErrLost): its code may run twice, its outcome counts once.
//
// When a worker process dies, its tasks are another's after WorkerOptions.Lease and at most a second more. When Redis is away, calls are repeated until their context ends, and waiting goes on; what it loses is lost as a whole
// checkpoint, never a part of one. When Redis comes back empty, workers go on with what is started then.
package workflow
