package workflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
)

func nightly(change ...func(*workflow.Schedule)) workflow.Schedule {
	s := workflow.Schedule{Name: "nightly", Rule: schedule.Every(100 * time.Millisecond).String(), Start: workflow.Start{Queue: "q", Name: "flow", Event: workflow.Event{Type: "Started"}}}
	for _, f := range change {
		f(&s)
	}
	return s
}

// Any number of workers start one instance for each slot.
func TestSchedule(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.other().worker(workflow.WorkerOptions{})
	e.ok(e.PutSchedule(e.ctx(), nightly()))
	seen := map[string]bool{}
	for range 5 {
		task := e.task(w)
		if seen[task.ID] || types(task.Events) != "Started" || task.Name != "flow" {
			t.Errorf("task of %s: %s", task.ID, types(task.Events))
		}
		seen[task.ID] = true
		e.step(task, finished)
	}
	e.ok(e.PauseSchedule(e.ctx(), "nightly"))
	all, err := e.Schedules(e.ctx())
	e.ok(err)
	if len(all) != 1 || !all[0].Paused || !all[0].Next.IsZero() || all[0].Last.IsZero() {
		t.Errorf("schedules %+v", all)
	}
	e.ok(e.ResumeSchedule(e.ctx(), "nightly"))
	for range 2 { // what was started before the pause is among them, at most once each
		if task := e.task(w); seen[task.ID] {
			t.Errorf("%s again", task.ID)
		}
	}
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
	all, err = e.Schedules(e.ctx())
	e.ok(err)
	if len(all) != 0 {
		t.Errorf("schedules %+v", all)
	}
	e.is(e.RemoveSchedule(e.ctx(), "nightly"), workflow.ErrNotFound)
	e.is(e.PauseSchedule(e.ctx(), "nightly"), workflow.ErrNotFound)
}

// An exclusive schedule waits until the instance that it started has ended.
func TestScheduleExclusive(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Exclusive = true })))
	task := e.task(w)
	e.until("skipped slots", func() bool {
		all, err := e.Schedules(e.ctx())
		e.ok(err)
		return all[0].Skipped >= 2
	})
	st, err := e.Stats(e.ctx())
	e.ok(err)
	if st.Active != 1 {
		t.Errorf("%d are active", st.Active)
	}
	e.step(task, finished)
	if next := e.task(w); next.ID == task.ID {
		t.Errorf("%s again", next.ID)
	}
}

func TestScheduleIsChecked(t *testing.T) {
	e := newEnv(t)
	for name, change := range map[string]func(*workflow.Schedule){
		"Schedule.Name":             func(s *workflow.Schedule) { s.Name = "" },
		"Schedule.Rule":             func(s *workflow.Schedule) { s.Rule = "now and then" },
		"Schedule.Start.Event.Type": func(s *workflow.Schedule) { s.Start.Event.Type = "" },
		"Schedule.Start.Queue":      func(s *workflow.Schedule) { s.Start.Queue = "" },
	} {
		err := e.PutSchedule(e.ctx(), nightly(change))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if k := e.keys(); len(k) != 0 {
		t.Errorf("left %q", k)
	}
}

// A name without its schedule, which somebody deleted, is forgotten, and holds up no other.
func TestScheduleWithoutDocument(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Name = "gone" })))
	e.ok(e.do("DEL", e.key("schedule:gone")).Error())
	e.ok(e.PutSchedule(e.ctx(), nightly()))
	e.step(e.task(w), finished)
	e.until("the name is forgotten", func() bool { return e.int("ZCARD", e.key("schedules")) == 1 })
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
}

// schedule is one of them.
func (e *env) schedule(name string) workflow.Schedule {
	e.t.Helper()
	all, err := e.Schedules(e.ctx())
	e.ok(err)
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	e.t.Fatalf("no schedule %s among %+v", name, all)
	return workflow.Schedule{}
}

// large is a schedule whose start a worker with small refuses. It is due before nightly.
func large(s *workflow.Schedule) {
	s.Name = "large"
	s.Start.Event.Data = json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)
}

