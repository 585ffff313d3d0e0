package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// Remove takes an execution that has ended, and no other.
func TestRemove(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	first := e.begin("a")
	e.is(e.Remove(e.ctx(), first), workflow.ErrNotFinished)
	e.is(e.Remove(e.ctx(), workflow.Instance{ID: "a", Execution: "never"}), workflow.ErrNotFound)
	e.is(e.Remove(e.ctx(), workflow.Instance{ID: "never", Execution: "x"}), workflow.ErrNotFound)
	e.step(e.task(w), finished)
	second := e.begin("a")
	e.ok(e.Remove(e.ctx(), first))
	e.is(e.Remove(e.ctx(), first), workflow.ErrNotFound)
	if got := e.info(workflow.Instance{ID: "a"}); got.Instance.String() != second.String() {
		t.Errorf("newest: %s", got.Instance)
	}
	e.step(e.task(w), finished)
	e.ok(e.Remove(e.ctx(), second))
	_, err := e.Info(e.ctx(), workflow.Instance{ID: "a"})
	e.is(err, workflow.ErrNotFound)
	left := slices.DeleteFunc(e.keys(), func(k string) bool {
		return k == "counters" || k == "queues" || strings.HasPrefix(k, "tasks:") || strings.HasPrefix(k, e.opts.Prefix+":worker:")
	})
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// RemoveEnded takes the oldest first, in pages, as many as it may, and leaves what is active or younger.
func TestRemoveEnded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("shards ", n), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, shards(n))
			w, _ := e.worker(workflow.WorkerOptions{})
			const total = 450
			for k := range total {
				e.begin(fmt.Sprint("a", k))
				e.step(e.task(w), finished)
			}
			active := e.begin("active")
			border := time.Now()
			e.until("the clock goes on", func() bool { return time.Since(border) > 2*time.Millisecond })
			border = time.Now()
			e.begin("young")
			for range 2 {
				if task := e.task(w); task.ID == "young" {
					e.step(task, finished)
				} else {
					e.step(task)
				}
			}
			if _, err := e.RemoveEnded(e.ctx(), border, -1); err == nil {
				t.Error("a negative limit is taken")
			}
			for before, want := range map[time.Time]int64{border: total, time.Now().Add(time.Hour): total + 1, border.Add(-time.Hour): 0} {
				if n, err := e.CountEnded(e.ctx(), before); err != nil || n != want {
					t.Errorf("%d have ended before %v, %v, want %d", n, before, err, want)
				}
			}
			for _, want := range []int{250, 200, 0} {
				if removed, err := e.RemoveEnded(e.ctx(), border, 250); err != nil || removed != want {
					t.Errorf("removed %d, %v, want %d", removed, err, want)
				}
			}
			if removed, err := e.RemoveEnded(e.ctx(), time.Now().Add(time.Hour), 0); err != nil || removed != 1 {
				t.Errorf("removed %d, %v, of the young", removed, err)
			}
			list, err := e.List(e.ctx(), workflow.Filter{})
			e.ok(err)
			if len(list) != 1 || list[0].Instance.String() != active.String() {
				t.Errorf("left: %+v", list)
			}
		})
	}
}

// What has ended expires by itself, history and all, and cleaning takes it out of the indexes.
func TestRetention(t *testing.T) {
	long.Test(t, "waits for a retention to end")
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.Retention = 3 * time.Second })
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	e.step(e.task(w), finished)
	if ms := e.int("PTTL", e.key("doc:"+i.String())); ms < 1 || ms > 3000 {
		t.Errorf("expires in %d ms", ms)
	}
	e.until("it has expired", func() bool {
		_, err := e.Info(e.ctx(), i)
		return err != nil
	})
	e.is(e.Remove(e.ctx(), i), workflow.ErrNotFound) // and that cleans up, too
	j := e.begin("b")
	e.step(e.task(w), finished)
	e.until("it has expired", func() bool {
		_, err := e.Info(e.ctx(), j)
		return err != nil
	})
	if list, err := e.List(e.ctx(), workflow.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	e.until("the indexes are clean", func() bool {
		e.ok(workflow.Clean(e.ctx(), e.Client))
		return e.int("ZCARD", e.key("created"))+e.int("ZCARD", e.key("ended")) == 0
	})
	again := workflow.Instance{ID: "b", Execution: j.Execution} // it is forgotten, so it may come again
	e.ok(e.Start(e.ctx(), starting("", func(s *workflow.Start) { s.Instance = again })))
	e.ok(workflow.Clean(e.ctx(), e.Client))
	e.step(e.task(w), finished)
}

