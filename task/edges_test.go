package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// Times below a millisecond are one: 0 would be a time to live that Redis refuses after half of a script is done.
func TestTimesBelowAMillisecond(t *testing.T) {
	e := newEnv(t)
	short := 500 * time.Microsecond
	typ := task.Define[int, int]("test:Short", task.Small, task.Retention(short))
	ran := make(chan int, 10)
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { ran <- j.Args; return 1, nil }))
	send(e, typ, 1)
	send(e, typ, 2, task.UniqueKey("k", short))
	send(e, typ, 3, task.Keep(short), task.RunTimeout(time.Hour))
	for range 3 {
		wait(t, "run", ran)
	}
	e.idle()
	c := e.connect(task.Options{KnownFor: short})
	if _, err := typ.Submit(e.ctx(), c, 4, task.Key("known")); err != nil {
		t.Error(err)
	}
	wait(t, "run", ran)
	e.idle()
}

// Options that cannot be meant are refused, and nothing is submitted.
func TestUnfitOptions(t *testing.T) {
	e := newEnv(t)
	for want, opts := range map[string][]task.SubmitOption{
		"In -1h":    {task.In(-time.Hour)},
		"At 0001":   {task.At(time.Time{})},
		"Deadline ": {task.Deadline(time.Unix(-1, 0))},
		"UniqueKey": {task.UniqueKey("", 0)},
		"and an ID": {task.ID("x"), task.Key("k")},
		`id ""`:     {task.ID("")},
		"want one":  {task.Key("k"), task.ID("x")},
	} {
		if _, err := Double.Submit(e.ctx(), e.client, double{}, opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if all, _ := e.srv.AllKeys(e.ctx()); len(all) != 0 {
		t.Errorf("keys %v", all)
	}
}

// A key of another type in the place of one that tasks need stops nobody else, and loses nothing: it is a clear error until somebody removes it.
func TestAwaitedOfAnotherType(t *testing.T) {
	e := newEnv(t)
	e.must("SET", e.key("tasks:awaited"), "x")
	e.start(task.WorkerOptions{}, echoing())
	h := send(e, echo, "a")
	e.eventually("it runs", func() bool { return e.number("XLEN", e.key("tasks:normal:small")) == 1 })
	e.must("DEL", e.key("tasks:awaited"))
	if got, err := h.Await(e.ctx()); err != nil || got != "a" {
		t.Errorf("%q, %v", got, err)
	}
	e.idle()
}

// T8: a queue that is a key of another type puts its own delayed tasks off, and not those of others.
func TestPromoteIntoAnotherType_T8(t *testing.T) {
	e := newEnv(t)
	e.must("SET", e.key("tasks:realtime:large"), "x")
	stuck := send(e, echo, "stuck", task.Realtime, task.Large, task.In(time.Millisecond))
	e.start(task.WorkerOptions{}, echoing())
	if got, err := send(e, echo, "fine", task.In(20*time.Millisecond)).Await(e.ctx()); err != nil || got != "fine" {
		t.Errorf("%q, %v", got, err)
	}
	score, err := e.must("ZRANGE", e.key("tasks:delayed"), "0", "0", "WITHSCORES").AsZScores()
	if err != nil || len(score) != 1 || !strings.Contains(score[0].Member, stuck.ID) || score[0].Score < float64(time.Now().Unix()+30) {
		t.Errorf("%v, %v", score, err)
	}
}

// W2: each priority gets its share by weight, also where the weights add up to an even number and one slot reads and starts in turn.
func TestWeightedShares_W2(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Share", task.Small)
	const n = 400
	for _, p := range task.Priorities() {
		if _, err := typ.SubmitMany(e.ctx(), e.client, make([]string, n), p); err != nil {
			t.Fatal(err)
		}
	}
	starts := make(chan task.Priority, 3*n)
	e.start(task.WorkerOptions{Policy: task.Weighted{Realtime: 2, Normal: 1, Background: 1}, Concurrency: map[task.Size]int{task.Small: 1}},
		typ.Handle(func(_ context.Context, j *task.Job[string]) (task.None, error) {
			p, _, _ := strings.Cut(string(j.Queue), ":")
			starts <- task.Priority(p)
			<-time.After(2 * time.Millisecond) // as long as nothing is fetched ahead
			return task.None{}, nil
		}))
	share := map[task.Priority]int{}
	for range 300 {
		share[wait(t, "start", starts)]++
	}
	if share[task.Realtime] < 100 || share[task.Normal] < 35 || share[task.Background] < 35 {
		t.Errorf("shares of 300 starts at 2:1:1: %v", share)
	}
}

// T13: members of an aggregate have fences, too.
func TestAggregateFence_T13(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("test:Members", task.Small, task.Aggregate[int]{MaxSize: 2, MaxDelay: time.Second}, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	fences := make(chan uint64, 10)
	e.start(task.WorkerOptions{}, typ.HandleBatch(func(_ context.Context, jobs []*task.Job[int]) error {
		first := jobs[0].Attempt == 1
		for _, j := range jobs {
			fences <- j.Fence
		}
		if first {
			return errors.New("again")
		}
		return nil
	}))
	if _, err := typ.SubmitMany(e.ctx(), e.client, []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	a, b := wait(t, "fence", fences), wait(t, "fence", fences)
	c, d := wait(t, "fence", fences), wait(t, "fence", fences)
	if a == 0 || b == 0 || c <= a || d <= b {
		t.Errorf("fences %d %d, then %d %d", a, b, c, d)
	}
	e.idle()
}

// After Close an Await still ends, and leaves nothing behind.
func TestAwaitAfterClose(t *testing.T) {
	e := newEnv(t)
	c := e.connect(task.Options{})
	c.Close()
	h := send(e, echo, "x")
	e.start(task.WorkerOptions{}, echoing())
	if got, err := echo.HandleOf(c, h.ID).Await(e.ctx()); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
}