// A schedule whose start the worker refuses holds up no other, says why, and starts once a worker accepts it.
func TestScheduleRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.ok(e.PutSchedule(e.ctx(), nightly(large)))
	e.ok(e.PutSchedule(e.ctx(), nightly()))
	o := e.opts
	o.MaxEvent = 1000
	small := on(t, e.srv, e.srv.Connect(t, redis.Options{}), o)
	w, stop := small.worker(workflow.WorkerOptions{})
	for range 3 {
		task := e.task(w)
		if !strings.HasPrefix(task.ID, "nightly-") {
			t.Errorf("task of %s", task.ID)
		}
		e.step(task, finished)
	}
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
	e.until("the refusal is noted", func() bool { return e.schedule("large").LastError != "" })
	if s := e.schedule("large"); !strings.Contains(s.LastError, "Options.MaxEvent") || s.Retry.IsZero() || !s.Last.IsZero() || !s.Started.IsZero() {
		t.Errorf("%+v", s)
	}
	stop()
	w, _ = e.worker(workflow.WorkerOptions{})
	e.until("it starts", func() bool { return !e.schedule("large").Started.IsZero() })
	if s := e.schedule("large"); s.LastError != "" || !s.Retry.IsZero() {
		t.Errorf("after a start: %+v", s)
	}
	e.ok(e.RemoveSchedule(e.ctx(), "large"))
	e.until("all have ended", func() bool {
		if e.stats().Active > 0 {
			e.step(e.task(w), finished)
		}
		return e.stats().Active == 0
	})
}

// What is no schedule, or one of a rule that nobody knows, is listed with what is wrong, holds up no other, and can be removed.
func TestScheduleUnreadable(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, name := range []string{"broken", "ruleless", "foreign"} {
		e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Name = name })))
	}
	e.ok(e.do("SET", e.key("schedule:broken"), "{").Error())
	e.ok(e.do("SET", e.key("schedule:ruleless"), `{"name":"ruleless","rule":"when the cows come home"}`).Error())
	e.ok(e.do("DEL", e.key("schedule:foreign")).Error())
	e.ok(e.do("SADD", e.key("schedule:foreign"), "x").Error())
	e.ok(e.PutSchedule(e.ctx(), nightly()))
	w, _ := e.worker(workflow.WorkerOptions{})
	for range 2 {
		e.step(e.task(w), finished)
	}
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
	e.until("what is wrong is noted", func() bool {
		return e.schedule("broken").LastError != "" && strings.Contains(e.schedule("ruleless").LastError, `"when"`) && strings.Contains(e.schedule("foreign").LastError, "WRONGTYPE")
	})
	e.ok(e.RemoveSchedule(e.ctx(), "broken"))
	e.ok(e.RemoveSchedule(e.ctx(), "ruleless"))
	e.ok(e.do("DEL", e.key("schedule:foreign")).Error())
	e.until("all names are forgotten", func() bool { return e.int("EXISTS", e.key("schedules")) == 0 })
	e.until("all have ended", func() bool {
		if e.stats().Active > 0 {
			e.step(e.task(w), finished)
		}
		return e.stats().Active == 0
	})
}

// ahead makes of what is stored what a clock of Redis would have left that was ahead by d until now.
func (e *env) ahead(name string, d time.Duration) {
	e.t.Helper()
	text, err := e.do("GET", e.key("schedule:"+name)).ToString()
	e.ok(err)
	var doc map[string]any
	e.ok(json.Unmarshal([]byte(text), &doc))
	for _, field := range []string{"created", "last", "started", "next"} {
		if text, ok := doc[field].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, text)
			e.ok(err)
			doc[field] = at.Add(d)
		}
	}
	changed, err := json.Marshal(doc)
	e.ok(err)
	e.ok(e.do("SET", e.key("schedule:"+name), string(changed)).Error())
	e.ok(e.do("ZINCRBY", e.key("schedules"), strconv.FormatInt(d.Milliseconds(), 10), name).Error())
	e.ok(e.do("SET", e.key("clock"), strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10)).Error())
}

// A clock of Redis that was ahead for a moment silences no schedule, whether or not a worker saw it, also one that is put again.
func TestScheduleAfterAClockThatWasAhead(t *testing.T) {
	for _, running := range []bool{true, false} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("running %v, put again %v", running, again), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				w, stop := e.worker(workflow.WorkerOptions{})
				e.ok(e.PutSchedule(e.ctx(), nightly()))
				e.step(e.task(w), finished)
				if !running {
					stop()
				}
				e.ahead("nightly", time.Hour)
				if again {
					e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Start.Name = "other" })))
					if s := e.schedule("nightly"); time.Until(s.Next) > time.Minute || time.Until(s.Last) > time.Minute {
						t.Errorf("put again: %+v", s)
					}
				}
				if !running {
					w, _ = e.worker(workflow.WorkerOptions{})
				}
				for n := 0; n < 2; n++ {
					task := e.task(w)
					if again && task.Name != "other" { // of before
						n--
					}
					e.step(task, finished)
				}
				if s := e.schedule("nightly"); time.Until(s.Last) > time.Minute || time.Until(s.Next) > time.Minute || time.Until(s.Created) > time.Minute {
					t.Errorf("%+v", s)
				}
				e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
			})
		}
	}
}

