package fault_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// Fault 12: the clock of Redis is set forth by an hour, back again, and back by an hour more. A schedule goes on within seconds each time, by the clock as it is then, and no slot has two instances.
func TestWorkflowFault12SchedulesAndRedisClock(t *testing.T) {
	c := wrongClock(t)
	w := newFlowWorld(t, embedded.RedisOptions{})
	worker, err := w.flows.NewWorker(workflow.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop := testenv.Run(t, worker.Run)
	for _, name := range []string{"often", "alone"} {
		s := workflow.Schedule{Name: name, Rule: "every 1s", Exclusive: name == "alone", Start: workflow.Start{Queue: "nobody", Name: "flow", Event: workflow.Event{Type: "Started"}}}
		if err := w.flows.PutSchedule(w.ctx(), s); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		slots[i.ID]++
		if i.Created.Equal(alone.Started) && i.ID[:5] == "alone" {
			one++
		}
	}
	st, err := w.flows.Stats(w.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if st.Counters["started"] != int64(len(slots)) || st.Active != int64(len(slots)) || one != 1 {
		t.Errorf("%d were started and %d are active, of %d slots: %v", st.Counters["started"], st.Active, len(slots), slots)
	}
	for id := range slots {
		if id[:5] == "alone" && id != "alone-"+alone.Started.Format("20060102T150405Z") {
			t.Errorf("%s beside the exclusive one of %v", id, alone.Started)
		}
	}
}
