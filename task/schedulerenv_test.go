package task_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

// shortLease is long enough for a busy machine, and short enough to be waited for.
const shortLease = 3 * time.Second

// schedules runs a scheduler until the test ends, or stop is called. Its lease is a minute if nothing is said: it leads on however busy the machine is.
func (e *env) schedules(o task.SchedulerOptions, what ...task.Schedulable) (s *task.Scheduler, stop func()) {
	e.t.Helper()
	return e.schedulesOn(e.client, o, what...)
}

func (e *env) schedulesOn(c *task.Client, o task.SchedulerOptions, what ...task.Schedulable) (s *task.Scheduler, stop func()) {
	e.t.Helper()
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	s, err := c.Scheduler(o, what...)
	e.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait(e.t, "the scheduler stops", end); err != nil {
			e.t.Errorf("Run: %v", err)
		}
	})
	e.t.Cleanup(stop)
	return s, stop
}

// messages are the tasks of all queues, in order.
func (e *env) messages() (all []wire.Message) {
	e.t.Helper()
	for _, q := range task.Queues() {
		entries, err := e.must("XRANGE", e.key("tasks:"+string(q)), "-", "+").AsXRange()
		e.ok(err)
		for _, entry := range entries {
			m, err := wire.Decode([]byte(entry.FieldValues["data"]))
			e.ok(err)
			all = append(all, m)
		}
	}
	return all
}

// slotsOf are the slots in the ids of an entry's tasks, in milliseconds.
func (e *env) slotsOf(entry string) (slots []int64) {
	e.t.Helper()
	for _, m := range e.messages() {
		if text, ok := strings.CutPrefix(m.ID, "_"+entry+"@"); ok {
			slot, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				e.t.Fatalf("id %q: %v", m.ID, err)
			}
			slots = append(slots, slot)
		}
	}
	return slots
}

func (e *env) schedule(name string) task.ScheduleInfo {
	e.t.Helper()
	s, err := e.client.Schedule(e.ctx(), name)
	e.ok(err)
	return s
}

func (e *env) names() (names []string) {
	e.t.Helper()
	all, err := e.client.Schedules(e.ctx())
	e.ok(err)
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// leads waits until a scheduler is elected, other than those named.
func (e *env) leads(but ...string) string {
	e.t.Helper()
	var id string
	e.eventually("a leader", func() bool {
		var err error
		id, _, err = e.client.SchedulerLeader(e.ctx())
		return err == nil && id != "" && !slices.Contains(but, id)
	})
	return id
}

// evenly fails if a slot is there twice, or one between the first and the last is missing.
func evenly(t *testing.T, slots []int64, every time.Duration) {
	t.Helper()
	for i := 1; i < len(slots); i++ {
		if slots[i]-slots[i-1] != every.Milliseconds() {
			t.Errorf("slot %d follows %d: want every %v; all: %v", slots[i], slots[i-1], every, slots)
		}
	}
}
