package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// family is a type of children, one of callbacks and one for failures, with handlers that tests steer.
type family struct {
	e        *env
	child    *task.Type[double, int]
	callback *task.Type[double, int]
	failure  *task.Type[double, int]
	runs     atomic.Int64
	fired    chan []task.Result[int] // one for each run of the callback
	failed   chan []task.Result[int] // one for each run of the OnFailure task
	infos    chan task.Info
}

func newFamily(e *env, opts ...task.TypeOption) *family {
	return &family{
		e:        e,
		child:    task.Define[double, int]("group:Child", append([]task.TypeOption{task.Small}, opts...)...),
		callback: task.Define[double, int]("group:Callback", task.Realtime, task.Large),
		failure:  task.Define[double, int]("group:Failure", task.Background, task.Small),
		fired:    make(chan []task.Result[int], 100), failed: make(chan []task.Result[int], 100), infos: make(chan task.Info, 100),
	}
}

// handlers are those of the family; a child does what do says, its argument doubled if do is nil.
func (f *family) handlers(do func(context.Context, *task.Job[double]) (int, error)) []task.Handler {
	after := func(ch chan []task.Result[int]) func(context.Context, *task.Job[double]) (int, error) {
		return func(ctx context.Context, j *task.Job[double]) (int, error) {
			f.infos <- j.Info
			results, err := task.GroupResults[int](ctx)
			if err != nil {
				f.e.t.Errorf("GroupResults: %v", err)
			}
			ch <- results
			return len(results), nil
		}
	}
	return []task.Handler{
		f.child.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
			f.runs.Add(1)
			if do == nil {
				return 2 * j.Args.N, nil
			}
			return do(ctx, j)
		}),
		f.callback.Handle(after(f.fired)), f.failure.Handle(after(f.failed)),
	}
}

func (f *family) start(do func(context.Context, *task.Job[double]) (int, error)) (stop func()) {
	_, stop = f.e.start(task.WorkerOptions{}, f.handlers(do)...)
	return stop
}

func (f *family) children(n int, opts ...task.SubmitOption) []task.Pending {
	all := make([]task.Pending, n)
	for i := range all {
		all[i] = f.child.With(double{i}, opts...)
	}
	return all
}

func (f *family) spawn(n int, opts ...task.GroupOption) *task.Group {
	f.e.t.Helper()
	g, err := task.Spawn(f.e.ctx(), f.e.client, f.children(n), f.callback.With(double{n}), opts...)
	if err != nil {
		f.e.t.Fatal(err)
	}
	return g
}

// quiet waits until no task is left, and says what followed: how often the callback ran, and the OnFailure task.
func (f *family) quiet() (fired, failed int) {
	f.e.t.Helper()
	f.e.eventually("no task is left", func() bool { return f.e.left() == 0 })
	return len(f.fired), len(f.failed)
}

func (f *family) info(g *task.Group) task.GroupInfo {
	f.e.t.Helper()
	info, err := g.Info(f.e.ctx())
	if err != nil {
		f.e.t.Fatal(err)
	}
	return info
}

// show is results as text: values, and E for an error.
func show(results []task.Result[int]) string {
	var words []string
	for _, r := range results {
		if r.Err != nil {
			words = append(words, r.Err.Type)
		} else {
			words = append(words, strconv.Itoa(r.Value))
		}
	}
	return strings.Join(words, " ")
}

// C5, task-E10, task-G3, plus-6: the callback gets the results in the order of the children, is labelled with its group, has its own
// priority and size, and its result can be awaited. A child finds the Client in its context.
func TestGroupCallsBack(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	f.start(func(ctx context.Context, j *task.Job[double]) (int, error) {
		if task.ClientFrom(ctx) == nil || j.GroupID == "" {
			t.Errorf("the child %s has no client, or no group: %q", j.ID, j.GroupID)
		}
		return 2 * j.Args.N, nil
	})
	g := f.spawn(5)
	if n, err := f.callback.HandleOf(e.client, g.CallbackID()).Await(e.ctx()); n != 5 || err != nil {
		t.Errorf("the callback returned %d, %v, want 5", n, err)
	}
	if got := show(receive(e, "the callback", f.fired)); got != "0 2 4 6 8" {
		t.Errorf("results %s, want 0 2 4 6 8", got)
	}
	info := <-f.infos
	if info.ID != g.ID+":callback" || info.Labels["callback_group_id"] != g.ID || info.Queue != "realtime:large" {
		t.Errorf("the callback was %s in %s with labels %v", info.ID, info.Queue, info.Labels)
	}
	got := f.info(g)
	if got.OK != 5 || got.Failed != 0 || got.Remaining != 0 || got.Submitted != 5 || got.Fired != "callback" || got.Policy != task.OnAllSuccess {
		t.Errorf("info %+v", got)
	}
	if d := time.Until(got.Expires); d < 23*time.Hour || d > 24*time.Hour {
		t.Errorf("it expires in %v, want 24 h", d)
	}
}

