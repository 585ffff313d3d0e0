package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

const gpu = task.Size("gpu")

// A name that may be a pool's is taken wherever a size or a queue is named, any other is refused there, and says why.
func TestPoolNames(t *testing.T) {
	e := newEnv(t)
	h := Double.Handle(nil)
	for name, rule := range map[task.Size]string{
		"gpu": "", "line-3": "", "a": "", "0": "", "press.2_b": "", "delayed": "", "groups": "", task.Size(strings.Repeat("x", 64)): "", task.Large: "",
		"": "1 to 64 bytes", task.Size(strings.Repeat("x", 65)): "has 65", "GPU": "want a-z", "Small": "want a-z", "-a": "letter or digit first", ".": "letter or digit first", "a b": "want a-z",
		"a:b": "want a-z", "a/b": "want a-z", "{a}": "want a-z", "a*": "want a-z", "é": "want a-z", "a\n": "want a-z", "realtime": "is a priority", "normal": "is a priority", "background": "is a priority",
	} {
		_, submitted := Double.Submit(e.ctx(), e.client, double{}, name)
		_, defined := task.DefineJSON("x", name)
		_, served := e.client.Worker(task.WorkerOptions{Concurrency: map[task.Size]int{name: 1}}, h)
		_, referred := task.ParseRef("normal:" + string(name) + "/1-1/x")
		for what, err := range map[string]error{"Submit": submitted, "Define": defined, "Worker": served, "ParseRef": referred, "ResumeQueue": e.client.ResumeQueue(e.ctx(), "normal:"+task.Queue(name))} {
			if what == "ParseRef" && name == "a/b" { // another reference
				continue
			}
			if rule == "" && err != nil || rule != "" && (err == nil || !strings.Contains(err.Error(), rule)) {
				t.Errorf("%s %q: %v, want %q", what, name, err, rule)
			}
		}
	}
	for _, q := range []task.Queue{"gpu", "urgent:gpu", ":gpu", "normal", "normal:gpu:x", "Normal:gpu"} {
		says(t, q, e.client.PauseQueue(e.ctx(), q), "want")
	}
}

