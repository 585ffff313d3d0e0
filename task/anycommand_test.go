package task_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// everyEnd has one task of each end, and what it takes to get there: done with a result that is awaited, done at its second run, dead, two children of a group
// with their callback, one with a lock and a unique key, and two that are collected and handed over together.
type everyEnd struct {
	e        *env
	handlers []task.Handler
	locked   *task.Type[double, int]
	handles  map[string]*task.Handle[int]
	notes    []*task.Handle[task.None]
}

var theLock = lock.Mutex(lock.Object{Type: lock.Task, Key: "any"})

func newEveryEnd(e *env) *everyEnd {
	e.t.Helper()
	twice := func(_ context.Context, j *task.Job[double]) (int, error) { return 2 * j.Args.N, nil }
	good := task.Define[double, int]("any:Good", task.Positional(), task.Small)
	again := task.Define[double, int]("any:Again", task.Positional(), task.Small, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1, Exact: true}))
	bad := task.Define[double, int]("any:Bad", task.Positional(), task.Small)
	child := task.Define[double, int]("any:Child", task.Positional(), task.Small)
	after := task.Define[double, int]("any:After", task.Positional(), task.Small)
	locked := task.Define[double, int]("any:Locked", task.Positional(), task.Small, task.Unique(0), task.Locks(func(double) []lock.Spec { return []lock.Spec{theLock} }))
	notes := noteType("any:Notes", task.Aggregate[note]{MaxDelay: time.Millisecond}, task.Small)
	v := &everyEnd{e: e, locked: locked, handlers: []task.Handler{
		notes.HandleBatch(func(context.Context, []*task.Job[note]) error { return nil }), good.Handle(twice), child.Handle(twice), locked.Handle(twice),
		again.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
			if j.Attempt == 1 {
				return 0, errors.New("once more")
			}
			return twice(ctx, j)
		}),
		bad.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }),
		after.Handle(func(ctx context.Context, _ *task.Job[double]) (sum int, err error) {
			results, err := task.GroupResults[int](ctx)
			for _, r := range results {
				sum = 10*sum + r.Value
			}
			return sum, err
		}),
	}}
	g := spawn(e, []task.Pending{child.With(double{1}), child.With(double{2})}, after.With(double{}))
	v.notes = sendMany(e, notes, make([]note, 2), task.Keep(time.Hour))
	v.handles = map[string]*task.Handle[int]{
		"good": send(e, good, double{21}), "again": send(e, again, double{21}), "bad": send(e, bad, double{21}), "locked": send(e, locked, double{21}),
		"callback": after.HandleOf(e.client, g.CallbackID()),
	}
	return v
}

// await waits for every end.
func (v *everyEnd) await() {
	for what, h := range v.handles {
		got, err := h.Await(v.e.ctx())
		var failed *task.Error
		want := map[string]int{"good": 42, "again": 42, "locked": 42, "callback": 24}[what]
		if what == "bad" && (!errors.As(err, &failed) || failed.Message != "boom") || what != "bad" && (err != nil || got != want) {
			v.e.t.Errorf("%s: %d, %v, want %d", what, got, err, want)
		}
	}
	for i, h := range v.notes {
		if _, err := h.Await(v.e.ctx()); err != nil {
			v.e.t.Errorf("note %d: %v", i, err)
		}
	}
}

// once fails the test if one of the ends came twice, or something is left behind.
func (v *everyEnd) once() {
	e := v.e
	e.t.Helper()
	e.idle()
	for name, want := range map[string]map[task.Outcome]int64{
		"any:Good": {task.Done: 1}, "any:Again": {task.Retried: 1, task.Done: 1}, "any:Bad": {task.Dead: 1},
		"any:Child": {task.Done: 2}, "any:After": {task.Done: 1}, "any:Locked": {task.Done: 1}, "any:Notes": {task.Done: 2},
	} {
		for _, kind := range []task.Outcome{task.Done, task.Dead, task.Retried, task.Cancelled} {
			if n := e.counter(kind, name); n != want[kind] {
				e.t.Errorf("%d of %s are %s, want %d", n, name, kind, want[kind])
			}
		}
	}
	letters, err := e.client.DeadLetters().List(e.ctx(), task.DeadFilter{})
	if err != nil || len(letters.Letters) != 1 || letters.Letters[0].Name != "any:Bad" || len(letters.Letters[0].History) != 1 {
		e.t.Errorf("dead letters %+v, %v", letters, err)
	}
	if held, err := e.client.Locker().Try(e.ctx(), []lock.Spec{theLock}, lock.TryOptions{}); err != nil {
		e.t.Errorf("the lock: %v", err)
	} else if _, err := held.Release(e.ctx()); err != nil {
		e.t.Errorf("the lock: %v", err)
	}
	if _, err := send(e, v.locked, double{21}).Await(e.ctx()); err != nil { // refused if the key were still held
		e.t.Errorf("another one with the unique key: %v", err)
	}
	var found []task.Violation
	e.eventually("nothing is left of the dead", func() bool { _, found = e.check(0); return len(found) == 0 })
}