// task-E5, task-E6, task-G1, task-G2: nothing is fired while children remain; the last one fires once. A child's result is where the page says, and its own one is
// not kept beside it.
func TestGroupFiresWithTheLastChild(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	goOn := make(chan struct{})
	f.start(func(_ context.Context, j *task.Job[double]) (int, error) { <-goOn; return 7, nil })
	g := f.spawn(3, task.GroupTTL(time.Hour))
	for left := int64(2); left >= 1; left-- {
		goOn <- struct{}{}
		e.eventually("a child has ended", func() bool { return e.number("GET", e.key("groups:"+g.ID+":remaining")) == left })
		if len(f.fired) != 0 || f.info(g).Fired != "" {
			t.Fatalf("fired with %d left", left)
		}
	}
	goOn <- struct{}{}
	receive(e, "the callback", f.fired)
	if fired, failed := f.quiet(); fired+failed != 0 {
		t.Errorf("%d more callbacks", fired+failed)
	}
	for i := range 3 {
		key := e.key("groups:" + g.ID + ":results:" + g.ChildID(i))
		if got := e.text("GET", key); got != "\x07" {
			t.Errorf("result %d is %q, want msgpack 7", i, got)
		}
		if ttl := e.number("TTL", key); ttl < 3500 || ttl > 3600 {
			t.Errorf("result %d expires in %d s, want the group's hour", i, ttl)
		}
		if e.number("EXISTS", e.key("results:"+g.ChildID(i))) != 0 {
			t.Errorf("result %d is kept twice", i)
		}
	}
	for _, part := range []string{"callback", "remaining", "done", "state"} {
		if ttl := e.number("TTL", e.key("groups:"+g.ID+":"+part)); ttl < 3500 || ttl > 3600 {
			t.Errorf("%s expires in %d s, want the group's hour", part, ttl)
		}
	}
	if got := e.text("GET", e.key("groups:"+g.ID+":callback")); got != "\x82\xaatask_class\xaegroup:Callback\xa4args\x91\x03" {
		t.Errorf("the callback record is %q", got)
	}
}

// T4, T5, plus-15: a child that is delivered again after its end changes nothing, however often.
func TestGroupChildDeliveredAgain(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(3)
	stream := e.key("tasks:normal:small")
	entries, err := e.do("XRANGE", stream, "-", "+").AsXRange()
	if err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
	for range 2 {
		for _, x := range entries[:2] {
			e.do("XADD", stream, "*", "data", x.FieldValues["data"])
		}
	}
	f.start(nil)
	if got := show(receive(e, "the callback", f.fired)); got != "0 2 4" {
		t.Errorf("results %s", got)
	}
	f.quiet()
	for _, x := range entries { // and after it has fired
		e.do("XADD", stream, "*", "data", x.FieldValues["data"])
	}
	e.eventually("they ran", func() bool { return f.runs.Load() == 10 })
	if fired, _ := f.quiet(); fired != 0 {
		t.Errorf("%d more callbacks", fired)
	}
	if info := f.info(g); info.OK != 3 || info.Remaining != 0 {
		t.Errorf("info %+v", info)
	}
}

// T3, plus-15: a child that is retried, or snoozes, or whose worker stops has not ended; the group waits for its end.
func TestGroupWaitsForRetries(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 3}))
	var snoozed sync.Map
	f.start(func(_ context.Context, j *task.Job[double]) (int, error) {
		if _, again := snoozed.LoadOrStore(j.ID, true); !again {
			return 0, task.Snooze(time.Millisecond)
		}
		if j.Attempt < 3 {
			return 0, errors.New("not yet")
		}
		return j.Attempt, nil
	})
	g := f.spawn(3)
	if got := show(receive(e, "the callback", f.fired)); got != "3 3 3" {
		t.Errorf("results %s, want those of the third attempt", got)
	}
	f.quiet()
	if n := f.runs.Load(); n != 12 {
		t.Errorf("%d runs, want 12", n)
	}
	if info := f.info(g); info.OK != 3 || info.Failed != 0 {
		t.Errorf("info %+v", info)
	}
}