// No name of a pool makes a key, a reference or a field that is another's.
func FuzzPoolName(f *testing.F) {
	for _, name := range []string{"gpu", "line-3", "delayed", "groups", "dead", "pools", "normal", "", "a:b", "A", "a/b", "small", "0", "é", "a\x00", "{x}", "-", "a."} {
		f.Add(name)
	}
	rule := regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{0,63}\z`)
	f.Fuzz(func(t *testing.T, name string) {
		queue := task.Queue("background:" + name)
		want := rule.MatchString(name) && !slices.Contains(task.Priorities(), task.Priority(name))
		ref := task.Ref{ID: "a/b", Queue: queue, Entry: "1-2"}
		got, err := task.ParseRef(ref.String())
		if (err == nil && got == ref) != want {
			t.Fatalf("%q: %v, %v", name, got, err)
		}
		if !want {
			return
		}
		k := keys.New("p")
		if p, ok := keys.Match(strings.TrimPrefix(k.TaskStream(string(queue)), "p:")); !ok || p.Pattern != "tasks:{priority}:{size}" {
			t.Errorf("%q: %+v", name, p)
		}
		if p, _ := keys.Match(strings.TrimPrefix(k.TaskRate(string(queue)), "p:")); p.Pattern != "tasks:rate:{queue}" {
			t.Errorf("%q: %+v", name, p)
		}
	})
}

// pools are the listed ones that are no built-in sizes.
func (e *env) pools() (all []string) {
	e.t.Helper()
	listed, err := e.must("ZRANGE", e.keys().TaskPools(), "0", "-1").AsStrSlice()
	e.ok(err)
	return slices.DeleteFunc(listed, func(name string) bool { return slices.Contains(task.Sizes(), task.Size(name)) })
}

// Tasks of a pool run on workers with slots for it and nowhere else, by whichever way they come; so on what demo and dev fall back on.
func TestPool(t *testing.T) {
	t.Parallel()
	onBoth(t, testPool)
}

func testPool(t *testing.T, e *env) {
	var mu sync.Mutex
	ran := make(map[string]string) // task -> worker and queue
	mark := func(worker string) task.Middleware {
		return func(ctx context.Context, i task.Info, next func(context.Context) error) error {
			mu.Lock()
			ran[i.ID] = worker + " " + string(i.Queue)
			mu.Unlock()
			return next(ctx)
		}
	}
	first := func(i task.Info) error {
		if i.Attempt == 1 {
			return errors.New("once more")
		}
		return nil
	}
	typ := task.Define[double, int]("pool:Render", task.Positional(), gpu, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	notes := noteType("pool:Notes", task.Aggregate[note]{MaxSize: 2, MaxDelay: time.Hour}, gpu)
	late := noteType("pool:Late", task.Aggregate[note]{MaxDelay: 50 * time.Millisecond}, gpu)
	handlers := []task.Handler{
		typ.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return 1, first(j.Info) }),
		notes.HandleBatch(func(context.Context, []*task.Job[note]) error { return nil }),
		late.HandleBatch(func(context.Context, []*task.Job[note]) error { return nil }),
		Double.Handle(func(context.Context, *task.Job[double]) (int, error) { return 2, nil }),
	}
	e.start(task.WorkerOptions{ID: "medium", Middleware: []task.Middleware{mark("medium")}, Concurrency: map[task.Size]int{task.Medium: 5}}, handlers...)
	done(e, send(e, Double, double{}))
	var waits []string
	for _, p := range task.Priorities() {
		waits = append(waits, send(e, typ, double{}, p).ID)
	}
	waits = append(waits, send(e, Double, double{}, gpu, task.In(time.Millisecond)).ID, send(e, typ, double{}, task.Key("k")).ID, send(e, typ, double{}, task.UniqueKey("u", 0)).ID)
	many := sendMany(e, typ, make([]double, 3))
	for _, h := range many {
		waits = append(waits, h.ID)
	}
	for _, n := range []*task.Type[note, task.None]{notes, late} {
		sendMany(e, n, make([]note, 2))
	}
	e.schedules(task.SchedulerOptions{})
	e.ok(e.client.AddSchedule(e.ctx(), task.ScheduleEntry{Name: "pool", Spec: "every 1h", Task: "pool:Render", Queue: "normal:gpu", Args: json.RawMessage("[0]")}))
	fired, err := e.client.RunScheduleNow(e.ctx(), "pool")
	e.ok(err)
	waits = append(waits, fired)
	e.eventually("all wait in the pool", func() bool { s := e.stats(); return queue(s, "normal:gpu").Waiting == 10 && s.Delayed == 0 })
	if s := e.stats(); len(s.Queues) != 12 || queue(s, "realtime:gpu").Waiting != 1 || queue(s, "background:gpu").Waiting != 1 || queue(s, "background:gpu").Oldest <= 0 {
		t.Errorf("%+v", s.Queues)
	}
	if r := e.healthy(time.Hour); r.Waiting != 12 {
		t.Errorf("%+v", r)
	}
	if got := e.all(task.Filter{}); len(got) != 12 {
		t.Errorf("listed: %v", got)
	}
	equal(t, e.all(task.Filter{Queue: "realtime:gpu"}), []string{"waiting " + waits[0]})
	if got := e.find(task.Ref{ID: waits[2]}); got.State != task.StateWaiting || got.Queue != "background:gpu" {
		t.Errorf("found: %+v", got)
	}
	reg := prometheus.NewRegistry()
	e.start(task.WorkerOptions{ID: "gpu", Metrics: task.NewMetrics(reg), Middleware: []task.Middleware{mark("gpu")}, Concurrency: map[task.Size]int{gpu: 2}}, handlers...)
	e.eventually("all have run", func() bool {
		s := e.stats()
		return s.Delayed == 0 && !slices.ContainsFunc(s.Queues, func(q task.QueueStats) bool { return q.Waiting+q.Running > 0 })
	})
	mu.Lock()
	for i, id := range waits {
		want := "gpu normal:gpu"
		if i == 0 || i == 2 {
			want = fmt.Sprintf("gpu %s:gpu", task.Priorities()[i])
		}
		if ran[id] != want {
			t.Errorf("%s ran on %q, want %q", id, ran[id], want)
		}
	}
	mu.Unlock()
	for _, want := range []string{`takt_task_in_flight{size="gpu"} 0`, `takt_task_fetched_total{queue="realtime:gpu"} 2`} {
		e.eventually(want, func() bool { return strings.Contains(shown(reg), want+"\n") })
	}
	e.healthy(0)
}

// Of a pool in which something waits and that no living worker serves, Stats and Check tell, and of no other queue.
func TestPoolWithoutWorkers(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	e := newEnv(t)
	h := send(e, Double, double{}, gpu)
	unserved := func() (all []task.Queue) {
		for _, q := range e.stats().Queues {
			if q.Unserved {
				all = append(all, q.Queue)
			}
		}
		return all
	}
	equal(t, unserved(), []task.Queue{"normal:gpu"})
	if _, found := e.check(0); len(found) != 1 || contains(found, e.keys().TaskStream("normal:gpu"), "no worker has slots for pool gpu") != 1 {
		t.Errorf("%v", found)
	}
	e.healthy(time.Hour)
	e.ok(e.client.PauseQueue(e.ctx(), "normal:gpu"))
	_, stop := e.start(task.WorkerOptions{Lease: shortLease, Concurrency: map[task.Size]int{gpu: 1}}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) { return 1, nil }))
	e.eventually("it is served", func() bool { return len(unserved()) == 0 })
	if q := queue(e.stats(), "normal:gpu"); !q.Paused || q.Waiting != 1 {
		t.Errorf("%+v", q)
	}
	e.healthy(0)
	e.ok(e.client.ResumeQueue(e.ctx(), "normal:gpu"))
	done(e, h)
	stop()
	send(e, Double, double{}, gpu)
	e.eventually("nobody serves it any more", func() bool { return slices.Equal(unserved(), []task.Queue{"normal:gpu"}) })
	if n, err := e.client.Purge(e.ctx(), "normal:gpu", "normal:gpu"); n != 1 || err != nil {
		t.Errorf("%d purged, %v", n, err)
	}
	if err := e.client.Drain(e.ctx(), "normal:gpu"); err != nil || len(unserved()) != 0 {
		t.Errorf("%v, %v", err, unserved())
	}
	send(e, Double, double{}) // built-in sizes are shown the same way, and are no fault
	equal(t, unserved(), []task.Queue{"normal:medium"})
	e.healthy(0)
}

// A pool that operators name is seen, so that they see what they mistyped.
func TestPausedPoolIsSeen(t *testing.T) {
	e := newEnv(t)
	e.ok(e.client.SetRate(e.ctx(), "realtime:gqu", 2))
	if q := queue(e.stats(), "realtime:gqu"); q.Rate != 2 || q.Unserved {
		t.Errorf("%+v", q)
	}
}

// A pool that is not listed, for the list was lost, is found by Check, and listed by the next client or worker that meets it.
func TestPoolListIsMadeAnew(t *testing.T) {
	e := newEnv(t)
	send(e, Double, double{}, gpu)
	send(e, Double, double{}, gpu, task.In(time.Hour))
	delayed, err := e.must("ZRANDMEMBER", e.key("tasks:delayed")).ToString()
	e.ok(err)
	lose := func() {
		t.Helper()
		if n := e.number("DEL", e.keys().TaskPools()); n != 1 {
			t.Fatal("there was no list")
		}
	}
	lose()
	if _, found := e.check(0); len(found) != 1 || contains(found, e.keys().TaskStream("normal:gpu"), "pool gpu is not in") != 1 {
		t.Errorf("%v", found)
	}
	for what, meet := range map[string]func(){
		"submission": func() { _, _ = Double.Submit(e.ctx(), e.connect(task.Options{}), double{}, gpu) },
		"promotion": func() {
			e.must("ZADD", e.key("tasks:delayed"), "1", delayed)
			e.client = e.connect(task.Options{})
			_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}})
			e.eventually("it is moved", func() bool { return e.number("ZCARD", e.key("tasks:delayed")) == 0 })
			stop()
		},
		"worker": func() {
			_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{gpu: 1}}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, nil }))
			e.eventually("it is listed", func() bool { return len(e.pools()) == 1 })
			stop()
		},
	} {
		meet()
		if got := e.pools(); !slices.Equal(got, []string{"gpu"}) {
			t.Errorf("after a %s: %v", what, got)
		}
		lose()
	}
}

// What cannot be listed, for Redis does not answer, is not written.
func TestPoolIsListedFirst(t *testing.T) {
	e := newEnv(t)
	broken := task.Define[double, int]("pool:Broken", task.Positional(), gpu)
	dead := send(e, broken, double{})
	e.ok(errOf(e.client.RunAll(e.ctx(), task.WorkerOptions{}, broken.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("broken") }))))
	letter, err := e.client.DeadLetters().Show(e.ctx(), dead.ID)
	e.ok(err)
	e.must("DEL", e.keys().TaskPools())
	e.client = e.connect(task.Options{}) // which has listed nothing
	ctx, cancel := context.WithCancel(e.ctx())
	cancel()
	notes := noteType("pool:Notes", task.Aggregate[note]{MaxDelay: time.Hour}, gpu)
	for what, write := range map[string]func() error{
		"Submit":    func() error { _, err := Double.Submit(ctx, e.client, double{}, gpu); return err },
		"delayed":   func() error { _, err := Double.Submit(ctx, e.client, double{}, gpu, task.In(time.Hour)); return err },
		"batch":     func() error { _, err := Double.SubmitMany(ctx, e.client, make([]double, 2), gpu); return err },
		"aggregate": func() error { _, err := notes.Submit(ctx, e.client, note{}); return err },
		"group":     func() error { _, err := task.Spawn(ctx, e.client, nil, Double.With(double{}, gpu)); return err },
		"requeue":   func() error { _, err := e.client.Resubmit(ctx, letter); return err },
		"SetRate":   func() error { return e.client.SetRate(ctx, "normal:gpu", 1) },
	} {
		if err := write(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "list pool gpu") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := e.left(); n != 0 || len(e.pools()) != 0 {
		t.Errorf("%d tasks, %v", n, e.pools())
	}
}

// Children, callbacks and what follows a failure may each have a pool of their own, in one group and in any combination with the built-in sizes.
func TestGroupsInPools(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	slots := map[task.Size]int{task.Small: 5, task.Large: 1, gpu: 2, "line-3": 1, "fail": 1}
	e.start(task.WorkerOptions{Concurrency: slots}, f.handlers(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N < 0 {
			return 0, errors.New("broken")
		}
		return 2 * j.Args.N, nil
	})...)
	child := func(n int, opts ...task.SubmitOption) task.Pending { return f.child.With(double{n}, opts...) }
	for name, c := range map[string]struct {
		children []task.Pending
		callback task.Size
		failure  task.Size
		policy   task.GroupPolicy
		failed   bool
		in       task.Queue
		results  string
	}{
		"callback":          {[]task.Pending{child(1, gpu), child(2), child(3, gpu, task.In(time.Millisecond))}, "line-3", task.Small, task.OnAllSuccess, false, "realtime:line-3", "2 4 6"},
		"children only":     {[]task.Pending{child(1, gpu), child(2, task.Size("line-3"))}, task.Large, "fail", task.OnAllSuccess, false, "realtime:large", "2 4"},
		"no children":       {nil, gpu, "fail", task.OnAllSuccess, false, "realtime:gpu", ""},
		"failure":           {[]task.Pending{child(1), child(-1, gpu)}, gpu, "fail", task.OnAllSuccess, true, "background:fail", "2 errors.errorString"},
		"failure, fast":     {[]task.Pending{child(-1), child(-1)}, gpu, "fail", task.FailFast, true, "background:fail", ""},
		"failure, built in": {[]task.Pending{child(-1, gpu)}, gpu, task.Small, task.OnAllSuccess, true, "background:small", "errors.errorString"},
	} {
		g := spawn(e, c.children, f.callback.With(double{}, c.callback), c.policy, task.OnFailure(f.failure.With(double{}, c.failure)))
		ch := f.fired
		if c.failed {
			ch = f.failed
		}
		info := wait(e.t, name, f.infos)
		if got := show(wait(e.t, name, ch)); info.Queue != c.in || c.policy != task.FailFast && got != c.results {
			t.Errorf("%s: %q in %s, want %q in %s", name, got, info.Queue, c.results, c.in)
		}
		e.eventually(name+" has ended", func() bool { return e.stats().ByQueue[c.in][task.Done] > 0 && e.client.Drain(e.ctx(), c.in) == nil })
		if i := f.info(g); i.Remaining != 0 {
			t.Errorf("%s: %+v", name, i)
		}
	}
	e.idle()
	e.healthy(0)
}

// What follows a group and is for a queue that there is not runs in the default one.
func TestGroupWithAnUnfitQueue(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := spawn(e, f.children(1), f.callback.With(double{}, gpu))
	e.must("HSET", e.keys().GroupState(g.ID), "callback queue", "no queue")
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1, task.Medium: 1}}, f.handlers(nil)...)
	if info := wait(e.t, "it calls back", f.infos); info.Queue != "normal:medium" {
		t.Errorf("in %s", info.Queue)
	}
}

// A dead task of a pool is requeued there; RunAll serves the pools that handlers and tasks have.
func TestPoolRequeueAndRunAll(t *testing.T) {
	e := newEnv(t)
	broken := true
	typ := task.Define[double, int]("pool:Flaky", task.Positional(), task.Size("line-3"))
	h := typ.Handle(func(context.Context, *task.Job[double]) (int, error) {
		if broken {
			return 0, errors.New("broken")
		}
		return 1, nil
	})
	run := func(want task.Outcome, n int) {
		t.Helper()
		ends, err := e.client.RunAll(e.ctx(), task.WorkerOptions{}, h)
		if err != nil || len(ends) != n {
			t.Fatalf("%+v, %v", ends, err)
		}
		for _, end := range ends {
			if end.Outcome != want {
				t.Errorf("%+v", end)
			}
		}
	}
	one, two := send(e, typ, double{}), send(e, typ, double{}, gpu)
	run(task.Dead, 2)
	broken = false
	e.client = e.connect(task.Options{})
	e.must("DEL", e.keys().TaskPools())
	for _, id := range []string{one.ID, two.ID} {
		e.ok(errOf(e.client.DeadLetters().Requeue(e.ctx(), id)))
	}
	equal(t, e.pools(), []string{"gpu", "line-3"})
	run(task.Done, 2)
}