// An execution that comes again after it expired, and before the indexes were cleaned, is not taken for one that has ended: neither removing what has ended nor cleaning takes it.
func TestStartOfExpired(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.Retention = time.Millisecond })
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	e.step(e.task(w), finished)
	e.until("it has expired", func() bool {
		_, err := e.Info(e.ctx(), i)
		return err != nil
	})
	e.ok(e.Start(e.ctx(), starting("", func(s *workflow.Start) { s.Instance = i })))
	_, err := e.RemoveEnded(e.ctx(), time.Now().Add(time.Minute), 0)
	e.ok(err)
	if n, err := e.CountEnded(e.ctx(), time.Now().Add(time.Minute)); err != nil || n != 0 {
		t.Errorf("%d have ended, %v", n, err)
	}
	e.ok(workflow.Clean(e.ctx(), e.Client))
	if got := e.info(i); got.State != workflow.Active {
		t.Errorf("%+v", got)
	}
	if st := e.stats(); st.Active != 1 || st.Ended != 0 {
		t.Errorf("stats: %+v", st)
	}
	e.ok(e.Terminate(e.ctx(), i, ""))
}

// Without retention nothing expires.
func TestKeptForEver(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.Retention = -1 })
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	e.step(e.task(w), finished)
	if ms := e.int("PTTL", e.key("doc:"+i.String())); ms != -1 {
		t.Errorf("expires in %d ms", ms)
	}
	e.ok(workflow.Clean(e.ctx(), e.Client))
	e.info(i)
}

// with is the same from a program with another retention.
func (e *env) with(retention time.Duration) *env {
	e.t.Helper()
	o := e.opts
	o.Retention = retention
	return on(e.t, e.srv, e.srv.Client, o)
}

// How long an execution is kept is decided when it ends. Neither the retention of the program that cleans nor the clock of the one that ended it brings that forward.
func TestCleanRemovesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	e.step(e.task(w), finished)
	e.do("ZADD", e.key("ended"), "0", i.String()) // as of a worker whose clock is wrong
	for _, retention := range []time.Duration{time.Millisecond, time.Hour, -1} {
		e.ok(workflow.Clean(e.ctx(), e.with(retention).Client))
	}
	if got := e.info(i); got.State != workflow.Finished || e.history(i) == "" {
		t.Errorf("%+v", got)
	}
	if st := e.stats(); st.Ended != 1 {
		t.Errorf("%d have ended, want 1", st.Ended)
	}
}

// What expired goes from the indexes whoever cleans, also from behind what is kept for longer.
func TestCleanBehindWhatIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	const kept = 450
	for k := range kept {
		e.begin(fmt.Sprint("kept", k))
		e.step(e.task(w), finished)
	}
	stop()
	short := e.with(time.Millisecond)
	w, _ = short.worker(workflow.WorkerOptions{})
	for k := range 3 {
		e.begin(fmt.Sprint("short", k))
		short.step(short.task(w), finished)
	}
	e.until("they have expired", func() bool {
		list, err := e.List(e.ctx(), workflow.Filter{Limit: -1})
		e.ok(err)
		return len(list) == kept
	})
	e.ok(workflow.Clean(e.ctx(), e.with(-1).Client))
	if created, ended := e.int("ZCARD", e.key("created")), e.int("ZCARD", e.key("ended")); created != kept || ended != kept {
		t.Errorf("in the indexes: %d created, %d ended, want %d", created, ended, kept)
	}
}

// An execution has ended when Redis says, as its time to live is Redis' own.
func TestEndedByServerClock(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i, j := e.begin("a"), e.begin("b")
	before := e.serverTime()
	for range 2 {
		if task := e.task(w); task.ID == "a" {
			e.step(task, finished)
		} else {
			e.step(task)
		}
	}
	e.ok(e.Terminate(e.ctx(), j, ""))
	after := e.serverTime()
	for _, i := range []workflow.Instance{i, j} {
		if at := e.int("ZSCORE", e.key("ended"), i.String()); at < before || at > after {
			t.Errorf("%s ended at %d, want %d to %d", i, at, before, after)
		}
	}
}

// serverTime is that of Redis, in ms.
func (e *env) serverTime() int64 {
	e.t.Helper()
	now, err := redis.ServerTime(e.ctx(), e.srv.Client)
	e.ok(err)
	return now.UnixMilli()
}
