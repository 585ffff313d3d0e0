package task_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	failing = task.Define[double, int]("test:Failing", task.Positional(), task.Small)
	holding = task.Define[double, int]("test:Holding", task.Positional(), task.Small)
)

// stocked is a store with tasks in each situation: waiting, running, delayed, done and dead. ended lets those that run go on.
func stocked(e *env) (running task.Ref, release func()) {
	e.t.Helper()
	_, running, release = stockedBy(e)
	return running, release
}

// stockedBy returns the worker, too.
func stockedBy(e *env) (w *task.Worker, running task.Ref, release func()) {
	e.t.Helper()
	begun, gate := make(chan struct{}), make(chan struct{})
	w, stop := e.start(task.WorkerOptions{ID: "stocked", Concurrency: map[task.Size]int{task.Small: 4}, NoPromote: true},
		holding.Handle(func(context.Context, *task.Job[double]) (int, error) {
			close(begun)
			<-gate
			return 1, nil
		}),
		failing.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }))
	dead := send(e, failing, double{1}, task.ID("dead-1"))
	if _, err := dead.Await(e.ctx()); err == nil {
		e.t.Error("a failing task is done")
	}
	held := send(e, holding, double{}, task.ID("running-1"))
	<-begun
	send(e, Double, double{}, task.ID("waiting-1"))
	send(e, Double, double{}, task.ID("delayed-1"), task.In(time.Hour))
	release = func() { close(gate); stop() }
	return w, held.Ref, release
}

// frozen is a stocked store with nobody at work who would put anything right; the worker seems to live.
func frozen(e *env) (running task.Ref, dumps map[string]string) {
	e.t.Helper()
	running, release := stocked(e)
	dumps = e.dumps()
	release()
	e.restore(dumps)
	e.do("SET", e.keys().Worker("stocked"), "token")
	return running, dumps
}