// C1, C3, plus-15: what follows a child that failed for good: dead, cancelled, or with a result that cannot be written.
func TestGroupAfterFailures(t *testing.T) {
	fail := func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N == 1 {
			return 0, errors.New("boom")
		}
		return j.Args.N, nil
	}
	for _, c := range []struct {
		name   string
		opts   []task.GroupOption
		fired  string // results that the callback sees, "" = it does not run
		failed string
		after  string
	}{
		{"OnAllSuccess", nil, "", "", "none"},
		{"OnAllSuccess with OnFailure", []task.GroupOption{task.OnFailure(newFamily(nil).failure.With(double{}))}, "", "0 errors.errorString 2", "failure"},
		{"OnAllDone", []task.GroupOption{task.OnAllDone}, "0 errors.errorString 2", "", "callback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			g := f.spawn(3, c.opts...)
			f.start(fail)
			e.eventually("all have ended", func() bool { return f.info(g).Remaining == 0 })
			fired, failed := f.quiet()
			if (fired == 1) != (c.fired != "") || (failed == 1) != (c.failed != "") || fired+failed > 1 {
				t.Fatalf("the callback ran %d times, the OnFailure task %d times", fired, failed)
			}
			if fired == 1 {
				if got := show(<-f.fired); got != c.fired {
					t.Errorf("the callback saw %s, want %s", got, c.fired)
				}
			}
			if failed == 1 {
				if got := show(<-f.failed); got != c.failed {
					t.Errorf("the OnFailure task saw %s, want %s", got, c.failed)
				}
			}
			if info := f.info(g); info.OK != 2 || info.Failed != 1 || info.Fired != c.after {
				t.Errorf("info %+v, want fired %s", info, c.after)
			}
			if e.number("HEXISTS", e.key("tasks:dead"), g.ChildID(1)) != 1 {
				t.Error("the child is no dead letter")
			}
			results, err := task.GroupResultsOf[any](e.ctx(), e.client, g.ID)
			if err != nil || len(results) != 3 || results[1].Err == nil || results[1].Err.Message != "boom" || results[2].Value != int64(2) {
				t.Errorf("results from outside: %v, %v", results, err)
			}
		})
	}
}

// C3: a result that cannot be encoded, or is too large, is a failure of the child; the group ends.
func TestGroupChildWithUnfitResult(t *testing.T) {
	e := newEnv(t)
	odd := task.Define[double, string]("group:Odd")
	f := newFamily(e)
	e.start(task.WorkerOptions{}, append(f.handlers(nil), odd.Handle(func(_ context.Context, j *task.Job[double]) (string, error) {
		return []string{"fits", "\xff is not UTF-8", strings.Repeat("x", 1<<20+1)}[j.Args.N], nil
	}))...)
	var children []task.Pending
	for i := range 3 {
		children = append(children, odd.With(double{i}))
	}
	g, err := task.Spawn(e.ctx(), e.client, children, f.callback.With(double{}))
	if err != nil {
		t.Fatal(err)
	}
	e.eventually("all have ended", func() bool { return f.info(g).Remaining == 0 })
	results, err := task.GroupResultsOf[string](e.ctx(), e.client, g.ID)
	if err != nil || results[0].Value != "fits" || results[1].Err == nil || results[2].Err == nil {
		t.Errorf("results %v, %v", results, err)
	}
	f.quiet()
}

