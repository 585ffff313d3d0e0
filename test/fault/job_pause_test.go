package fault_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/station"
)

// Fault 3: an instance hangs for longer than its heartbeat lasts, and goes on with what it believes. It sends no command of an attempt that is over; what was on its way to the
// broker may come again, under its id.
func TestFault3HangsAndGoesOn(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		for _, name := range []string{"a", "b"} {
			zombie := w.serves[name]
			hangs := w.strikes("an instance hangs for 15 s")
			zombie.Pause()
			w.lasts(jobTTL + 5*time.Second)
			zombie.Continue()
			w.more()
			hangs.ends(0)
		}
	}, judge: func(w *jobWorld) {
		w.verify()
		newest := map[string]int{}
		for _, e := range w.StationLog() {
			if e.Kind != station.Received {
				continue
			}
			action := e.Correlation + " " + e.Action
			if e.Attempt < newest[action] {
				t.Errorf("%s of %s: attempt %d came after attempt %d", e.Action, e.Order, e.Attempt, newest[action])
			}
			newest[action] = max(newest[action], e.Attempt)
		}
	}}.run(t)
}

// Fault 4: instances are stopped and started in turn. No command of the MES waits, each stop is within its time, and no command is sent twice.
func TestFault4StoppedInTurn(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		for range 2 {
			for _, name := range []string{"a", "b"} {
				stopped := w.strikes("an instance is stopped")
				w.serves[name].Signal(syscall.SIGTERM)
				if code := w.serves[name].Exit(); code != 0 {
					t.Errorf("exit status %d", code)
				}
				w.serve(name)
				stopped.ends(2 * time.Second)
				w.more()
			}
		}
	}, judge: func(w *jobWorld) {
		w.verify()
		w.answered(2 * time.Second)
	}}.run(t)
}
