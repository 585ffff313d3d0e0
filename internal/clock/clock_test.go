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

// A reply bounds the server's time by its round trip: within these bounds nothing changes, outside it is the nearer one. Each
// case begins with what was known, a second before the reply came.
func TestRoundTripBounds(t *testing.T) {
	const came = 10 * time.Second
	for name, c := range map[string]struct{ known, said, trip, want time.Duration }{
		"a quick reply that agrees":            {came, came, 0, came},
		"ahead of what was known":              {came, came + time.Minute, 0, came + time.Minute},
		"a bit behind":                         {came, came - time.Second/4, 0, came - time.Second/4},
		"far behind: half speed":               {came, came - time.Hour, 0, came - time.Second/2},
		"a hung server, made when it woke up":  {came, came, 9 * time.Second, came},
		"a hung link, made before the reply":   {came, came - 9*time.Second, 9 * time.Second, came},
		"made at any time in between":          {came, came - 4*time.Second, 9 * time.Second, came},
		"a hung server, what was known is low": {came - time.Second/4, came, 9 * time.Second, came},
		"slow, and what was known is high":     {came + time.Second, came - time.Second, 1750 * time.Millisecond, came + 750*time.Millisecond},
	} {
		var w Wall
		w.Learn(server.Add(c.known-time.Second), own(came-time.Second), own(came-time.Second))
		w.Learn(server.Add(c.said), own(came-c.trip), own(came))
		if got := w.Now(own(came)).Sub(server); got != c.want {
			t.Errorf("%s: it is %v, want %v", name, got, c.want)
		}
	}
}

// The first reply counts as made when it came, however long it took. Installation time does so with each: it never runs ahead.
func TestFirstReplyIsNotAhead(t *testing.T) {
	var w Wall
	if got := w.Now(own(time.Second)); !got.Equal(own(time.Second)) {
		t.Errorf("before anything was learned: %v", got)
	}
	w = Wall{}
	w.Learn(server, own(0), own(9*time.Second))
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
	w.Learn(server.Add(2*time.Second), own(2*time.Second), own(2*time.Second))
	w.Learn(server.Add(time.Second), own(time.Second), own(time.Second))
	if got := w.Now(own(3 * time.Second)).Sub(server); got != 3*time.Second {
		t.Errorf("it is %v, want 3s", got)
	}
}

// Property: while the server's clock does not step, the wall clock is never ahead of it, however long requests and replies
// are on their way, and behind by no more than the shortest way of a reply that was heard.
func TestWallIsNeverAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Wall
		now, shortest := time.Duration(0), time.Hour
		way := rapid.Int64Range(0, int64(20*time.Second))
		for range rapid.IntRange(1, 60).Draw(t, "replies") {
			now += time.Duration(way.Draw(t, "passes"))
			there, back := time.Duration(way.Draw(t, "request")), time.Duration(way.Draw(t, "reply"))
			sent, made := now, now+there
			now = made + back
			w.Learn(server.Add(made), own(sent), own(now))
			shortest = min(shortest, back)
			if behind := server.Add(now).Sub(w.Now(own(now))); behind < 0 || behind > shortest {
				t.Fatalf("behind by %v, want 0 to %v", behind, shortest)
			}
		}
	})
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