// FailFast: the first failure has the others cancelled, those that run and those that wait, and the OnFailure task run without waiting for them.
func TestGroupFailFast(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	cancelled := make(chan struct{}, 10)
	hold := make(chan struct{})
	_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 3, task.Large: 1}}, f.handlers(func(ctx context.Context, j *task.Job[double]) (int, error) {
		switch j.Args.N {
		case 0:
			<-hold
			return 0, errors.New("boom")
		case 1:
			close(hold)
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), task.ErrCancelled) {
				cancelled <- struct{}{}
			}
			return 0, ctx.Err()
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})...)
	g := f.spawn(20, task.FailFast, task.OnFailure(f.failure.With(double{})))
	receive(e, "the context of one that runs ends", cancelled)
	results := receive(e, "the OnFailure task", f.failed)
	if results[0].Err == nil || results[0].Err.Message != "boom" || len(results) != 20 {
		t.Errorf("it saw %v", show(results))
	}
	e.eventually("all have ended", func() bool { return f.info(g).Remaining == 0 })
	if fired, failed := f.quiet(); fired != 0 || failed != 0 {
		t.Errorf("then the callback ran %d times, the OnFailure task %d times", fired, failed)
	}
	if info := f.info(g); info.Failed != 20 || info.Fired != "failure" || !info.Stopped {
		t.Errorf("info %+v", info)
	}
	if n := e.counter(task.Cancelled, "group:Child"); n != 19 {
		t.Errorf("%d are cancelled, want 19", n)
	}
	if n := e.number("ZCARD", e.key("tasks:cancelled")); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	stop()
	if n := f.runs.Load(); n > 6 {
		t.Errorf("%d of 20 were begun", n)
	}
}

// A group that somebody cancels ends as its policy says.
func TestCancelGroup(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(5, task.OnAllDone)
	if err := g.Cancel(e.ctx()); err != nil {
		t.Fatal(err)
	}
	f.start(nil)
	if got := show(receive(e, "the callback", f.fired)); got != "cancelled cancelled cancelled cancelled cancelled" {
		t.Errorf("it saw %s", got)
	}
	if n := f.runs.Load(); n != 0 {
		t.Errorf("%d children ran", n)
	}
	if err := e.client.CancelGroup(e.ctx(), "none"); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("of a group that there is not: %v", err)
	}
	f.quiet()
	if err := g.Cancel(e.ctx()); err != nil || e.number("ZCARD", e.key("tasks:cancelled")) != 0 {
		t.Errorf("of one that has ended: %v", err)
	}
}

// C2: a group without children fires at once, and once.
func TestGroupWithoutChildren(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	for range 2 {
		f.spawn(0, task.GroupID("empty"))
	}
	f.start(nil)
	if got := receive(e, "the callback", f.fired); len(got) != 0 {
		t.Errorf("it saw %v", got)
	}
	if fired, _ := f.quiet(); fired != 0 {
		t.Errorf("%d more callbacks", fired)
	}
}

// C2, T5: Spawn whose answer was lost is repeated, and nothing is there twice.
func TestSpawnAgainAfterALostReply(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	const n = 700 // three pages
	f.spawn(0)    // so that the server knows the script: the lost reply is that of its run
	e.do("DEL", e.key("tasks:realtime:large"))
	for range 3 {
		proxy := testenv.CountingProxy(t, e.srv.Addr)
		rdb := e.srv.Connect(t, redis.Options{URL: "redis://" + proxy.Addr})
		c, err := task.New(rdb, task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
		if err != nil {
			t.Fatal(err)
		}
		proxy.LoseReplies(1)
		if _, err := task.Spawn(e.ctx(), c, f.children(n), f.callback.With(double{n}), task.GroupID("g")); err == nil {
			t.Error("Spawn says nothing of the lost reply")
		}
		c.Close()
	}
	g := f.spawn(n, task.GroupID("g"))
	if !g.Existing {
		t.Error("the group is new")
	}
	if got := e.number("XLEN", e.key("tasks:normal:small")); got != n {
		t.Errorf("%d children are in the stream, want %d", got, n)
	}
	var other *task.GroupExistsError
	if _, err := task.Spawn(e.ctx(), e.client, f.children(2), f.callback.With(double{}), task.GroupID("g")); !errors.As(err, &other) || other.Children != n {
		t.Errorf("another group of that id: %v", err)
	}
	f.start(nil)
	if got := receive(e, "the callback", f.fired); len(got) != n || got[n-1].Value != 2*(n-1) {
		t.Errorf("it saw %d results", len(got))
	}
	if fired, _ := f.quiet(); fired != 0 || f.runs.Load() != n {
		t.Errorf("%d more callbacks, %d runs", fired, f.runs.Load())
	}
}

// C2: a crash after the first of several pages leaves a group that does not fire; the same Spawn completes it, also when all that was there has ended.
func TestSpawnAgainAfterTheFirstPage(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	const n = 600
	f.spawn(n, task.GroupID("g"))
	// As if the process had died after the first page.
	e.do("HSET", e.key("groups:g:state"), "sent", "256")
	entries, err := e.do("XRANGE", e.key("tasks:normal:small"), "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range entries[256:] {
		e.do("XDEL", e.key("tasks:normal:small"), x.ID)
	}
	f.start(nil)
	e.eventually("the first page has ended", func() bool { return e.number("GET", e.key("groups:g:remaining")) == n-256 })
	if len(f.fired) > 0 {
		t.Fatal("fired with children missing")
	}
	f.spawn(n, task.GroupID("g"))
	if got := receive(e, "the callback", f.fired); len(got) != n || slices.ContainsFunc(got, func(r task.Result[int]) bool { return r.Err != nil }) {
		t.Errorf("it saw %d results", len(got))
	}
	f.quiet()
	if f.runs.Load() != n {
		t.Errorf("%d runs, want %d", f.runs.Load(), n)
	}
}

// C4: a child of a group that has expired ends as it does, and leaves no keys of the group behind.
func TestGroupHasExpired(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(2)
	for _, part := range []string{"callback", "remaining", "done", "state"} {
		e.do("DEL", e.key("groups:"+g.ID+":"+part))
	}
	f.start(nil)
	e.eventually("they have ended", func() bool { return e.counter(task.Done, "group:Child") == 2 })
	if fired, failed := f.quiet(); fired+failed != 0 {
		t.Error("something was fired")
	}
	keys, err := e.srv.AllKeys(e.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(k, ":groups:") }); i >= 0 {
		t.Errorf("left behind: %s", keys[i])
	}
	if _, err := g.Info(e.ctx()); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("Info: %v, want ErrNotFound", err)
	}
	if _, err := task.GroupResultsOf[int](e.ctx(), e.client, g.ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("GroupResultsOf: %v, want ErrNotFound", err)
	}
}

