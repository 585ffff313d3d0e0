package jobhistory_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/recipe"
)

// A bar of a run is as long as the run took, in wall-clock time, and has the color of its end.
func TestRunBar(t *testing.T) {
	began := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	at := func(second int64) int64 { return 1000 * second } // installation time, which is not the wall clock
	for _, c := range []struct {
		x     recipe.Execution
		state string
		took  time.Duration
		end   bool
	}{
		{recipe.Execution{StartedAt: at(5)}, "active", 60 * time.Second, false},
		{recipe.Execution{StartedAt: at(5), Paused: true}, "paused", 60 * time.Second, false},
		{recipe.Execution{StartedAt: at(5), EndedAt: at(25), Completed: true}, "done", 20 * time.Second, true},
		{recipe.Execution{StartedAt: at(5), EndedAt: at(25), Failed: true}, "failed", 20 * time.Second, true},
	} {
		c.x.BegunAt = began.UnixMilli()
		start, end, bar := jobhistory.RunBar(&c.x, began.Add(time.Minute))
		if bar.State != c.state || bar.To != c.took || !start.Equal(began) || end.IsZero() == c.end || c.end && !end.Equal(began.Add(c.took)) {
			t.Errorf("%+v: %v, %v, %+v", c.x, start, end, bar)
		}
	}
}