// A schedule without slots left, or one that is paused, is not looked at for a clock that was set back.
func TestScheduleThatIsOverAndTheClock(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, stop := e.worker(workflow.WorkerOptions{})
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule = "cron 0 0 1 1 *"; s.Name = "rare" })))
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule = "cron 0 0 1 1 *"; s.Name = "paused" })))
	e.ok(e.PauseSchedule(e.ctx(), "paused"))
	next := e.schedule("rare").Next
	e.ahead("rare", time.Hour)
	e.until("its slot is right again", func() bool { return e.schedule("rare").Next.Equal(next) })
	if s := e.schedule("paused"); !s.Paused || !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
	if score, err := e.do("ZSCORE", e.key("schedules"), "paused").AsFloat64(); err != nil || score < 2.5e14 {
		t.Errorf("score %f, %v", score, err)
	}
	stop()
}

// An exclusive schedule waits for the last execution of the instance that it started, also if that continued as new and the first is removed.
func TestScheduleExclusiveAfterAContinuation(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed %v", removed), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{})
			e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Exclusive = true })))
			task := e.task(w)
			_, goesOn := continued(task)
			e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = removed })
			before := e.schedule("nightly").Skipped
			e.until("skipped slots", func() bool { return e.schedule("nightly").Skipped >= before+2 })
			if n := e.stats().Active; n != 1 {
				t.Errorf("%d are active", n)
			}
			e.step(e.task(w), finished)
			if next := e.task(w); next.ID == task.ID {
				t.Errorf("%s again", next.ID)
			}
		})
	}
}

// missed makes all slots of a schedule due that lie in the last hour.
func (e *env) missed(name string) {
	e.t.Helper()
	e.ahead(name, -time.Hour)
	e.ok(e.do("ZADD", e.key("schedules"), "0", name).Error())
}

// dies runs a worker that is killed at a command about schedules, or after it and before the answer, and is over when it is dead, or done says that there is nothing more to die of.
func (e *env) dies(at int, lose bool, done func() bool) {
	e.t.Helper()
	g := testenv.NewGuillotine(e.t, e.srv.Addr)
	g.Only(func(words []string) bool {
		text := strings.Join(words, " ")
		return strings.Contains(text, "nightly") || strings.Contains(text, e.key("schedules"))
	})
	g.Arm(at, lose, func() {})
	rdb := e.srv.Connect(e.t, redis.Options{URL: g.URL})
	_, stop := on(e.t, e.srv, rdb, e.opts).worker(workflow.WorkerOptions{Lease: time.Second, Drain: -1})
	e.until("the worker is dead", func() bool {
		select {
		case <-g.Fell:
			return true
		default:
			return done() && g.Disarm()
		}
	})
	g.Kill()
	stop()
	where, _, _ := strings.Cut(g.Where(), "\n")
	e.t.Log(where)
}

// deaths runs a test with each of the first commands about schedules as the last one of a worker.
func deaths(t *testing.T, commands int, test func(t *testing.T, at int, lose bool)) {
	for at := 1; at <= commands; at++ {
		for _, lose := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d, lost reply %v", at, lose), func(t *testing.T) {
				t.Parallel()
				test(t, at, lose)
			})
		}
	}
}

