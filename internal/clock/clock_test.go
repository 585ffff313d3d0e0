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

// The first reply counts as made when it came, however long it took. Installation time does so with each: it never runs ahead.
func TestFirstReplyIsNotAhead(t *testing.T) {
	var w Wall
	if got := w.Now(own(time.Second)); !got.Equal(own(time.Second)) {
		t.Errorf("before anything was learned: %v", got)
	}
	w = Wall{}
	w.Learn(server, own(9*time.Second))
	if got := w.Now(own(10 * time.Second)); !got.Equal(server.Add(time.Second)) {
		t.Errorf("%v after the answer it is %v", time.Second, got.Sub(server))
	}
	var c Installation
	for sent := time.Duration(0); sent < time.Minute; sent += 10 * time.Second {
		c.Learn(server.Add(sent), time.Time{}, own(sent+9*time.Second))
		if got := c.Now(own(sent + 10*time.Second)); !got.Equal(server.Add(sent + time.Second)) {
			t.Errorf("%v after the answer installation time is %v", time.Second, got.Sub(server))
		}
	}
}

// Replies that are learned in another order than they came change nothing.
func TestLearnedInAnotherOrder(t *testing.T) {
	var w Wall
	w.Learn(server.Add(2*time.Second), own(2*time.Second))
	w.Learn(server.Add(time.Second), own(time.Second))
	if got := w.Now(own(3 * time.Second)).Sub(server); got != 3*time.Second {
		t.Errorf("it is %v, want 3s", got)
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
				now += trip
				w.Learn(said, own(now))
				at := said
				if back := lastInstallation.Sub(said); back > replaced {
					lastInstallation = time.Time{} // another store
				}
				c.Learn(at, at, own(now))
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