// Keys of a group that are of other types: the child ends as it does, nothing of them is changed.
func TestGroupWithKeysOfOtherTypes(t *testing.T) {
	for _, part := range []string{"state", "done", "remaining"} {
		t.Run(part, func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			g := f.spawn(1)
			key := e.key("groups:" + g.ID + ":" + part)
			e.do("DEL", key)
			e.do("LPUSH", key, "foreign")
			f.start(nil)
			e.eventually("it has ended", func() bool { return e.counter(task.Done, "group:Child") == 1 })
			if fired, failed := f.quiet(); fired+failed != 0 {
				t.Error("something was fired")
			}
			if e.text("LINDEX", key, "0") != "foreign" {
				t.Error("the foreign key was changed")
			}
		})
	}
}

// The stream of the callback is of another type: the last child does not end before it can fire, and nothing is lost.
func TestGroupCallbackStreamOfAnotherType(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(2)
	large := e.key("tasks:realtime:large")
	e.do("LPUSH", large, "foreign")
	_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 2}, Drain: time.Millisecond}, f.handlers(nil)...)
	e.eventually("one has ended", func() bool { return f.runs.Load() == 2 && f.info(g).Remaining == 1 })
	e.do("DEL", large)
	e.eventually("the other has ended", func() bool { return f.info(g).Remaining == 0 })
	stop()
	f.start(nil)
	receive(e, "the callback", f.fired)
}