// cutAt has a worker do all of it that loses Redis for good at its n-th command of those that count, and then another that takes over. It returns those that counted.
func cutAt(t *testing.T, srv *testenv.RedisServer, n int, lose bool, counts func(words []string) bool) (commands [][]string, fell bool) {
	e := newEnvOn(t, srv)
	v := newEveryEnd(e)
	c, g := e.doomed()
	o := task.WorkerOptions{ID: "dies", MaxDeliveries: -1, Concurrency: map[task.Size]int{task.Small: 1}}
	w, err := c.Worker(o, v.handlers...)
	e.ok(err)
	g.Only(counts)
	g.Arm(n, lose, func() {})
	stop := e.run(w)
	ended := make(chan struct{})
	go func() { defer close(ended); v.await() }()
	select {
	case <-g.Fell:
	case <-ended:
	}
	commands, fell = g.Commands(), !g.Disarm()
	if fell {
		e.srv.Expire(t, e.key("worker:dies"), e.key("lock:mutex:task:any"))
		o.ID, o.Lease = "takes over", 3*time.Second // it looks for the dead every third of it
		e.start(o, v.handlers...)
	}
	wait(t, "all have ended: "+g.Where(), ended)
	v.once()
	stop()
	return commands, fell
}

// step names a command that changes something, "" if it does not: to be cut off there is to be cut off between two others. Nor does it name what a worker says again and again
// for others to know that it lives. scripts are the names by hash and by text.
func step(words []string, scripts map[string]string) string {
	switch words[0] {
	case "EVALSHA", "EVAL":
		name := scripts[words[1]]
		if name == "worker_renew" || name == "register" {
			return ""
		}
		return name
	case "TIME", "INFO", "EXISTS", "HELLO", "CLIENT", "PING", "XINFO", "ZCARD", "ZRANGE", "GET", "MGET", "HGET", "HGETALL", "HMGET", "SUBSCRIBE":
		return ""
	}
	return words[0]
}

// scriptNames are the names of all scripts that a worker may run, by the hashes and the texts that it may send.
func scriptNames(t *testing.T) map[string]string {
	t.Helper()
	names := make(map[string]string)
	for _, folder := range []string{".", "../lock", "../internal/stream"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.lua"))
		testenv.Must(t, err)
		for _, file := range files {
			parts := []string{file}
			switch {
			case folder == "../lock":
				parts = []string{"../lock/common.lua", "../lock/line.lua", file}
			case file == "collect.lua":
				parts = []string{"flush.lua", file}
			}
			var text []byte
			for _, part := range parts {
				read, err := os.ReadFile(part)
				testenv.Must(t, err)
				text = append(text, read...)
			}
			source := script.New(file, string(text)).Source()
			name := strings.TrimSuffix(filepath.Base(file), ".lua")
			names[source], names[fmt.Sprintf("%x", sha1.Sum([]byte(source)))] = name, name
		}
	}
	return names
}

// A worker dies before, or right after, any of its commands that change something in Redis: each task ends once, however it ends, is counted once, and leaves one
// result, one dead letter, one callback and no lock (faults 1 and 10). For every kind of command, the first one, the second and so on, until a worker does all its work without coming to it.
func TestWorkerDiesAtAnyCommand(t *testing.T) {
	long.Test(t, "kills a worker at each of its commands")
	srv := testenv.Redis(t)
	scripts := scriptNames(t)
	whole := make(map[string]int) // of a run that nobody cuts
	commands, _ := cutAt(t, srv, 0, false, nil)
	for _, words := range commands {
		if name := step(words, scripts); name != "" {
			whole[name]++
		}
	}
	t.Logf("a whole run: %v", whole)
	var all sync.WaitGroup
	places := make(chan struct{}, 24) // most of the time they wait for a lease: t.Parallel would let as many wait as there are processors
	var mu sync.Mutex
	died := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		counts := func(words []string) bool { return step(words, scripts) == name }
		for _, lose := range []bool{false, true} {
			cut := func(n int) (fell bool) {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(fmt.Sprintf("%s-%d-lost-reply=%v", name, n, lose), func(t *testing.T) {
					_, fell = cutAt(t, srv, n, lose, counts)
				})
				if fell {
					mu.Lock()
					died[name]++
					mu.Unlock()
				}
				return fell
			}
			for n := 1; n < whole[name]; n++ {
				all.Go(func() { cut(n) })
			}
			all.Go(func() {
				for n := whole[name]; cut(n); n++ {
				}
			})
		}
	}
	all.Wait()
	t.Logf("deaths: %v", died)
	for _, name := range []string{"worker_acquire", "XGROUP", "claim", "read", "take", "give", "finish", "settle", "promote", "collect"} {
		if died[name] < 2 { // before and after
			t.Errorf("%d workers died at a %s", died[name], name)
		}
	}
	sum := 0
	for _, n := range died {
		sum += n
	}
	if sum < 30 {
		t.Errorf("%d workers died, want one before and one after each of at least 15 commands", sum)
	}
}
