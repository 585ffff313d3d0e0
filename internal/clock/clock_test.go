package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	begin  = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC) // of the own clock
	server = begin.Add(42 * time.Minute)
)

func own(d time.Duration) time.Time { return begin.Add(d) }

// Half of the round trip lies before the server's answer.
func TestHalfTheRoundTrip(t *testing.T) {
	var w Wall
	if got := w.Now(own(time.Second)); !got.Equal(own(time.Second)) {
		t.Errorf("before anything was learned: %v", got)
	}
	w.Learn(server, own(0), own(2*time.Second))
	if got := w.Now(own(2 * time.Second)); !got.Equal(server.Add(time.Second)) {
		t.Errorf("%v after the answer it is %v", time.Second, got.Sub(server))
	}
	var c Installation
	c.Learn(server, time.Time{}, own(0), own(2*time.Second))
	if got := c.Now(own(2 * time.Second)); !got.Equal(server.Add(time.Second)) {
		t.Errorf("installation time is %v", got.Sub(server))
	}
}

// A step of the server's clock forward is followed at once, one back by going slower; in no case does Now step back.
func TestWallFollowsSteps(t *testing.T) {
	for name, step := range map[string]struct{ by, after1s, after1h time.Duration }{
		"forward":    {time.Hour, time.Hour + time.Second, 2 * time.Hour},
		"a bit back": {-time.Minute, time.Second / 2, time.Hour - time.Minute},
		"far back":   {-10 * time.Hour, time.Second / 2, time.Hour / 2},
	} {
		var w Wall
		w.Learn(server, own(0), own(0))
		for _, at := range []time.Duration{time.Second, time.Hour} {
			for d := time.Second; d <= at; d += time.Second {
				w.Learn(server.Add(step.by+d), own(d), own(d))
				_ = w.Now(own(d))
			}
			want := step.after1s
			if at == time.Hour {
				want = step.after1h
			}
			if got := w.Now(own(at)).Sub(server); got != want {
				t.Errorf("%s: %v after the step it is %v, want %v", name, at, got, want)
			}
			w = Wall{}
			w.Learn(server, own(0), own(0))
		}
	}
}

// Property: whatever the server says and however long replies take, neither time ever steps back; installation time runs on by
// Lead at most without a reply.
func TestNothingStepsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Wall
		var c Installation
		now, lastWall, lastInstallation, learned := time.Duration(0), time.Time{}, time.Time{}, time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "passes"))
			if rapid.Bool().Draw(t, "learn") {
				trip := time.Duration(rapid.Int64Range(0, int64(6*time.Second)).Draw(t, "trip"))
				said := server.Add(time.Duration(rapid.Int64Range(-int64(2*time.Hour), int64(2*time.Hour)).Draw(t, "server")))
				sent := own(now)
				now += trip
				w.Learn(said, sent, own(now))
				at := said
				if back := lastInstallation.Sub(said); back > replaced {
					lastInstallation = time.Time{} // another store
				}
				c.Learn(at, at, sent, own(now))
				learned = at
			}
			if got := w.Now(own(now)); got.Before(lastWall) {
				t.Fatalf("the wall clock steps back by %v", lastWall.Sub(got))
			} else {
				lastWall = got
			}
			got := c.Now(own(now))
			if got.Before(lastInstallation) {
				t.Fatalf("installation time steps back by %v", lastInstallation.Sub(got))
			}
			if got.After(lastInstallation) && got.After(learned.Add(Lead)) {
				t.Fatalf("installation time runs %v ahead of what was learned", got.Sub(learned))
			}
			lastInstallation = got
		}
	})
}
