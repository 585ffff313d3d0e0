package task_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// jobs are jobs in memory, with all states that each has had and when.
type jobs struct {
	mu     sync.Mutex
	states map[int][]string
	times  map[int][]time.Time
}

func (j *jobs) set(id int, state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.states[id] = append(j.states[id], state)
	j.times[id] = append(j.times[id], time.Now())
}

func (j *jobs) in(state string) (ids []int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, all := range j.states {
		if all[len(all)-1] == state {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (j *jobs) history(id int) ([]string, []time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.states[id]), slices.Clone(j.times[id])
}

type execute struct{ Job int }

// executor runs one job, one run of it at a time.
var executor = task.Define[execute, int]("jobs:DummyJobExecutorTask", task.Normal, task.Large, task.Retry(task.Backoff{Base: 10 * time.Second, Retries: 3}),
	task.Locks(func(a execute) []lock.Spec {
		return []lock.Spec{lock.Mutex(lock.Object{Type: lock.Job, Key: strconv.Itoa(a.Job)})}
	}))

// task-H3, task-B2: the executor has a mutex of its job.
func TestDummyExecutorMutex(t *testing.T) {
	if got := task.LockKeys(executor, execute{42}); !slices.Equal(got, []string{"lock:mutex:job:42"}) {
		t.Errorf("%q", got)
	}
}

// task-H4, task-H5, task-H6: a periodic monitor finds jobs and submits an executor for each, in order; the executors run them through their states.
func TestDummyJobExecutor(t *testing.T) {
	long.Test(t, "depends on the speed of the machine")
	e := newEnv(t)
	db := &jobs{states: make(map[int][]string), times: make(map[int][]time.Time)}
	found := make(chan int, 1000)
	monitor := task.Define[struct{}, int]("jobs:DummyJobExecutorMonitorTask", task.Background, task.Small, task.Every(20*time.Millisecond))
	var mu sync.Mutex
	var submitted []int
	e.start(task.WorkerOptions{},
		monitor.Handle(func(ctx context.Context, j *task.Job[struct{}]) (int, error) {
			ids := db.in("Received")
			for _, id := range ids {
				db.set(id, "Waiting")
				if _, err := executor.Submit(ctx, task.ClientFrom(ctx), execute{id}, task.Key(fmt.Sprint("run ", id))); err != nil {
					return 0, err
				}
				mu.Lock()
				submitted = append(submitted, id)
				mu.Unlock()
			}
			if j.Labels["periodic"] != "true" {
				t.Errorf("labels %v", j.Labels)
			}
			select {
			case found <- len(ids):
			default:
			}
			return len(ids), nil
		}),
		executor.Handle(func(_ context.Context, j *task.Job[execute]) (int, error) {
			for _, state := range []string{"Matched", "Running", "Done"} {
				db.set(j.Args.Job, state)
			}
			return j.Args.Job, nil
		}))
	_, stop := e.schedules(task.SchedulerOptions{Metrics: task.NewMetrics(nil)}, monitor, executor)
	if n := wait(t, "the monitor runs", found); n != 0 {
		t.Errorf("%d jobs found, there is none", n)
	}
	if mu.Lock(); len(submitted) != 0 {
		t.Errorf("submitted %v without a job", submitted)
	}
	mu.Unlock()
	for id := 40; id < 45; id++ {
		db.set(id, "Received")
	}
	e.eventually("all are done", func() bool { return len(db.in("Done")) == 5 })
	stop()
	e.idle()
	if wrong, err := task.Check(e.ctx(), e.client, time.Hour); err != nil || len(wrong) > 0 {
		t.Errorf("left behind: %v, %v", wrong, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.IsSorted(submitted) || len(submitted) != 5 {
		t.Errorf("submitted %v", submitted)
	}
	for id := 40; id < 45; id++ {
		states, times := db.history(id)
		if !slices.Equal(states, []string{"Received", "Waiting", "Matched", "Running", "Done"}) {
			t.Errorf("job %d went through %v", id, states)
		}
		if !slices.IsSortedFunc(times, time.Time.Compare) {
			t.Errorf("job %d at %v", id, times)
		}
	}
}