// Whenever a worker is killed, an exclusive schedule has one instance: that of the first slot, and the second is skipped, or that of the second if the first was not begun.
func TestScheduleExclusiveKilled(t *testing.T) {
	deaths(t, 9, func(t *testing.T, at int, lose bool) {
		e := newEnv(t)
		first := time.Now().UTC().Truncate(time.Second)
		second := first.Add(2 * time.Second)
		e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) {
			s.Exclusive, s.Rule = true, "rrule DTSTART:"+first.Format("20060102T150405Z")+" FREQ=SECONDLY;INTERVAL=2;COUNT=2"
		})))
		e.missed("nightly")
		e.dies(at, lose, func() bool { return !e.schedule("nightly").Started.IsZero() })
		e.until("the second slot is due", func() bool { return time.Now().After(second) })
		e.worker(workflow.WorkerOptions{})
		e.until("both slots are done with", func() bool {
			s := e.schedule("nightly")
			return s.Last.Equal(second) && s.Starting.IsZero() && s.Next.IsZero()
		})
		s, st := e.schedule("nightly"), e.stats()
		if st.Active != 1 || st.Counters["started"] != 1 {
			t.Errorf("%d are active, %d were started", st.Active, st.Counters["started"])
		}
		if s.Started.Equal(first) != (s.Skipped == 1) || s.Started.Equal(second) != (s.Skipped == 0) || s.LastError != "" || !s.Retry.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// Whenever a worker is killed, each slot that was missed is started once, also if what was started is ended and removed before another worker looks.
func TestScheduleKilled(t *testing.T) {
	deaths(t, 9, func(t *testing.T, at int, lose bool) {
		e := newEnv(t)
		first := time.Now().UTC().Truncate(time.Second).Add(-10 * time.Second)
		e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) {
			s.Missed, s.Rule = schedule.RunAll, rrule(first, 3)
		})))
		e.missed("nightly")
		last := first.Add(2 * time.Second)
		e.dies(at, lose, func() bool { return e.schedule("nightly").Last.Equal(last) })
		for i, err := range e.All(e.ctx(), workflow.Filter{}) {
			e.ok(err)
			e.ok(e.Terminate(e.ctx(), i.Instance, "test"))
			e.ok(e.Remove(e.ctx(), i.Instance))
		}
		e.worker(workflow.WorkerOptions{})
		e.until("all slots are done with", func() bool { return e.schedule("nightly").Last.Equal(last) })
		if n := e.stats().Counters["started"]; n != 3 {
			t.Errorf("3 slots: %d were started", n)
		}
	})
}

// rrule is one with n slots, a second apart, from then on.
func rrule(first time.Time, n int) string {
	return "rrule DTSTART:" + first.Format("20060102T150405Z") + " FREQ=SECONDLY;COUNT=" + strconv.Itoa(n)
}

// Slots that were missed are started however long that takes, and others do not wait until the last of them is.
func TestScheduleOnASlowServer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 50
	first := time.Now().UTC().Truncate(time.Second).Add(-2 * n * time.Second)
	last := first.Add((n - 1) * time.Second)
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Missed, s.Rule = schedule.RunAll, rrule(first, n) })))
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Name, s.Rule = "other", rrule(first, 1) })))
	e.missed("other")
	e.missed("nightly")
	p := testenv.CountingProxy(t, e.srv.URL)
	slow := on(t, e.srv, e.srv.Connect(t, redis.Options{URL: p.URL}), e.opts)
	p.Delay(60 * time.Millisecond) // 50 starts take longer than a call may
	slow.worker(workflow.WorkerOptions{Lease: 10 * time.Second})
	e.until("the other is started", func() bool { return !e.schedule("other").Started.IsZero() })
	if s := e.schedule("nightly"); s.Last.Equal(last) {
		t.Error("the other was started last")
	}
	e.until("all slots are started", func() bool { return e.schedule("nightly").Last.Equal(last) })
	if n := e.stats().Counters["started"]; n != 51 {
		t.Errorf("%d were started", n)
	}
	if s := e.schedule("nightly"); !s.Next.IsZero() || s.LastError != "" {
		t.Errorf("%+v", s)
	}
}

// Slots that are less than a second apart have instances of their own; those on a second have it in their name alone.
func TestScheduleOfManySlotsASecond(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule = "every 200ms" })))
	seconds, whole := map[string]int{}, false
	e.until("two instances of one second, one of them on it", func() bool {
		task := e.task(w)
		second, fraction, _ := strings.Cut(strings.TrimSuffix(task.ID, "Z"), ".")
		seconds[second]++
		whole = whole || fraction == ""
		e.step(task, finished)
		return whole && seconds[second] > 1
	})
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
}

