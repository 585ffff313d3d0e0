package fault_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// timed is a plan whose only point is a timer.
func timed(d time.Duration) flowPlan { return flowPlan{Timer: d} }

// onTime checks that timers of an instance name, all of d, fired neither before their time nor long after it, by the clock of the worker that set them.
func (w *flowWorld) onTime(name string, n int, d, most time.Duration) {
	w.t.Helper()
	for i := range n {
		h, err := w.flows.History(w.ctx(), workflow.Instance{ID: numbered(name, i), Execution: "x"}, 0)
		testenv.Must(w.t, err)
		var set, fired time.Time
		for _, e := range h {
			switch e.Type {
			case "TimerScheduled":
				set = e.Time
			case flowEnd:
				fired = e.Time
			}
		}
		if took := fired.Sub(set); took < d-50*time.Millisecond || took > most {
			w.t.Errorf("%s: a timer of %v took %v", numbered(name, i), d, took)
		}
	}
}

// endedByRedis checks that executions are noted as ended at a time of Redis' clock.
func (w *flowWorld) endedByRedis() {
	w.t.Helper()
	now, err := redis.ServerTime(w.ctx(), w.srv.Client)
	testenv.Must(w.t, err)
	ended, err := w.srv.Client.Do(w.ctx(), w.srv.Client.B().Zrange().Key(w.prefix+":workflow:ended").Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil || len(ended) == 0 {
		w.t.Fatalf("%d have ended: %v", len(ended), err)
	}
	for _, z := range ended {
		if ago := now.Sub(time.UnixMilli(int64(z.Score))); ago < 0 || ago > 10*time.Minute {
			w.t.Fatalf("%s ended %v ago by the clock of Redis", z.Member, ago)
		}
	}
}

// Fault 12: the clocks of all workers differ from that of Redis by an hour. Timers take as long as was asked for, and no lease is lost.
func TestWorkflowFault12WorkersAnHourWrong(t *testing.T) {
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			wrongClock(t).set(offset)
			w := newFlowWorld(t, embedded.RedisOptions{})
			w.differsBy(offset)
			workers, starter := w.load(flowConfig{Lease: calm}, scaled(15, 1000))
			w.begin("timed", 5, timed(700*time.Millisecond))
			w.ended(starter)
			if v := w.verify(); v.repeats != 0 {
				t.Errorf("%d repetitions", v.repeats)
			}
			w.onTime("timed", 5, 700*time.Millisecond, time.Minute)
			w.endedByRedis()
			stillUp(t, workers...)
		})
	}
}

// Fault 12: the clock of Redis is set back by an hour, twice, with timers set and instances under way. Nothing is lost, entries go on in their order, and no timer is early or waits for an hour.
func TestWorkflowFault12RedisClockSetBack(t *testing.T) {
	c := wrongClock(t)
	w := newFlowWorld(t, embedded.RedisOptions{})
	n := scaled(40, 2000)
	workers, starter := w.load(flowConfig{}, n)
	for i, offset := range []time.Duration{-time.Hour, -2 * time.Hour} {
		name := []string{"first", "second"}[i]
		w.begin(name, 5, timed(1500*time.Millisecond))
		w.wait("the timers are set", func() bool {
			h, err := w.flows.History(w.ctx(), workflow.Instance{ID: numbered(name, 4), Execution: "x"}, 0)
			return err == nil && len(h) > 0
		})
		c.set(offset)
	}
	w.begin("after", 5, timed(300*time.Millisecond))
	w.ended(starter)
	w.verify()
	for _, name := range []string{"first", "second"} {
		w.onTime(name, 5, 1500*time.Millisecond, time.Minute)
	}
	w.onTime("after", 5, 300*time.Millisecond, time.Minute)
	stillUp(t, workers...)
}

// Fault 12: the clock of Redis is set forth by an hour, back again, and back by an hour more. A schedule goes on within seconds each time, by the clock as it is then, and no slot has two instances.
func TestWorkflowFault12SchedulesAndRedisClock(t *testing.T) {
	c := wrongClock(t)
	w := newFlowWorld(t, embedded.RedisOptions{})
	worker, err := w.flows.NewWorker(workflow.WorkerOptions{})
	testenv.Must(t, err)
	stop := testenv.Run(t, worker.Run)
	for _, name := range []string{"often", "alone"} {
		s := workflow.Schedule{Name: name, Rule: "every 1s", Exclusive: name == "alone", Start: workflow.Start{Queue: "nobody", Name: "flow", Event: workflow.Event{Type: "Started"}}}
		testenv.Must(t, w.flows.PutSchedule(w.ctx(), s))
	}
	schedules := func() (alone, often workflow.Schedule) {
		all, err := w.flows.Schedules(w.ctx())
		if err != nil || len(all) != 2 {
			t.Fatal(all, err)
		}
		return all[0], all[1]
	}
	for _, offset := range []time.Duration{0, time.Hour, 0, -time.Hour, 0} {
		c.set(offset)
		now := time.Now().Add(offset)
		_, before := schedules()
		w.wait("two slots of "+offset.String(), func() bool {
			alone, often := schedules()
			near := often.Started.Sub(now) > time.Second && often.Started.Sub(now) < time.Minute
			return near && !often.Started.Equal(before.Started) && alone.Last.Sub(now).Abs() < time.Minute
		})
	}
	stop()
	alone, _ := schedules()
	slots, one := map[string]int{}, 0
	for i, err := range w.flows.All(w.ctx(), workflow.Filter{}) {
		testenv.Must(t, err)
		slots[i.ID]++
		if i.Created.Equal(alone.Started) && i.ID[:5] == "alone" {
			one++
		}
	}
	st, err := w.flows.Stats(w.ctx())
	testenv.Must(t, err)
	if st.Counters["started"] != int64(len(slots)) || st.Active != int64(len(slots)) || one != 1 {
		t.Errorf("%d were started and %d are active, of %d slots: %v", st.Counters["started"], st.Active, len(slots), slots)
	}
	for id := range slots {
		if id[:5] == "alone" && id != "alone-"+alone.Started.Format("20060102T150405Z") {
			t.Errorf("%s beside the exclusive one of %v", id, alone.Started)
		}
	}
}