// A store in which tasks wait, run, are delayed and dead has nothing wrong, also while they move.
func TestCheckOfHealthyStore(t *testing.T) {
	e := newEnv(t)
	e.healthy(0)
	_, release := stocked(e)
	r := e.healthy(0)
	want := task.Report{Waiting: 1, Running: 1, Delayed: 1, Dead: 1, Results: 1, Workers: 1}
	if r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if r.Unfinished() != 3 {
		t.Errorf("%d unfinished", r.Unfinished())
	}
	release()
	if r := e.healthy(0); r.Running != 0 || r.Results != 2 || r.Workers != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCheckWhileTasksMove(t *testing.T) {
	e := newEnv(t)
	again := task.Define[double, int]("test:Again", task.Positional(), task.Small, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 3, Exact: true}))
	e.start(task.WorkerOptions{}, again.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Attempt < 3 {
			return 0, errors.New("again")
		}
		return 1, nil
	}))
	args := make([]double, 2000)
	handles, err := again.SubmitMany(e.ctx(), e.client, args)
	testenv.Must(t, err)
	for range 5 {
		e.healthy(time.Hour)
	}
	for _, h := range handles {
		if _, err := h.Await(e.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	if r := e.healthy(time.Hour); r.Unfinished() != 0 || r.Results != len(args) {
		t.Errorf("%+v", r)
	}
}

// dumps is all that is stored, but heartbeats.
func (e *env) dumps() map[string]string {
	e.t.Helper()
	all := make(map[string]string)
	names, err := e.srv.AllKeys(e.ctx())
	testenv.Must(e.t, err)
	for _, key := range names {
		if dump, err := e.do("DUMP", key).ToString(); err == nil && !strings.HasPrefix(key, e.prefix+":worker:") {
			all[key] = dump
		}
	}
	return all
}

// settled is dumps without the streams: they note when workers looked last.
func settled(dumps map[string]string) map[string]string {
	maps.DeleteFunc(dumps, func(key, _ string) bool {
		return strings.HasSuffix(key, ":small") || strings.HasSuffix(key, ":medium") || strings.HasSuffix(key, ":large")
	})
	return dumps
}

func (e *env) restore(dumps map[string]string) {
	e.t.Helper()
	names, err := e.srv.AllKeys(e.ctx())
	testenv.Must(e.t, err)
	for _, key := range names {
		if !strings.HasPrefix(key, e.prefix+":worker:") {
			e.do("DEL", key)
		}
	}
	for key, dump := range dumps {
		ttl := "0"
		if strings.Contains(key, ":results:") || strings.Contains(key, ":known:") {
			ttl = "3600000"
		}
		e.do("RESTORE", key, ttl, dump)
	}
}

// Each corruption is found under its key.
func TestCheckFindsCorruption(t *testing.T) {
	e := newEnv(t)
	running, healthy := frozen(e)
	k := e.keys()
	other := message(t, wire.Message{ID: "other", Name: "x:Y"})
	waiting := message(t, wire.Message{ID: "waiting-1", Name: "x:Y"})
	for _, c := range []struct {
		name    string
		key     string // below the prefix
		problem string
		break_  []string // words; "@" = the prefix and a colon, "KEY" = key
	}{
		{"unknown key", "tasks:junk", "is not a key of Takt", []string{"SET", "KEY", "1"}},
		{"a tenth queue", "tasks:urgent:small", "is no queue, nobody reads it", []string{"XADD", "KEY", "*", "data", other}},
		{"wrong type of queue", "tasks:normal:large", "is a string, should be a stream", []string{"SET", "KEY", "1"}},
		{"wrong type of blocked", "tasks:blocked", "is a string, should be a hash", []string{"SET", "KEY", "1"}},
		{"wrong type of result", "results:x", "is a hash, should be a string", []string{"HSET", "KEY", "a", "b"}},
		{"unreadable entry", "tasks:normal:large", "entry 1-1 cannot be read", []string{"XADD", "KEY", "1-1", "data", "junk"}},
		{"entry of another kind", "tasks:normal:large", `entry 1-1 should have the one field "data"`, []string{"XADD", "KEY", "1-1", "a", "b"}},
		{"entry of no queue", "tasks:normal:large", "names queue urgent:medium", []string{"XADD", "KEY", "1-1", "data", message(t, wire.Message{ID: "u", Name: "n", Labels: wire.Labels{{Key: "priority", Value: "urgent"}}})}},
		{"entry deleted", "tasks:normal:small", "its data is gone", []string{"XDEL", "KEY", running.Entry}},
		{"entry forgotten", "tasks:normal:small", "nobody holds it", []string{"XACK", "KEY", k.TaskGroup(), running.Entry}},
		{"consumer left over, W7", "tasks:normal:small", "consumer gone is left over", []string{"XGROUP", "CREATECONSUMER", "KEY", k.TaskGroup(), "gone"}},
		{"worker gone", "tasks:normal:small", "is held by worker gone, which is gone", []string{"XCLAIM", "KEY", k.TaskGroup(), "gone", "0", running.Entry}},
		{"delayed message unreadable", "tasks:delayed", "cannot be read", []string{"ZADD", "KEY", "99999999999", "junk"}},
		{"overdue", "tasks:delayed", "was due at 1970-01-01T00:00:05Z", []string{"ZADD", "KEY", "5", other}},
		{"delayed twice", "tasks:delayed", "task delayed-1 is there twice", []string{"ZADD", "KEY", "99999999999", message(t, wire.Message{ID: "delayed-1", Name: "n"})}},
		{"waits twice", "tasks:normal:medium", "task waiting-1 is in", []string{"ZADD", "@tasks:delayed", "99999999999", waiting}},
		{"waits and is dead", "tasks:delayed", "task delayed-1 is in", []string{"HSET", "@tasks:dead", "delayed-1", "x"}},
		{"blocked without message", "tasks:blocked", "would be woken in vain", []string{"HSET", "KEY", "b", other}},
		{"letter unreadable", "tasks:dead", "the letter of task dead-1 cannot be read", []string{"HSET", "KEY", "dead-1", "junk"}},
		{"letter not in index", "tasks:dead", "is not in the index", []string{"DEL", "@tasks:dead:index"}},
		{"index without letter", "tasks:dead:index", "which has no letter", []string{"ZADD", "KEY", "1", "lost"}},
		{"result stays", "results:dead-1", "never expires", []string{"PERSIST", "KEY"}},
		{"result of a task that waits, T17", "results:waiting-1", "has a result, and is in", []string{"SET", "KEY", "x", "PX", "60000"}},
		{"awaited for nothing", "tasks:awaited", "nobody listens", []string{"HSET", "KEY", "lost", "a,b"}},
		{"unique for nothing", "tasks:unique:u", "which does not wait or run", []string{"SET", "KEY", "lost", "PX", "60000"}},
		{"unique stays", "tasks:unique:u", "never expires", []string{"SET", "KEY", "waiting-1"}},
		{"known stays", "tasks:known:id:x", "never expires", []string{"HSET", "KEY", "id", "x"}},
		{"counter", "tasks:counters", `is "-1"`, []string{"HSET", "KEY", "done queue normal:small", "-1"}},
		{"counters differ", "tasks:counters", "tasks dead by type", []string{"HINCRBY", "KEY", "dead type test:Failing", "1"}},
		{"counter unknown", "tasks:counters", "is not known", []string{"HSET", "KEY", "junk", "1"}},
		{"group without remaining", "groups:g:remaining", "is missing", []string{"HSET", "@groups:g:state", "total", "3"}},
		{"record unreadable", "tasks:registry", "the record of worker x cannot be read", []string{"HSET", "KEY", "x", "junk"}},
		{"record left over, W7", "tasks:registry", "worker x is gone", []string{"HSET", "KEY", "x", "{}"}},
		{"group never expires", "groups:g:callback", "never expires", []string{"SET", "KEY", "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.t = t
			key := e.prefix + ":" + c.key
			words := slices.Clone(c.break_)
			for i, w := range words {
				if w == "KEY" {
					words[i] = key
				}
				if i == 1 {
					words[i] = strings.Replace(words[i], "@", e.prefix+":", 1)
				}
			}
			if strings.Contains(c.problem, "should be a") {
				e.do("DEL", key)
			}
			e.do(words...)
			defer e.restore(healthy)
			before := settled(e.dumps())
			_, found := e.check(0)
			if n := contains(found, key, c.problem); n != 1 {
				t.Errorf("found %d times in %v", n, found)
			}
			for _, v := range found {
				if v.Next == "" {
					t.Errorf("%v says nothing of what to do", v)
				}
			}
			if !maps.Equal(before, settled(e.dumps())) {
				t.Error("the check changed what is stored")
			}
		})
	}
	e.t = t
	e.healthy(time.Hour)
}

// What is young counts as work in hand.
func TestCheckGrace(t *testing.T) {
	e := newEnv(t)
	frozen(e)
	k := e.keys()
	e.do("XGROUP", "CREATECONSUMER", k.TaskStream("normal:small"), k.TaskGroup(), "gone")
	now, err := e.client.Now(e.ctx())
	testenv.Must(t, err)
	e.do("ZADD", k.TaskDelayed(), fmt.Sprint(now.Add(-time.Second).Unix()), message(t, wire.Message{ID: "late", Name: "n"}))
	if _, found := e.check(0); len(found) != 2 {
		t.Errorf("%d findings: %v", len(found), found)
	}
	e.healthy(time.Hour)
}

func TestCheckOfGroups(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	for _, c := range []struct {
		total, done, remaining int
		fired, failed          string
		problem                string
	}{
		{3, 1, 2, "", "0", ""},
		{3, 3, 0, "1", "0", ""},
		{0, 0, 0, "1", "0", ""},
		{3, 1, 1, "", "0", "1 of 3 children have ended, but 1 are said to remain"},
		{3, 3, 0, "", "0", "0 children remain, and fired is"},
		{3, 1, 2, "1", "1", "2 children remain, and fired is"},
	} {
		gid := "g"
		e.do("HSET", k.GroupState(gid), "total", fmt.Sprint(c.total), "fired", c.fired, "failed", c.failed)
		e.do("SET", k.GroupRemaining(gid), fmt.Sprint(c.remaining), "PX", "60000")
		e.do("PEXPIRE", k.GroupState(gid), "60000")
		for i := range c.done {
			e.do("SADD", k.GroupDone(gid), fmt.Sprint(i))
			e.do("PEXPIRE", k.GroupDone(gid), "60000")
		}
		_, found := e.check(0)
		if c.problem == "" && len(found) != 0 || c.problem != "" && (len(found) != 1 || contains(found, k.GroupState(gid), c.problem) != 1) {
			t.Errorf("%+v: %v", c, found)
		}
		e.do("DEL", k.GroupState(gid), k.GroupRemaining(gid), k.GroupDone(gid))
	}
}

// A group that was spawned and of which nobody waits has lost a child.
func TestCheckOfLostChild(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	e.must("HSET", k.GroupState("g"), "total", "2", "sent", "2")
	e.must("SET", k.GroupRemaining("g"), "2", "PX", "60000")
	e.must("PEXPIRE", k.GroupState("g"), "60000")
	if _, found := e.check(0); len(found) != 1 || contains(found, k.GroupState("g"), "none of them waits or runs") != 1 {
		t.Errorf("%v", found)
	}
	e.must("XADD", k.TaskStream("normal:small"), "*", "data", message(t, wire.Message{ID: "g:0", Name: "n", Labels: wire.Labels{{Key: "group_id", Value: "g"}}}))
	e.healthy(0)
}

func TestCheckOfCollections(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	many := task.Define[double, task.None]("test:Many", task.Positional(), task.Aggregate[double]{MaxDelay: time.Hour})
	send(e, many, double{1})
	send(e, many, double{2})
	if r := e.healthy(0); r.Collected != 2 || r.Unfinished() != 2 {
		t.Errorf("%+v", r)
	}
	e.must("ZADD", k.TaskCollecting(), "5", "lost")
	e.must("HSET", k.TaskCollected("other"), "1", message(t, wire.Message{ID: "x", Name: "n"}))
	_, found := e.check(0)
	if len(found) != 2 || contains(found, k.TaskCollecting(), "names lost") != 1 || contains(found, k.TaskCollected("other"), "nobody hands it over") != 1 {
		t.Errorf("%v", found)
	}
}

func TestCheckOfManyKeys(t *testing.T) {
	e := newEnv(t)
	e.do("EVAL", `for i = 1, 2500 do redis.call('SET', KEYS[1] .. ':results:' .. i, 1) end`, "1", e.prefix)
	r, found := e.check(0)
	if len(found) != 2500 || r.Results != 2500 {
		t.Errorf("%d of 2500 found, %+v", len(found), r)
	}
}

// A check that is ended lists nothing: half a list would read like a whole one.
func TestCheckCancelled(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := task.Check(ctx, e.client, 0); err == nil {
		t.Errorf("cancelled: %v", found)
	}
}

func TestCheckOnMiniredis(t *testing.T) {
	e := newEnvOn(t, testenv.Miniredis(t))
	_, release := stocked(e)
	e.do("SET", e.prefix+":tasks:junk", "1")
	if r, found := e.check(0); len(found) != 1 || r.Waiting != 1 || r.Running != 1 {
		t.Errorf("%+v %v", r, found)
	}
	release()
}
