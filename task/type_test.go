package task_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// The words on the wire, and the nine streams.
func TestQueues(t *testing.T) {
	want := "realtime:small realtime:medium realtime:large normal:small normal:medium normal:large background:small background:medium background:large"
	if got := strings.Trim(fmt.Sprint(task.Queues()), "[]"); got != want {
		t.Errorf("Queues %s", got)
	}
}

// What a type says of itself, and what it says if it was told nothing. Its queue is that of its own priority and size.
func TestProperties(t *testing.T) {
	retry := task.Backoff{Base: time.Second, Retries: 3}
	typ := task.Define[double, int]("test:T", task.Positional(), task.Realtime, task.Large, task.Retry(retry), task.Timeout(time.Minute), task.Retention(time.Hour), task.Discard(),
		task.Every(time.Hour, task.QueueUp), task.Cron("0 6 * * *", task.EntryName("mornings")), task.Every(time.Minute, task.EntryName("off"), task.Disabled()))
	want := task.Properties{
		Name: "test:T", Priority: task.Realtime, Size: task.Large, Retry: retry, MaxAttempts: 4, Timeout: time.Minute, Retention: time.Hour, Discard: true,
		Schedules: []task.ScheduleEntry{
			{Name: "test:T", Task: "test:T", Queue: "realtime:large", Spec: "every 1h", Overlap: task.QueueUp, Missed: task.RunOnce},
			{Name: "mornings", Task: "test:T", Queue: "realtime:large", Spec: "cron 0 6 * * *", Overlap: task.SkipIfPending, Missed: task.RunOnce},
		},
	}
	if diff := cmp.Diff(want, typ.Properties()); diff != "" {
		t.Error(diff)
	}
	if typ.Name() != want.Name || typ.Queue() != "realtime:large" {
		t.Errorf("%s in %s", typ.Name(), typ.Queue())
	}
	plain := task.Define[double, int]("test:U", task.Positional())
	want = task.Properties{Name: "test:U", Priority: task.Normal, Size: task.Medium, Retry: task.NoRetry{}, MaxAttempts: 1, Timeout: task.DefaultTimeout, Retention: task.DefaultRetention}
	if diff := cmp.Diff(want, plain.Properties()); diff != "" || plain.Queue() != "normal:medium" {
		t.Error(plain.Queue(), diff)
	}
	if keep := task.Define[double, task.None]("test:V", task.Positional()).Properties().Retention; keep != 0 {
		t.Errorf("nothing is kept for %v", keep)
	}
	endless := task.Define[double, int]("test:W", task.Positional(), task.Retry(task.Backoff{Retries: -1}), task.Timeout(-1)).Properties()
	if endless.MaxAttempts != 0 || endless.Timeout >= 0 {
		t.Errorf("%+v", endless)
	}
}

// What cannot work is refused when the program starts, with the reason.
func TestDefineRefuses(t *testing.T) {
	for want, define := range map[string]func(){
		`name ""`:       func() { task.Define[double, int]("", task.Positional()) },
		"128 bytes":     func() { task.Define[double, int](strings.Repeat("x", 129)) },
		"control":       func() { task.Define[double, int]("a\nb", task.Positional()) },
		"UTF-8":         func() { task.Define[double, int]("a\xff", task.Positional()) },
		`"urgent:small`: func() { task.Define[double, int]("x", task.Positional(), task.Priority("urgent"), task.Small) },
		`:Tiny"`:        func() { task.Define[double, int]("x", task.Positional(), task.Size("Tiny")) },
		"map":           func() { task.Define[struct{ M map[int]string }, int]("x") },
		"chan":          func() { task.Define[struct{ C chan int }, int]("x") },
		"NoRetry{}":     func() { task.Define[double, int]("x", task.Positional(), task.Retry(nil)) },
	} {
		t.Run(want, func(t *testing.T) {
			panics(t, want, define)
		})
	}
}

