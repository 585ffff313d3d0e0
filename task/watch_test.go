package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// watch watches until the test ends.
func (e *env) watch(c *task.Client) (<-chan task.Ended, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ends, done := make(chan task.Ended, 10_000), make(chan error, 1)
	go func() { done <- c.Watch(ctx, func(end task.Ended) { ends <- end }) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.t.Errorf("Watch: %v", err)
		}
	})
	e.t.Cleanup(stop)
	return ends, stop
}

// told submits echoes until a watcher is told of one: then worker and watcher know of each other.
func (e *env) told(ends <-chan task.Ended) {
	e.t.Helper()
	e.eventually("a watcher is told", func() bool {
		send(e, echo, "warm-up")
		select {
		case <-ends:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
	e.idle()
}

// Whoever watches is told of the end of every run, on every kind of server.
func TestWatch(t *testing.T) {
	onBoth(t, testWatch)
}

// A watcher hears of its own database alone, though channels of Redis know no databases.
func TestWatchersOfOneDatabase(t *testing.T) {
	e := newEnv(t)
	other := &env{t: t, srv: e.srv, prefix: e.prefix, client: e.reach(e.srv.URL + "/1")}
	e.start(task.WorkerOptions{}, echoing())
	other.start(task.WorkerOptions{}, echoing())
	here, _ := e.watch(e.connect(task.Options{}))
	there, _ := other.watch(e.reach(e.srv.URL + "/1"))
	submitted := map[string]bool{}
	hears := func() {
		e.eventually("the watcher of database 1 hears of it", func() bool {
			submitted[send(other, echo, "there").ID] = true
			select {
			case end := <-there:
				if !submitted[end.ID] {
					t.Errorf("the watcher of database 1 hears of %s, which is not in it", end.ID)
				}
				return true
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
	hears()
	e.told(here)
	hears()
}

func testWatch(t *testing.T, e *env) {
	typ := task.Define[string, int]("test:Watched", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	e.start(task.WorkerOptions{}, echoing(), typ.Handle(func(_ context.Context, j *task.Job[string]) (int, error) {
		if j.Args == "bad" {
			return 0, errors.New("boom " + strings.Repeat("x", 1000))
		}
		return 1, nil
	}))
	ends, _ := e.watch(e.connect(task.Options{}))
	e.told(ends)
	bad, good := send(e, typ, "bad"), send(e, typ, "good")
	got := map[string][]task.Ended{}
	for len(got[bad.ID]) < 2 || len(got[good.ID]) < 1 {
		end := wait(t, "an end", ends)
		got[end.ID] = append(got[end.ID], end)
	}
	slices.SortFunc(got[bad.ID], func(a, b task.Ended) int { return a.Attempt - b.Attempt }) // those of one task may change places
	if end := got[good.ID][0]; end.Outcome != task.Done || !end.Final() || end.Name != "test:Watched" || end.Queue != "normal:medium" || end.Attempt != 1 || end.Error != "" || end.Took <= 0 {
		t.Errorf("%+v", end)
	}
	for i, want := range []task.Outcome{task.Retried, task.Dead} {
		if end := got[bad.ID][i]; end.Outcome != want || end.Final() != (want == task.Dead) || end.Attempt != i+1 || !strings.HasPrefix(end.Error, "boom") || len(end.Error) > 512 {
			t.Errorf("run %d: %+v", i+1, end)
		}
	}
}

func TestEndedJSON(t *testing.T) {
	end := task.Ended{ID: "1", Name: "n", Queue: "normal:small", Outcome: task.Dead, Error: "e", Took: 1500 * time.Microsecond, Attempt: 2}
	text, err := json.Marshal(end)
	if want := `{"id":"1","name":"n","queue":"normal:small","outcome":"dead","error":"e","attempt":2,"took_ms":1.5}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	var back task.Ended
	if err := json.Unmarshal(text, &back); err != nil || back != end {
		t.Errorf("%+v, %v", back, err)
	}
}

// A watcher that does not keep up misses some, and the log says so; a missing function is an error.
func TestSlowWatcher(t *testing.T) {
	e := newEnv(t)
	refused(t, "nil is no function", e.client.Watch(e.ctx(), nil))
	var text testenv.Log
	c := e.connect(task.Options{Log: textLogger(&text)})
	block, told := make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(e.ctx())
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, func(task.Ended) {
			select {
			case told <- struct{}{}:
			default:
			}
			<-block
		})
	}()
	one := `[{"id":"1"}]`
	e.eventually("the watcher is there", func() bool { return e.number("PUBLISH", e.key("tasks:events:0"), one) > 0 })
	wait(t, "the first", told)
	for range 1000 {
		e.must("PUBLISH", e.key("tasks:events:0"), one)
	}
	e.must("PUBLISH", e.key("tasks:events:0"), "no JSON")
	close(block)
	e.eventually("the log says so", func() bool { return text.Count("too slow") > 0 })
	e.eventually("and goes on", func() bool {
		e.must("PUBLISH", e.key("tasks:events:0"), "no JSON")
		return text.Count("cannot be read") > 0
	})
	cancel()
	if err := wait(t, "its end", done); err != nil {
		t.Error(err)
	}
}
