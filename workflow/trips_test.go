package workflow_test

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// What a caller waits for is one round trip.
func TestRoundTrips(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	warm(e)
	far, p := e.far()
	_, err := far.Stats(e.ctx()) // the connection is there
	e.ok(err)
	s := starting("a")
	i := s.Instance
	for _, c := range []struct {
		name string
		want int
		do   func() error
	}{
		{"Start", 1, func() error { return far.Start(e.ctx(), s) }},
		{"Signal", 1, func() error { return far.Signal(e.ctx(), "a", event("S", 0)) }},
		{"SignalWithStart", 1, func() error { _, err := far.SignalWithStart(e.ctx(), event("S", 0), starting("b")); return err }},
		{"Cancel", 1, func() error { return far.Cancel(e.ctx(), i, event("C", 0)) }},
		{"Pause", 1, func() error { return far.Pause(e.ctx(), "a") }},
		{"Resume", 1, func() error { return far.Resume(e.ctx(), "a") }},
		{"Info", 1, func() error { _, err := far.Info(e.ctx(), i); return err }},
		{"History", 2, func() error { _, err := far.History(e.ctx(), i, 0); return err }}, // none yet: does it exist?
		{"Stats", 2, func() error { _, err := far.Stats(e.ctx()); return err }},
		{"Terminate", 2, func() error { return far.Terminate(e.ctx(), i, "") }},
		{"Remove", 1, func() error { return far.Remove(e.ctx(), i) }},
	} {
		p.Reset()
		e.ok(c.do())
		if got := p.Trips(); got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
		}
	}
}

// wire counts what goes to and comes from Redis.
type wire struct {
	mu     sync.Mutex
	counts map[string]int
}

// A process that runs an instance of ten activities alone, one after the other, reads once: each completion brings the next task along. 2A + 3 round trips.
func TestHandOver(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	warm(e)
	far, p := e.far()
	w, _ := far.worker(workflow.WorkerOptions{Lease: 30 * time.Second})
	const activities = 10
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer func() { cancel(); all.Wait() }()
	ready := make(chan struct{}, 4)
	for range 2 { // one always waits while the other works
		all.Go(func() {
			for {
				task, err := w.WorkflowTask(ctx, []string{"q"})
				if err != nil {
					return
				}
				all.Go(func() {
					n := task.LastSequence + int64(len(task.Events))
					cp := checkpoint(task, schedules(n))
					if n > activities || task.ID == "warm" {
						cp = checkpoint(task, finished)
					}
					if err := task.Complete(context.Background(), cp); err != nil {
						t.Error(err)
					}
				})
			}
		})
		all.Go(func() {
			ready <- struct{}{}
			for {
				a, err := w.ActivityTask(ctx, []string{"q"})
				if err != nil {
					return
				}
				all.Go(func() {
					if err := a.Complete(context.Background(), event("Done", a.Event.Ref)); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
	<-ready
	<-ready
	e.ended(e.begin("warm"))
	e.until("both queues are read", func() bool { return e.int("EXISTS", e.key("activities:q")) == 1 })
	w1 := &wire{counts: map[string]int{}}
	hashes := workflow.Hashes()
	p.Tap(func(fromClient bool, data []byte) {
		w1.mu.Lock()
		defer w1.mu.Unlock()
		if fromClient {
			for name, hash := range hashes {
				w1.counts[name] += bytes.Count(data, []byte(hash))
			}
			return
		}
		for _, kind := range []string{"tasks", "activities"} { // a read that brought something names its stream
			w1.counts["read "+kind] += bytes.Count(data, []byte(e.key(kind+":q")+"\r\n"))
		}
	})
	i := e.begin("a")
	e.ended(i)
	p.Tap(nil)
	w1.mu.Lock()
	defer w1.mu.Unlock()
	delete(w1.counts, "fire") // not of the instance
	maps.DeleteFunc(w1.counts, func(_ string, n int) bool { return n == 0 })
	want := map[string]int{"read tasks": 1, "begin": 1, "complete": activities + 1, "settle": activities}
	if !maps.Equal(w1.counts, want) {
		t.Errorf("on the wire: %v, want %v", w1.counts, want)
	}
	total := 0
	for _, n := range w1.counts {
		total += n
	}
	if total != 2*activities+3 {
		t.Errorf("%d round trips", total)
	}
	if h := e.history(i); h[:len("Started Done/1")] != "Started Done/1" || len(h) != len("Started")+activities*len(" Done/1")+1 {
		t.Errorf("history: %s", h)
	}
}
