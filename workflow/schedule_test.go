package workflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
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
	long.Test(t, "waits until a schedule is tried again")
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
	e.finishAll(w)
}

// finishAll ends what is active.
func (e *env) finishAll(w *workflow.Worker) {
	e.t.Helper()
	for e.stats().Active > 0 {
		e.step(e.task(w), finished)
	}
}

// What is no schedule, or one of a rule that nobody knows, is listed with what is wrong, holds up no other, and can be removed.
func TestScheduleUnreadable(t *testing.T) {
	long.Test(t, "waits until a schedule is tried again")
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
	e.finishAll(w)
}

// A rule whose time zone a worker does not know is left to others, as it is; only when none has taken it for a while, the worker notes why.
func TestScheduleOfAnUnknownZone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.ok(e.PutSchedule(e.ctx(), nightly()))
	due := func(at time.Time) (stored string) {
		s := e.schedule("nightly")
		s.Rule, s.Next = "cron TZ=Mars/Olympus 0 2 * * *", at
		text, err := json.Marshal(s)
		e.ok(err)
		e.ok(e.do("SET", e.key("schedule:nightly"), string(text)).Error())
		e.ok(e.do("ZADD", e.key("schedules"), "0", "nightly").Error())
		return string(text)
	}
	before := due(time.Now().Add(time.Hour)) // however long this test takes
	wait, err := workflow.StartDue(e.ctx(), e.Client)
	e.ok(err)
	if after, err := e.do("GET", e.key("schedule:nightly")).ToString(); err != nil || after != before || wait <= 0 {
		t.Errorf("%s\nwas %s\n%v, waits %v", after, before, err, wait)
	}
	due(time.Now().Add(-time.Hour))
	_, err = workflow.StartDue(e.ctx(), e.Client)
	e.ok(err)
	if s := e.schedule("nightly"); !strings.Contains(s.LastError, "Mars/Olympus") || s.Retry.IsZero() || !s.Last.IsZero() {
		t.Errorf("%+v", s)
	}
	e.ok(e.RemoveSchedule(e.ctx(), "nightly"))
}

// What passed while no worker ran is made up for as the schedule says, also if it is put again before one runs; with another rule it counts from then on.
func TestScheduleMissed(t *testing.T) {
	t.Parallel()
	const slots = 20
	type rule func(first time.Time) string
	same := func(first time.Time) string { return rrule(first, slots) }
	other := func(first time.Time) string { return rrule(first, slots-1) }
	for name, c := range map[string]struct {
		missed schedule.Missed
		first  time.Duration // ago
		want   int64
	}{
		"the latest":                   {schedule.RunOnce, 30 * time.Minute, 1},
		"all":                          {schedule.RunAll, 30 * time.Minute, slots},
		"none":                         {schedule.Skip, 30 * time.Minute, 0},
		"none but the latest, in time": {schedule.Skip, slots * time.Second, 1},
	} {
		for how, again := range map[string]rule{"": nil, ", put again": same, ", put again with another rule": other} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				first := time.Now().UTC().Truncate(time.Second).Add(-c.first) // now: what runs in parallel waits for its turn, and schedule.Grace is a minute
				put := func(r rule) {
					e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Missed, s.Rule = c.missed, r(first) })))
				}
				put(same)
				if again == nil {
					w, stop := e.worker(workflow.WorkerOptions{})
					e.none(w)
					stop()
				}
				e.missed("nightly")
				want := c.want
				if again != nil {
					put(again)
					if again(first) != same(first) {
						want = 0
					}
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
				last := first.Add((slots - 1) * time.Second)
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

// A schedule is shown as it is stored: members have the names that they have elsewhere, and what is not there is left out.
func TestScheduleAsJSON(t *testing.T) {
	s := nightly()
	s.Start.Attributes, s.Start.Gate = map[string]string{"customer": "ada"}, &workflow.Gate{Key: "g", Max: 2}
	text, err := json.Marshal(s)
	testenv.Must(t, err)
	for _, none := range []string{`"last"`, `"next"`, `"instance"`, `"metadata"`, "null"} {
		if strings.Contains(string(text), none) {
			t.Errorf("%s is in %s", none, text)
		}
	}
	var got workflow.Schedule
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%s: %v, read as %+v, want %+v", text, err, got, s)
	}
}
