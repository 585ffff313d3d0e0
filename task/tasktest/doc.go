// Package tasktest helps to test task handlers.
//
// Run and Try call one handler in memory: no Redis, no worker, no waiting. Run is for what a handler returns, Try also for what a worker would make of it: done, dead, or retried and when.
//
// Client and Open start an in-process Redis for handlers that submit tasks, and for everything around them; Drain then runs whatever was submitted, delayed tasks and retries at
// once, until nothing is left, and says what ended how. The in-process Redis keeps nothing and is slow: it is for tests alone. Submitted and RequireSubmitted look at what
// code under test has submitted, with its arguments and when it is due.
//
// New is for whatever depends on time: retries, delays, schedules, time limits, windows. It makes the same in a bubble of testing/synctest, where the test sets the clock. Nobody
// sleeps, and a run is the same on a slow machine:
//
//	func TestReminder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := tasktest.New(t, task.Options{})
//			env.Work(task.WorkerOptions{}, remind.Handle(send))
//			h, err := remind.Submit(t.Context(), env.Client, "tea", task.In(time.Hour))
//			...
//			env.Advance(time.Hour)
//			if env.Runs().Of(h.ID).Outcome() != task.Done {
//				t.Error("not reminded")
//			}
//		})
//	}
//
// synctest.Wait blocks until all has happened that can happen without time: that workers have heard of a pause, say.
//
// time.Now in handlers is the bubble's clock, too. The rules of testing/synctest hold: a handler that waits for a network, or for a goroutine outside the bubble, keeps time
// from passing, so what it talks to must be inside. Which of the tasks that are due at the same time runs first is not said; with one slot in
// WorkerOptions.Concurrency it is one at a time.
package tasktest