// T5, plus-8, plus-15: workers die in the middle of everything; each group calls back once.
func TestGroupsSurviveDyingWorkers(t *testing.T) {
	e := newEnv(t)
	const groups, size = 20, 30
	var mu sync.Mutex
	fired := make(map[string]int)
	child := task.Define[double, int]("group:Child")
	callback := task.Define[double, task.None]("group:Once", task.Retry(task.Backoff{Base: time.Millisecond}))
	handlers := []task.Handler{
		child.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }),
		callback.Handle(func(ctx context.Context, j *task.Job[double]) (task.None, error) {
			results, err := task.GroupResults[int](ctx)
			if err != nil { // the connection is cut, on purpose
				return task.None{}, err
			}
			if len(results) != size {
				t.Errorf("%d results", len(results))
			}
			for i, r := range results {
				if r.Err != nil || r.Value != i {
					t.Errorf("result %d of %s is %v", i, j.ID, r)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			fired[j.Labels["callback_group_id"]]++
			return task.None{}, nil
		}),
	}
	e.start(task.WorkerOptions{Lease: 300 * time.Millisecond}, handlers...)
	more, spawned := make(chan struct{}, groups), make(chan struct{})
	go func() {
		defer close(spawned)
		for range more {
			var children []task.Pending
			for i := range size {
				children = append(children, child.With(double{i}))
			}
			if _, err := task.Spawn(e.ctx(), e.client, children, callback.With(double{})); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range 4 { // workers behind a connection that breaks
		proxy := testenv.CountingProxy(t, e.srv.Addr)
		c, err := task.New(e.srv.Connect(t, redis.Options{URL: "redis://" + proxy.Addr}), task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		w, err := c.Worker(task.WorkerOptions{ID: fmt.Sprintf("mortal-%d", i), Lease: 300 * time.Millisecond, Drain: time.Millisecond, Margin: time.Millisecond}, handlers...)
		if err != nil {
			t.Fatal(err)
		}
		ended := func() int64 { return e.counter(task.Done, "group:Child") }
		ctx, kill := context.WithCancel(e.ctx())
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			var stuck *task.StuckError // its time is too short for what it holds, on purpose
			if err := w.Run(ctx); err != nil && !errors.As(err, &stuck) {
				t.Errorf("Run: %v", err)
			}
		}()
		before := ended()
		for range groups / 4 {
			more <- struct{}{}
		}
		e.eventually("some have ended", func() bool { return ended() > before+size })
		proxy.DropReplies(true) // what it writes still arrives
		e.eventually("more have ended", func() bool { return ended() > before+2*size })
		proxy.Refuse(true)
		proxy.Cut()
		kill()
		<-dead
	}
	close(more)
	<-spawned
	e.eventually("all have called back", func() bool { return e.left() == 0 })
	mu.Lock()
	defer mu.Unlock()
	if len(fired) != groups {
		t.Errorf("%d groups called back, want %d", len(fired), groups)
	}
	for gid := range fired { // a callback may run twice, as any task; it is submitted and ends once
		if n := e.number("HGET", e.key("groups:"+gid+":state"), "ok"); n != size {
			t.Errorf("%s counts %d", gid, n)
		}
	}
	if n := e.counter(task.Done, "group:Once"); n != groups {
		t.Errorf("%d callbacks ended, want %d", n, groups)
	}
	if n := e.counter(task.Done, "group:Child"); n != groups*size {
		t.Errorf("%d children ended, want %d", n, groups*size)
	}
}

// C5: a child that makes a group of its own hands its place on, to any depth: the outer callback runs after the inner one has ended.
func TestGroupsNest(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	tree := task.Define[double, int]("group:Tree", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 2}))
	sum := task.Define[double, int]("group:Sum")
	var again sync.Map
	f.e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 4, task.Medium: 4, task.Large: 1}}, append(f.handlers(nil),
		tree.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
			if j.Args.N == 0 {
				return 1, nil
			}
			children := []task.Pending{tree.With(double{j.Args.N - 1}), tree.With(double{j.Args.N - 1})}
			if _, err := task.Spawn(ctx, nil, children, sum.With(double{}), task.Inherit()); err != nil {
				return 0, err
			}
			if _, second := again.LoadOrStore(j.ID, true); !second { // it runs again, and finds the group that it made
				return 0, errors.New("once more")
			}
			return -1000, nil // nobody sees it
		}),
		sum.Handle(func(ctx context.Context, j *task.Job[double]) (n int, err error) {
			results, err := task.GroupResults[int](ctx)
			for _, r := range results {
				v, err := r.Unwrap()
				if err != nil {
					return 0, err
				}
				n += v
			}
			return n, err
		}))...)
	g, err := task.Spawn(e.ctx(), e.client, []task.Pending{tree.With(double{3}), tree.With(double{2}), tree.With(double{0})}, f.callback.With(double{}))
	if err != nil {
		t.Fatal(err)
	}
	if got := show(receive(e, "the outer callback", f.fired)); got != "8 4 1" {
		t.Errorf("the outer callback saw %s, want 8 4 1", got)
	}
	if fired, _ := f.quiet(); fired != 0 {
		t.Errorf("%d more", fired)
	}
	if info := f.info(g); info.OK != 3 {
		t.Errorf("info %+v", info)
	}
}

