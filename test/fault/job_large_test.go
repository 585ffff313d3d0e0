package fault_test

import (
	"slices"
	"testing"
	"time"
)

// Fault 30: all orders are under way, and while Redis answers nothing the machine answers all of them, with results of 128 KiB, over links of 100 Mbit/s. Orders end one after the
// other, no heartbeat is lost, and the memory of the instances is bounded.
func TestFault30LargeResults(t *testing.T) {
	t.Parallel()
	const link, most = 100_000_000 / 8, 400 << 20 // bytes per second; of memory
	orders := scaled(100, 500)
	jobFault{commands: true, bulk: 128 << 10, orders: orders, underWay: orders, takes: "3s..5s", flags: []string{"--http", "127.0.0.1:0"}, do: func(w *jobWorld) {
		w.redis.Throttle(link)
		w.broker.Throttle(link)
		due := w.strikes("all answers are due at once")
		w.redis.Stall(true)
		w.lasts(5 * time.Second) // and a third of a heartbeat before: some are due, and none is over, though a busy machine adds a second
		held := w.gauge(w.serves["a"])
		w.redis.Stall(false)
		due.ends(jobTTL) // a command takes half of that
		w.mes.UntilDone(orders)
		came := []time.Time{due.over}
		for _, e := range w.StationLog() {
			if e.Time.After(due.over) {
				came = append(came, e.Time)
			}
		}
		slices.SortFunc(came, time.Time.Compare)
		var silence time.Duration
		for i, at := range came[1:] {
			silence = max(silence, at.Sub(came[i]))
		}
		t.Logf("the machine was busy again after %v at most, the aim is 5 s; an instance had %v with all answers on their way, and has %v", silence.Round(10*time.Millisecond), held, w.gauge(w.serves["a"]))
		if silence > 5*time.Second+busy {
			t.Errorf("I6: nothing went on for %v, want 5 s, and on a busy machine at most %v more", silence, busy)
		}
		for name := range w.serves {
			if g := max(held.memory, w.gauge(w.serves[name]).memory); g > most {
				t.Errorf("I7: %s had %d MB, want at most %d", name, g>>20, most>>20)
			}
		}
		t.Logf("%d leases were lost", w.said("lease lost")) // Redis is silent for 5 s, and a busy machine adds to it
		if heartbeats := w.said("heartbeat was lost"); heartbeats > 0 {
			t.Errorf("%d heartbeats were lost", heartbeats)
		}
	}}.run(t)
}