// What passed while no worker ran is made up for as the schedule says, also if it is put again before one runs; with another rule it counts from then on.
func TestScheduleMissed(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		missed schedule.Missed
		first  time.Time
		want   int64
	}{
		"the latest":                   {schedule.RunOnce, now.Add(-30 * time.Minute), 1},
		"all":                          {schedule.RunAll, now.Add(-30 * time.Minute), 20},
		"none":                         {schedule.Skip, now.Add(-30 * time.Minute), 0},
		"none but the latest, in time": {schedule.Skip, now.Add(-25 * time.Second), 1},
	} {
		one := nightly(func(s *workflow.Schedule) { s.Missed, s.Rule = c.missed, rrule(c.first, 20) })
		for _, again := range []string{"", one.Rule, rrule(c.first, 19)} {
			want := c.want
			if again != "" && again != one.Rule {
				want = 0
			}
			t.Run(fmt.Sprintf("%s, put again %q", name, again), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				e.ok(e.PutSchedule(e.ctx(), one))
				if again == "" {
					w, stop := e.worker(workflow.WorkerOptions{})
					e.none(w)
					stop()
				}
				e.missed("nightly")
				if again != "" {
					e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Missed, s.Rule = c.missed, again })))
				}
				e.worker(workflow.WorkerOptions{})
				e.other().worker(workflow.WorkerOptions{})
				e.until("nothing more is due", func() bool {
					score, err := e.do("ZSCORE", e.key("schedules"), "nightly").AsFloat64()
					e.ok(err)
					return score > 2.5e14
				})
				if n := e.stats().Counters["started"]; n != want {
					t.Errorf("%d were started, want %d", n, want)
				}
				last := c.first.Add(19 * time.Second)
				if _, err := e.Info(e.ctx(), workflow.Instance{ID: "nightly-" + last.Format("20060102T150405Z")}); (err == nil) != (want > 0) {
					t.Errorf("of the latest: %v", err)
				}
			})
		}
	}
}

// Schedules and their instances belong to shards of their own each; all are started, listed, steered and removed.
func TestScheduleShards(t *testing.T) {
	t.Parallel()
	const n = 12
	e := newEnv(t, shards(4))
	w, stop := e.worker(workflow.WorkerOptions{})
	e.other().worker(workflow.WorkerOptions{})
	first := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
	for k := range n {
		e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) {
			s.Name, s.Rule, s.Exclusive = fmt.Sprintf("s-%02d", k), rrule(first, 1), k%2 == 0
		})))
	}
	started := map[string]int{}
	for range n {
		task := e.task(w)
		started[task.ID]++
		e.step(task, finished)
	}
	if len(started) != n {
		t.Errorf("started: %v", started)
	}
	e.until("all are done with", func() bool {
		all, err := e.Schedules(e.ctx())
		e.ok(err)
		for k, s := range all {
			if s.Name != fmt.Sprintf("s-%02d", k) {
				t.Fatalf("%d is %s", k, s.Name)
			}
			if !s.Started.Equal(first) || !s.Starting.IsZero() {
				return false
			}
		}
		return len(all) == n
	})
	stop()
	used := 0
	for k := range 4 {
		used += int(min(e.int("ZCARD", shardPrefix(e.opts.Prefix, k)+":workflow:schedules"), 1))
	}
	if used < 2 {
		t.Errorf("schedules are on %d shards", used)
	}
	for k := range n {
		e.ok(e.RemoveSchedule(e.ctx(), fmt.Sprintf("s-%02d", k)))
	}
	if got := e.stats(); got.Active != 0 || got.Counters["started"] != n {
		t.Errorf("%+v", got)
	}
}