// Two children cannot hand their places on to one group: the second is told.
func TestGroupTakesOnePlace(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	outer := task.Define[double, int]("group:Outer")
	e.start(task.WorkerOptions{}, append(f.handlers(nil), outer.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
		_, err := task.Spawn(ctx, nil, f.children(1), f.callback.With(double{}), task.Inherit(), task.GroupID("same"))
		return 0, err
	}))...)
	if _, err := task.Spawn(e.ctx(), e.client, []task.Pending{outer.With(double{}), outer.With(double{})}, f.callback.With(double{}), task.OnAllDone, task.GroupID("outer")); err != nil {
		t.Fatal(err)
	}
	for receive(e, "the outer callback", f.infos).ID != "outer:callback" {
	}
	results, err := task.GroupResultsOf[int](e.ctx(), e.client, "outer")
	got := strings.Fields(show(results))
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{"1", "task.GroupExistsError"}) {
		t.Errorf("the outer group has %q, %v", got, err)
	}
}

// C5: an inner group that fails is a child that failed, with an OnFailure task of its own or without.
func TestNestedGroupFails(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("OnFailure ", own), func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			outer := task.Define[double, int]("group:Outer")
			mend := task.Define[double, int]("group:Mend")
			e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 4, task.Medium: 4, task.Large: 1}}, append(f.handlers(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }),
				outer.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
					opts := []task.GroupOption{task.Inherit()}
					if own {
						opts = append(opts, task.OnFailure(mend.With(double{})))
					}
					_, err := task.Spawn(ctx, nil, f.children(2), f.callback.With(double{}), opts...)
					return 0, err
				}),
				mend.Handle(func(context.Context, *task.Job[double]) (int, error) { return 99, nil }))...)
			_, err := task.Spawn(e.ctx(), e.client, []task.Pending{outer.With(double{})}, f.callback.With(double{}), task.OnAllDone)
			if err != nil {
				t.Fatal(err)
			}
			want := "task.GroupFailedError"
			if own {
				want = "99"
			}
			if got := show(receive(e, "the outer callback", f.fired)); got != want {
				t.Errorf("the outer callback saw %s, want %s", got, want)
			}
			f.quiet()
			if n := e.counter(task.Dead, "takt:GroupFailed"); (n == 0) != own {
				t.Errorf("%d markers of failure", n)
			}
		})
	}
}

// task-G3, task-G4: the children of a group that a Python peer made, by its record; once, though they are delivered twice. Without the record nothing is fired and nothing fails.
func TestGroupOfAPythonPeer(t *testing.T) {
	for _, record := range []bool{true, false} {
		t.Run(fmt.Sprint("record ", record), func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			if record {
				e.do("SET", e.key("groups:py:callback"), "\x82\xaatask_class\xaegroup:Callback\xa4args\x91\x05", "EX", "1000")
			}
			e.do("SET", e.key("groups:py:remaining"), "2", "EX", "1000")
			for range 2 {
				for _, id := range []string{"c1", "c2"} {
					e.do("XADD", e.key("tasks:normal:small"), "*", "data",
						"\x85\xa7task_id\xa2"+id+"\xa9task_name\xabgroup:Child\xa6labels\x83\xa8priority\xa6normal\xa4size\xa5small\xa8group_id\xa2py\xa9task_args\x91\x15\xabtask_kwargs\x80")
				}
			}
			e.start(task.WorkerOptions{}, f.child.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return 2 * j.Args.N, nil }),
				f.callback.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
					if j.Args.N != 5 || j.Labels["callback_group_id"] != "py" || j.Queue != "realtime:large" || j.ID != "py:callback" {
						t.Errorf("the callback is %+v", j)
					}
					f.fired <- nil
					return 0, nil
				}))
			e.eventually("all have ended", func() bool { return e.counter(task.Done, "group:Child") == 4 })
			if record {
				receive(e, "the callback", f.fired)
			}
			if fired, _ := f.quiet(); fired != 0 {
				t.Errorf("%d more callbacks", fired)
			}
			if got := e.text("GET", e.key("groups:py:results:c1")); got != "\x2a" {
				t.Errorf("result %q, want msgpack 42", got)
			}
			if got := e.number("GET", e.key("groups:py:remaining")); got != 0 {
				t.Errorf("remaining %d", got)
			}
		})
	}
}

// plus-24, W17: groups on a cluster, all keys of a group in the slot of the tag.
func TestGroupOnACluster(t *testing.T) {
	e := newEnvOn(t, testenv.RedisCluster(t))
	f := newFamily(e)
	f.start(nil)
	f.spawn(300)
	if got := receive(e, "the callback", f.fired); len(got) != 300 || got[299].Value != 598 {
		t.Errorf("it saw %d results", len(got))
	}
	f.spawn(2, task.FailFast)
	receive(e, "the callback", f.fired)
}

