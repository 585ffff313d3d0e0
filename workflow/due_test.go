package workflow_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
)

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

// An exclusive schedule waits until the instance that it started has ended, with the last of its executions, also if it continued as new and the first is removed.
func TestScheduleExclusive(t *testing.T) {
	for _, c := range []struct{ continues, removed bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("continues %v, removed %v", c.continues, c.removed), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{})
			e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Exclusive = true })))
			task := e.task(w)
			last := task
			if c.continues {
				_, goesOn := continued(task)
				e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = c.removed })
				last = e.task(w)
			}
			before := e.schedule("nightly").Skipped
			e.until("skipped slots", func() bool { return e.schedule("nightly").Skipped >= before+2 })
			if n := e.stats().Active; n != 1 {
				t.Errorf("%d are active", n)
			}
			e.step(last, finished)
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
	_, stop := on(e.t, e.srv, rdb, e.opts).worker(workflow.WorkerOptions{Drain: -1})
	e.until("the worker is dead", func() bool {
		select {
		case <-g.Fell:
			return true
		default:
			return done() && g.Disarm()
		}
	})
	g.Refuse(true)
	g.Cut()
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
	long.Test(t, "waits for slots of a schedule")
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
	long.Test(t, "delays each answer of Redis")
	t.Parallel()
	e := newEnv(t)
	const n = 50
	first := time.Now().UTC().Truncate(time.Second).Add(-2 * n * time.Second)
	last := first.Add((n - 1) * time.Second)
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Missed, s.Rule = schedule.RunAll, rrule(first, n) })))
	e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Name, s.Rule = "other", rrule(first, 1) })))
	e.missed("other")
	e.missed("nightly")
	slow, p := e.far()
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
	long.Test(t, "waits for slots of a schedule")
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

// A schedule that is removed, or paused, after a worker has found it to be due and before it has recorded the start, stays so.
func TestScheduleRemovedWhileDue(t *testing.T) {
	long.Test(t, "delays each answer of Redis")
	t.Parallel()
	for _, exclusive := range []bool{true, false} {
		for _, paused := range []bool{true, false} {
			t.Run(fmt.Sprintf("exclusive %v, paused %v", exclusive, paused), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				first := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
				e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Rule, s.Exclusive = rrule(first, 3), exclusive })))
				e.missed("nightly")
				slow, p := e.far()
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
	long.Test(t, "waits for slots of a schedule")
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
			far, p := e.far()
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