// A schedule that is removed, or paused, after a worker has found it to be due and before it has recorded the start, stays so.
func TestScheduleRemovedWhileDue(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{true, false} {
		for _, paused := range []bool{true, false} {
			t.Run(fmt.Sprintf("exclusive %v, paused %v", exclusive, paused), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				first := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
				e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule, s.Exclusive = rrule(first, 3), exclusive })))
				e.missed("nightly")
				p := testenv.CountingProxy(t, e.srv.URL)
				slow := on(t, e.srv, e.srv.Connect(t, redis.Options{URL: p.URL}), e.opts)
				read, again := make(chan struct{}), make(chan struct{})
				reads, looks := 0, 0
				p.Tap(func(fromClient bool, data []byte) {
					switch text := string(data); {
					case !fromClient:
					case strings.Contains(text, "GET") && strings.Contains(text, e.key("schedule:nightly")):
						if reads++; reads == 1 {
							close(read)
						}
					case reads > 0 && strings.Contains(text, e.key("schedules")) && !strings.Contains(text, e.key("schedule:nightly")):
						if looks++; looks == 1 {
							close(again)
						}
					}
				})
				p.Delay(50 * time.Millisecond)
				_, stop := slow.worker(workflow.WorkerOptions{Lease: 10 * time.Second})
				<-read
				if paused {
					e.ok(e.PauseSchedule(e.ctx(), "nightly"))
				} else {
					e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
				}
				p.Delay(0)
				<-again
				stop()
				all, err := e.Schedules(e.ctx())
				e.ok(err)
				switch {
				case !paused && (len(all) != 0 || e.int("EXISTS", e.key("schedules")) != 0):
					t.Errorf("it is there again: %+v", all)
				case paused && (len(all) != 1 || !all[0].Paused || !all[0].Next.IsZero()):
					t.Errorf("it is paused no more: %+v", all)
				}
				if n := e.stats().Counters["started"]; n > 1 || exclusive && n > 0 { // one may have been under way
					t.Errorf("%d were started", n)
				}
			})
		}
	}
}

// What others have recorded while a process was between the clock and the document is not undone by it: each slot that is skipped is counted once.
func TestScheduleBesideASlowProcess(t *testing.T) {
	t.Parallel()
	const every = 100 * time.Millisecond
	one := nightly(func(s *workflow.Schedule) {
		s.Exclusive, s.Missed, s.Rule = true, schedule.RunAll, schedule.Every(every).String()
	})
	for what, begin := range map[string]func(far *env) (wait func(before workflow.Schedule)){
		"worker": func(far *env) func(workflow.Schedule) {
			_, stop := far.worker(workflow.WorkerOptions{Lease: 10 * time.Second})
			return func(before workflow.Schedule) {
				far.until("it has recorded something", func() bool { return !far.schedule("nightly").Last.Equal(before.Last) })
				stop()
			}
		},
		"put again": func(far *env) func(workflow.Schedule) {
			done, ctx := make(chan error, 1), far.ctx()
			go func() { done <- far.PutSchedule(ctx, one) }()
			return func(workflow.Schedule) { far.ok(<-done) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			_, stop := e.worker(workflow.WorkerOptions{})
			e.ok(e.PutSchedule(e.ctx(), one))
			e.until("its instance is started", func() bool { return !e.schedule("nightly").Started.IsZero() })
			stop()
			p := testenv.CountingProxy(t, e.srv.URL)
			far := on(t, e.srv, e.srv.Connect(t, redis.Options{URL: p.URL}), e.opts)
			reads, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			defer release()
			read := sync.OnceFunc(func() { close(reads); <-goOn })
			p.Tap(func(fromClient bool, data []byte) {
				if text := string(data); fromClient && strings.Contains(text, "GET") && strings.Contains(text, e.key("schedule:nightly")) {
					read()
				}
			})
			wait := begin(far)
			<-reads
			_, stop = e.other().worker(workflow.WorkerOptions{})
			skipped := e.schedule("nightly").Skipped
			e.until("slots are skipped", func() bool { return e.schedule("nightly").Skipped >= skipped+3 })
			stop()
			before := e.schedule("nightly")
			release()
			wait(before)
			s := e.schedule("nightly")
			if slots := int64(s.Last.Sub(s.Started) / every); s.Skipped != slots || s.Last.Before(before.Last) {
				t.Errorf("%d slots are skipped of %d; the last was %s, and is %s", s.Skipped, slots, before.Last, s.Last)
			}
		})
	}
}