func TestSpawnRefusesWhatIsUnfit(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	unique := task.Define[double, int]("group:Unique", task.Unique(0))
	child, callback := f.child.With(double{}), f.callback.With(double{})
	for _, c := range []struct {
		want     string
		child    task.Pending
		callback task.Pending
		opts     []task.GroupOption
	}{
		{"child 0: ID and Key do not fit", f.child.With(double{}, task.ID("x")), callback, nil},
		{"child 0: group:Unique is unique", unique.With(double{}), callback, nil},
		{"child 0: an empty Pending", task.Pending{}, callback, nil},
		{"callback: an empty Pending", child, task.Pending{}, nil},
		{"callback: In and At do not fit", child, f.callback.With(double{}, task.In(time.Second)), nil},
		{"OnFailure: with OnAllDone", child, callback, []task.GroupOption{task.OnAllDone, task.OnFailure(child)}},
		{"OnFailure: In and At", child, callback, []task.GroupOption{task.OnFailure(f.child.With(double{}, task.In(1)))}},
		{"GroupTTL -1s", child, callback, []task.GroupOption{task.GroupTTL(-time.Second)}},
		{`GroupID "": want 1 to 128 bytes`, child, callback, []task.GroupOption{task.GroupID("")}},
		{"GroupID: 101 bytes", child, callback, []task.GroupOption{task.GroupID(strings.Repeat("x", 101))}},
		{`GroupPolicy "some"`, child, callback, []task.GroupOption{task.GroupPolicy("some")}},
		{"Inherit: want a handler's context", child, callback, []task.GroupOption{task.Inherit()}},
	} {
		if _, err := task.Spawn(e.ctx(), e.client, []task.Pending{c.child}, c.callback, c.opts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := task.Spawn(e.ctx(), nil, nil, callback); err == nil {
		t.Error("Spawn without a Client")
	}
	keys, err := e.srv.AllKeys(e.ctx())
	if err != nil || len(keys) != 0 {
		t.Errorf("keys were written: %q, %v", keys, err)
	}
}

// The in-process look-alike does for groups and aggregates, too.
func TestGroupOnMiniredis(t *testing.T) {
	e := newEnvOn(t, testenv.Miniredis(t))
	f := newFamily(e)
	typ := noteType("note:Mini", task.Aggregate[note]{MaxSize: 2, MaxDelay: time.Hour})
	ch := make(chan string, 1)
	e.start(task.WorkerOptions{}, append(f.handlers(nil), typ.HandleBatch(batches(ch, nil)))...)
	f.spawn(3)
	if got := show(receive(e, "the callback", f.fired)); got != "0 2 4" {
		t.Errorf("it saw %s", got)
	}
	if _, err := typ.SubmitMany(e.ctx(), e.client, []note{{"a", 1}, {"a", 2}}); err != nil {
		t.Fatal(err)
	}
	if got := receive(e, "a batch", ch); got != "a 1 2" {
		t.Errorf("it got %q", got)
	}
}

func BenchmarkGroupChildren(b *testing.B) {
	e := newEnv(b)
	child := task.Define[payload, int]("bench:Child", task.Small)
	over := task.Define[payload, task.None]("bench:Over", task.Small)
	b.Run("spawn", func(b *testing.B) { spawnAll(b, e, child, over) })
	e.do("FLUSHALL")
	b.Run("run", func(b *testing.B) {
		e.do("FLUSHALL")
		spawnAll(b, e, child, over)
		all := make(chan struct{})
		b.ResetTimer()
		_, stop := e.start(task.WorkerOptions{}, child.Handle(func(context.Context, *task.Job[payload]) (int, error) { return 1, nil }),
			over.Handle(func(context.Context, *task.Job[payload]) (task.None, error) { close(all); return task.None{}, nil }))
		<-all
		stop()
	})
}

func spawnAll(b *testing.B, e *env, child *task.Type[payload, int], over *task.Type[payload, task.None]) {
	children := make([]task.Pending, b.N)
	for i := range children {
		children[i] = child.With(payload{"x"})
	}
	if _, err := task.Spawn(context.Background(), e.client, children, over.With(payload{})); err != nil {
		b.Fatal(err)
	}
}
