// Package goworkflows lets programs written with github.com/cschleiden/go-workflows run on Takt's durable core. The workflows, activities and clients
// stay as they are; two lines change:
//
//	b, err := goworkflows.Open(ctx, "redis://127.0.0.1:6379/0?prefix=takt") // was redis.NewRedisBackend(rdb)
//	w := goworkflows.NewWorker(b, nil)                                      // was worker.New(b, nil)
//
// It only translates, between the library's words and those of package workflow: events keep the library's own JSON and are opaque to the core. What happens to instances
// when Redis or a worker dies is written there.
//
// # Executors
//
// A worker keeps the goroutines of workflows that wait, so that it need not replay their histories. The library's own cache ends such goroutines when it is full, also of
// workflows that are just running, which then fail or finish without a result. NewWorker brings a [Cache] that leaves those alone: the Backend tells it which they are.
// What an executor knows is used only while the event that it has seen last is the recorded one: Redis may come back without the end of its data.
// With worker.New everything else works, too.
//
// # What it adds
//
// Backend has what the library has no words for: Start with attributes and gates, SignalOnce, SignalWithStart, Schedule, and, by Client, Terminate, Pause, lists and searches. Result is told of the end of an instance,
// while the library's client asks again and again.
package goworkflows
