// Package limit declares limiters: how many may do something at a time, and how often it may be done. They are taken, alone or in one list with locks,
// by lock.Locker; package lock says what Redis and a dead holder mean for them.
//
//	specs := []lock.Spec{
//		lock.Mutex(lock.Object{Type: lock.Task, Key: "Rebuild"}),
//		limit.Concurrency(lock.Object{Type: lock.Job, Key: "site-7"}, 5),
//		limit.Rate(lock.Object{Type: lock.Job, Key: "site-7"}, 100, time.Minute),
//	}
//	held, err := locker.Try(ctx, specs, lock.TryOptions{})
//
// A limit of 0 is none: always granted, nothing stored. All times are by the clock of the server, so that those of the callers may differ. All
// limiter keys expire by themselves.
package limit
