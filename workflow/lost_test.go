package workflow_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// far is a process behind a proxy.
func (e *env) far() (*env, *testenv.Proxy) {
	e.t.Helper()
	p := testenv.CountingProxy(e.t, e.srv.URL)
	return on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{URL: p.URL}), e.opts), p
}

// The reply of a script is lost after it was carried out: nothing is lost with it, and nothing is done twice.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	type ground struct {
		*env                  // undisturbed
		far  *env             // behind the proxy
		w    *workflow.Worker // of far
		lose func(string)
	}
	known := func(err error, t *testing.T) {
		t.Helper()
		if err == nil || errors.Is(err, workflow.ErrLost) || errors.Is(err, workflow.ErrNotFound) {
			t.Errorf("error %v, want one that says that the outcome is unknown", err)
		}
	}
	for name, f := range map[string]func(*testing.T, ground){
		"start": func(t *testing.T, g ground) {
			s := starting("a")
			g.lose("act")
			g.ok(g.far.Start(g.ctx(), s))
			g.is(g.far.Start(g.ctx(), starting("a")), workflow.ErrExists)
			g.step(g.task(g.w), finished)
			if n := g.stats().Counters["started"]; n != 1 {
				t.Errorf("%d started", n)
			}
		},
		"signal, cancel": func(t *testing.T, g ground) {
			i := g.begin("a")
			g.lose("act")
			g.ok(g.far.Signal(g.ctx(), "a", event("S", 0)))
			g.lose("act")
			g.ok(g.far.Cancel(g.ctx(), i, event("C", 0)))
			g.step(g.last(g.w, "Started S C"), finished)
		},
		"signal with start": func(t *testing.T, g ground) {
			g.lose("act")
			if started, err := g.far.SignalWithStart(g.ctx(), event("S1", 0), starting("a")); err != nil || !started {
				t.Errorf("started %v, %v", started, err)
			}
			g.lose("act")
			if started, err := g.far.SignalWithStart(g.ctx(), event("S2", 0), starting("a")); err != nil || started {
				t.Errorf("started %v, %v", started, err)
			}
			g.step(g.last(g.w, "Started S1 S2"), finished)
		},
		"begin": func(t *testing.T, g ground) {
			g.lose("begin")
			g.begin("a")
			g.step(g.task(g.w), finished)
		},
		"complete": func(t *testing.T, g ground) {
			i := g.begin("a")
			task := g.task(g.w)
			g.lose("complete")
			g.step(task, schedules(1), timer(2, 0), child(task, starting("b"), 3))
			g.ok(g.activity(g.w).Complete(g.ctx(), event("Done", 1)))
			h := ""
			for strings.Count(h, " ") < 2 || g.stats().Active > 1 {
				if task := g.task(g.w); task.ID == "a" {
					g.step(task)
				} else {
					g.step(task, finished)
				}
				h = g.history(i)
			}
			if h != "Started Done/1 TimerFired/2" && h != "Started TimerFired/2 Done/1" {
				t.Errorf("history: %s", h)
			}
			g.ok(g.Terminate(g.ctx(), i, ""))
			if n := g.stats().Counters["started"]; n != 2 {
				t.Errorf("%d started", n)
			}
		},
		"complete, finished": func(t *testing.T, g ground) {
			i := g.begin("a")
			task := g.task(g.w)
			g.lose("complete")
			g.step(task, finished)
			if h := g.history(i); h != "Started" {
				t.Errorf("history: %s", h)
			}
		},
		"complete, continued and removed": func(t *testing.T, g ground) {
			g.begin("a")
			task := g.task(g.w)
			_, goesOn := continued(task)
			g.lose("complete")
			g.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = true })
			g.step(g.task(g.w), finished)
			if st := g.stats(); st.Counters["started"] != 2 || st.Ended != 1 {
				t.Errorf("stats: %+v", st)
			}
		},
		"complete, terminated meanwhile": func(t *testing.T, g ground) {
			i := g.begin("a")
			task := g.task(g.w)
			g.ok(g.Terminate(g.ctx(), i, ""))
			g.lose("complete")
			g.is(task.Complete(g.ctx(), checkpoint(task)), workflow.ErrLost)
		},
		"activity": func(t *testing.T, g ground) {
			g.begin("a")
			g.step(g.task(g.w), schedules(1))
			a := g.activity(g.w)
			g.lose("settle")
			g.ok(a.Complete(g.ctx(), event("Done", 1)))
			task := g.task(g.w)
			if types(task.Events) != "Done/1" {
				t.Errorf("events: %s", types(task.Events))
			}
			g.step(task, finished)
		},
		"release": func(t *testing.T, g ground) {
			g.begin("a")
			task := g.task(g.w)
			g.lose("release")
			known(task.Release(g.ctx()), t)
			g.step(g.task(g.w), schedules(1))
			a := g.activity(g.w)
			g.lose("release")
			known(a.Release(g.ctx()), t)
			g.ok(g.activity(g.w).Complete(g.ctx(), event("Done", 1)))
			g.step(g.task(g.w), finished)
		},
		"extend": func(t *testing.T, g ground) {
			g.begin("a")
			task := g.task(g.w)
			g.lose("extend")
			known(task.Extend(g.ctx()), t)
			g.ok(task.Extend(g.ctx()))
			g.step(task, finished)
		},
		"terminate": func(t *testing.T, g ground) {
			i := g.begin("a")
			g.lose("terminate")
			known(g.far.Terminate(g.ctx(), i, ""), t)
			g.is(g.far.Terminate(g.ctx(), i, ""), workflow.ErrNotFound)
			if h := g.history(i); h != workflow.EventTerminated {
				t.Errorf("history: %s", h)
			}
		},
		"pause": func(t *testing.T, g ground) {
			g.begin("a")
			for range 2 {
				g.lose("pause")
				known(g.far.Pause(g.ctx(), "a"), t)
				g.ok(g.far.Pause(g.ctx(), "a"))
				g.lose("pause")
				known(g.far.Resume(g.ctx(), "a"), t)
				g.lose("pause")
				known(g.far.PauseQueue(g.ctx(), "q"), t)
				g.ok(g.far.PauseQueue(g.ctx(), "q"))
				g.lose("pause")
				known(g.far.ResumeQueue(g.ctx(), "q"), t)
				g.ok(g.far.ResumeQueue(g.ctx(), "q"))
			}
			g.step(g.task(g.w), finished)
		},
		"remove": func(t *testing.T, g ground) {
			i := g.begin("a")
			g.step(g.task(g.w), finished)
			g.lose("remove")
			known(g.far.Remove(g.ctx(), i), t)
			g.is(g.far.Remove(g.ctx(), i), workflow.ErrNotFound)
		},
		"await": func(t *testing.T, g ground) {
			i := g.begin("a")
			g.lose("await")
			told := g.await(g.far, i)
			g.step(g.task(g.w), finished)
			if got := <-told; got.err != nil {
				t.Error(got.err)
			}
		},
		"fire": func(t *testing.T, g ground) {
			g.begin("a")
			task := g.task(g.w)
			g.lose("fire")
			g.step(task, timer(1, 50*time.Millisecond), timer(2, 60*time.Millisecond))
			var got []workflow.Event
			for len(got) < 2 {
				task := g.task(g.w)
				got = append(got, task.Events...)
				g.step(task)
			}
			if types(got) != "TimerFired/1 TimerFired/2" {
				t.Errorf("events: %s", types(got))
			}
			g.none(g.w)
		},
		"read": func(t *testing.T, g ground) { // what a read brought is pending for the worker, and found
			for range 5 {
				g.begin("a")
				g.lose("XREADGROUP")
				task := g.task(g.w)
				g.step(task, schedules(1))
				g.lose("XREADGROUP")
				g.ok(g.activity(g.w).Complete(g.ctx(), event("Done", 1)))
				g.step(g.task(g.w), finished)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			far, p := e.far()
			w, _ := far.worker(workflow.WorkerOptions{})
			hashes := workflow.Hashes()
			lose := func(script string) {
				p.LoseReplyTo(cmp.Or(hashes[script], script))
			}
			warm(e)
			f(t, ground{e, far, w, lose})
			e.idle("q")
		})
	}
}

// warm makes the server know all scripts, so that none is sent again as a text after its loss.
func warm(e *env) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.ctx())
	w, err := e.NewWorker(workflow.WorkerOptions{})
	e.ok(err)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	i := e.begin("warm", func(s *workflow.Start) { s.Queue = "warm" })
	e.ok(e.Pause(e.ctx(), "warm"))
	e.ok(e.Resume(e.ctx(), "warm"))
	task := e.task(w, "warm")
	e.ok(task.Extend(e.ctx()))
	e.ok(task.Release(e.ctx()))
	e.step(e.task(w, "warm"), schedules(1))
	e.ok(e.activity(w, "warm").Complete(e.ctx(), event("Done", 1)))
	e.ok(e.Terminate(e.ctx(), i, ""))
	_, _, err = e.Await(e.ctx(), i)
	e.ok(err)
	e.ok(e.Remove(e.ctx(), i))
	e.ok(e.do("HDEL", e.key("counters"), "started", "terminated").Error())
	cancel()
	e.ok(<-done)
}