// Retries are what is said, the first delay is Base, and growth ends at Max.
func TestRetryPolicies(t *testing.T) {
	if _, ok := (task.NoRetry{}).Delay(1, nil); ok {
		t.Error("NoRetry retries")
	}
	b := task.Backoff{Base: 10 * time.Second, Retries: 3, Exact: true}
	for attempt, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second} {
		if d, ok := b.Delay(attempt, nil); !ok || d != want {
			t.Errorf("after attempt %d: %v %v, want %v", attempt, d, ok, want)
		}
	}
	if _, ok := b.Delay(4, nil); ok {
		t.Error("a fourth retry of three")
	}
	if b.MaxAttempts() != 4 {
		t.Errorf("MaxAttempts %d", b.MaxAttempts())
	}
	endless := task.Backoff{Retries: -1, Max: time.Minute}
	if d, ok := endless.Delay(10_000, nil); !ok || d > time.Minute || d < 30*time.Second {
		t.Errorf("attempt 10000: %v %v", d, ok)
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		d, _ := task.Backoff{}.Delay(1, errors.New("x"))
		if d < 5*time.Second || d > 10*time.Second {
			t.Errorf("jittered %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d delays of 20: no jitter", len(seen))
	}
}

func TestClientOptions(t *testing.T) {
	e := newEnv(t)
	for want, o := range map[string]task.Options{
		"Prefix":         {Prefix: "a b"},
		"MaxMessage":     {MaxMessage: -1},
		"MaxBacklog":     {MaxBacklog: -1},
		"KnownFor":       {KnownFor: -1},
		"Replicas":       {Replicas: -1},
		"ReplicasWithin": {ReplicasWithin: -1},
	} {
		says(t, "", errOf(task.New(e.srv.Client, o)), want)
	}
	refused(t, "no client: accepted", errOf(task.New(nil, task.Options{})))
}

func TestWorkerOptions(t *testing.T) {
	e := newEnv(t)
	h := Double.Handle(nil)
	many := make(map[task.Size]int)
	for i := range 1000 {
		many[task.Size(fmt.Sprint("line-", i))] = 1
	}
	if _, err := e.client.Worker(task.WorkerOptions{Concurrency: many}); err != nil {
		t.Errorf("a thousand sizes: %v", err)
	}
	more := maps.Clone(many)
	more["one-more"] = 1
	for want, c := range map[string]struct {
		o        task.WorkerOptions
		handlers []task.Handler
	}{
		"handlers for":  {task.WorkerOptions{}, []task.Handler{h, h}},
		"empty Handler": {task.WorkerOptions{}, []task.Handler{{}}},
		"which sizes":   {task.WorkerOptions{}, nil},
		`size "Huge"`:   {task.WorkerOptions{Concurrency: map[task.Size]int{"Huge": 1}}, nil},
		"1001 sizes":    {task.WorkerOptions{Concurrency: more}, nil},
		"0 slots":       {task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 0}}, nil},
		"Lease":         {task.WorkerOptions{Lease: time.Millisecond}, []task.Handler{h}},
		"Drain":         {task.WorkerOptions{Drain: -1}, []task.Handler{h}},
		"Margin":        {task.WorkerOptions{Margin: -1}, []task.Handler{h}},
		"MaxUnknown":    {task.WorkerOptions{MaxUnknown: -1}, []task.Handler{h}},
		"weight -1":     {task.WorkerOptions{Policy: task.Weighted{Realtime: -1}}, []task.Handler{h}},
		"ID":            {task.WorkerOptions{ID: "a\nb"}, []task.Handler{h}},
	} {
		says(t, "", errOf(e.client.Worker(c.o, c.handlers...)), want)
	}
}

// Object types of an extension are usable in the locks of tasks, and unknown ones refused.
func TestLockTypesOfExtensions(t *testing.T) {
	e := newEnv(t)
	types := lock.NewTypes()
	e.ok(types.Add("lollygag"))
	c := e.connect(task.Options{LockTypes: types})
	spec := lock.Mutex(lock.Object{Type: "lollygag", Key: "7"})
	h, err := c.Locker().Try(e.ctx(), []lock.Spec{spec}, lock.TryOptions{})
	e.ok(err)
	if _, err := h.Release(e.ctx()); err != nil {
		t.Error(err)
	}
	refused(t, "an unknown object type: accepted", errOf(e.client.Locker().Try(e.ctx(), []lock.Spec{spec}, lock.TryOptions{})))
}