// A schedule is run now, beside its slots, also while it is paused; an exclusive one only while what it started last is not active.
func TestRunSchedule(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(3))
	w, _ := e.worker(workflow.WorkerOptions{})
	_, err := e.RunSchedule(e.ctx(), "nightly")
	e.is(err, workflow.ErrNotFound)
	e.says(err, "no such schedule: nightly")
	_, err = e.Schedule(e.ctx(), "nightly")
	e.is(err, workflow.ErrNotFound)
	for _, exclusive := range []bool{false, true} {
		e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule, s.Exclusive = "cron 0 0 1 1 *", exclusive })))
		e.ok(e.PauseSchedule(e.ctx(), "nightly"))
		before, err := e.Schedule(e.ctx(), "nightly")
		e.ok(err)
		i, err := e.RunSchedule(e.ctx(), "nightly")
		e.ok(err)
		again, err := e.RunSchedule(e.ctx(), "nightly")
		want := map[workflow.Instance]bool{i: true}
		if exclusive {
			e.is(err, workflow.ErrExists)
			e.says(err, i.ID+", which schedule nightly started last")
		} else {
			e.ok(err)
			want[again] = true
		}
		got := map[workflow.Instance]bool{}
		for range want {
			task := e.task(w)
			got[task.Instance] = true
			e.step(task, finished)
		}
		if !maps.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
		s, err := e.Schedule(e.ctx(), "nightly")
		e.ok(err)
		if !s.Paused || !s.Last.Equal(before.Last) || !s.Next.IsZero() || !s.Starting.IsZero() || !s.Retry.IsZero() || exclusive == s.Started.IsZero() {
			t.Errorf("%+v", s)
		}
		if exclusive {
			_, err := e.RunSchedule(e.ctx(), "nightly")
			e.ok(err)
			e.step(e.task(w), finished)
		}
	}
}

// A slot that was claimed and whose start Redis refuses stays claimed, says why, and is started once Redis accepts it, also if the schedule is paused meanwhile.
func TestScheduleClaimedAndRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule, s.Exclusive = rrule(first, 2), true })))
	slot := first.Add(time.Second)
	run := e.key("run:" + e.schedule("nightly").Instance(slot).ID)
	e.ok(e.do("SET", run, "foreign").Error())
	e.missed("nightly")
	w, _ := e.worker(workflow.WorkerOptions{})
	e.until("the refusal is noted", func() bool { return e.schedule("nightly").LastError != "" })
	if s := e.schedule("nightly"); !s.Starting.Equal(slot) || !s.Last.Equal(slot) || !s.Started.IsZero() || !strings.Contains(s.LastError, "WRONGTYPE") {
		t.Errorf("%+v", s)
	}
	e.ok(e.PauseSchedule(e.ctx(), "nightly"))
	_, err := e.RunSchedule(e.ctx(), "nightly")
	e.is(err, workflow.ErrExists)
	e.ok(e.do("DEL", run).Error())
	task := e.task(w)
	if task.Instance != e.schedule("nightly").Instance(slot) {
		t.Errorf("task of %s", task.ID)
	}
	e.step(task, finished)
	e.until("it is paused and has nothing to start", func() bool {
		s := e.schedule("nightly")
		return s.Paused && s.Starting.IsZero() && s.Started.Equal(slot) && s.LastError == "" && s.Retry.IsZero() && s.Next.IsZero()
	})
}

// A schedule that is paused after it was found to be due, and before it was read, starts nothing.
func TestSchedulePausedWhileDue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule = rrule(time.Now().UTC().Add(-time.Minute), 3) })))
	e.missed("nightly")
	e.ok(e.PauseSchedule(e.ctx(), "nightly"))
	e.ok(e.do("ZADD", e.key("schedules"), "0", "nightly").Error()) // as the worker saw it
	e.worker(workflow.WorkerOptions{})
	e.until("it is put aside", func() bool {
		score, err := e.do("ZSCORE", e.key("schedules"), "nightly").AsFloat64()
		e.ok(err)
		return score > 2.5e14
	})
	if n := e.stats().Counters["started"]; n != 0 {
		t.Errorf("%d were started", n)
	}
	if s := e.schedule("nightly"); !s.Paused || !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
}

// A schedule is shown as it is stored: members have the names that they have elsewhere, and what is not there is left out. What an earlier version has stored can be read.
func TestScheduleAsJSON(t *testing.T) {
	s := nightly()
	s.Start.Attributes, s.Start.Gate = map[string]string{"customer": "ada"}, &workflow.Gate{Key: "g", Max: 2}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{`"last"`, `"next"`, `"instance"`, `"metadata"`, "null"} {
		if strings.Contains(string(text), none) {
			t.Errorf("%s is in %s", none, text)
		}
	}
	earlier := strings.NewReplacer(`"queue"`, `"Queue"`, `"attributes"`, `"Attributes"`, `"gate"`, `"Gate"`, `"event"`, `"Event"`, `"start"`, `"last":"0001-01-01T00:00:00Z","start"`)
	for _, stored := range []string{string(text), earlier.Replace(string(text))} {
		var got workflow.Schedule
		if err := json.Unmarshal([]byte(stored), &got); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %v, read as %+v, want %+v", stored, err, got, s)
		}
	}
}
