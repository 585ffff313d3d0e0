package recipe

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tickAfter lets time pass to a moment after the start, with what is known of the intake, and ticks once there. The broker has all commands at once.
func (r *run) tickAfter(d time.Duration, in Intake) *run {
	r.tickUnsent(d, in)
	for _, c := range r.out.Commands {
		r.brokerHas(c)
	}
	return r
}

// tickUnsent is tickAfter with a broker that takes nothing.
func (r *run) tickUnsent(d time.Duration, in Intake) *run {
	r.now = epoch.Add(d)
	docs := r.docs()
	docs.Intake = in
	return r.take(r.p.Tick(r.o, docs, r.now))
}

func (r *run) brokerHas(c Command) {
	if c.LastCall > 0 {
		r.store(r.x().LastCalled(c, r.now))
	}
}

func resumed(after time.Duration) Intake { return Intake{Resumed: epoch.Add(after)} }

func unseen() Intake { return Intake{Sent: func(string) bool { return false }} }

// Before an action is aborted whose answer may be on its way, its command goes out once more under its id, and there is one round of redelivery
// (a third of the time-out, at most 5 s) to answer it.
func TestLastCall(t *testing.T) {
	for name, c := range map[string]struct {
		time   int // time-out, seconds
		in     Intake
		called bool
		round  time.Duration
	}{
		"answers could always come, and the caller sent it":       {12, Intake{}, false, 0},
		"there was a break before the command was sent":           {12, resumed(-time.Second), false, 0},
		"there was a break after it":                              {12, resumed(3 * time.Second), true, 4 * time.Second},
		"there was a break as it was sent":                        {12, resumed(0), true, 4 * time.Second},
		"a long time-out":                                         {60, resumed(59 * time.Second), true, 5 * time.Second},
		"another process sent it":                                 {12, unseen(), true, 4 * time.Second},
		"the caller sent it":                                      {12, Intake{Sent: func(string) bool { return true }}, false, 0},
		"another process sent it, and there was a break after it": {3, Intake{Resumed: epoch.Add(time.Second), Sent: unseen().Sent}, true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			over := time.Duration(c.time) * time.Second
			r := begin(t, fmt.Sprintf("step A*\ndo a @ A time %d", c.time), nil)
			id := r.last("a").ID
			r.tickAfter(over, c.in)
			if !c.called {
				r.want("Failed A [A]").wantError("action a timed out")
				return
			}
			r.want("Running A [A]").wantDue(c.round)
			if again := r.last("a"); again.ID != id || !again.Again || again.LastCall != c.round {
				t.Errorf("the last call is %+v", again)
			}
			answered := begin(t, fmt.Sprintf("step A*\ndo a @ A time %d", c.time), nil)
			answered.tickAfter(over, c.in).answerTo(answered.last("a").ID, "{}").want("Completed A []")
			// Silence after the last call is a time-out: one round late, no more.
			r.tickAfter(over+c.round, c.in).want("Failed A [A]").wantError("action a timed out")
		})
	}
}

// The round of a last call begins when the broker has it, however long it waits behind other commands or faults, but for a minute at most.
func TestLastCallWaitsForTheBroker(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A time 12", nil)
	r.tickUnsent(12*time.Second, unseen()).want("Running A [A]").wantDue(time.Minute)
	r.tickUnsent(50*time.Second, unseen()).want("Running A [A]")
	r.brokerHas(r.last("a"))
	r.wantDue(4 * time.Second)
	r.tickUnsent(54*time.Second, unseen()).want("Failed A [A]").wantError("action a timed out")

	never := begin(t, "step A*\ndo a @ A time 12", nil)
	never.tickUnsent(12*time.Second, unseen()).tickUnsent(72*time.Second, unseen()).want("Failed A [A]").wantError("action a timed out")
}

// A pause in a last call changes nothing: it is sent again, and has its round from then on.
func TestLastCallAfterAPause(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A time 12", nil)
	r.tickUnsent(12*time.Second, unseen())
	r.store(r.x().Pause(r.now))
	r.now = r.now.Add(time.Hour)
	r.store(r.x().Resume(r.now))
	r.tickAfter(12*time.Second+time.Hour, unseen()).want("Running A [A]").wantDue(4 * time.Second)
	if n := len(r.sent); n != 3 || r.last("a").LastCall != 4*time.Second {
		t.Errorf("%d commands, the last %+v", n, r.last("a"))
	}
	r.tickAfter(16*time.Second+time.Hour, unseen()).want("Failed A [A]")
}

// An event that could not come during a break has one round from its end.
func TestLastCallForAnEvent(t *testing.T) {
	const recipe = "step A*\non a @ A time 12"
	begin(t, recipe, nil).tickAfter(12*time.Second, Intake{}).want("Failed A [A]")
	begin(t, recipe, nil).tickAfter(12*time.Second, unseen()).want("Failed A [A]") // no command or answer was sent
	r := begin(t, recipe, nil).tickAfter(12*time.Second, resumed(11*time.Second)).want("Running A [A]").wantDue(3 * time.Second)
	r.tickAfter(15*time.Second, resumed(11*time.Second)).want("Failed A [A]")
	begin(t, recipe, nil).tickAfter(12*time.Second, resumed(5*time.Second)).want("Failed A [A]") // the round is over
}

// Each attempt has a last call of its own, and a second break another one.
func TestLastCallOfEachAttempt(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A time 12 attempts 2", nil)
	r.tickAfter(12*time.Second, unseen()).want("Running A [A]")
	r.tickAfter(16*time.Second, unseen()).want("Running A [A]")
	if a := r.x().Action("a"); a.Attempt != 2 || a.LastCall || a.SentAt != 0 {
		t.Fatalf("the second attempt is %+v", a)
	}
	r.tickAfter(28*time.Second, unseen()).want("Running A [A]").wantDue(4 * time.Second)
	r.tickAfter(32*time.Second, Intake{Resumed: epoch.Add(30 * time.Second), Sent: unseen().Sent}).want("Running A [A]").wantDue(4 * time.Second)
	r.tickAfter(36*time.Second, Intake{Resumed: epoch.Add(30 * time.Second), Sent: unseen().Sent}).want("Failed A [A]")
}

// Property: whatever breaks there were, a silent action is given up at most one round after the later of its deadline and the end of the last
// break, and never within a round of the end of a break that it was sent before.
func TestLastCallIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seconds := rapid.IntRange(1, 40).Draw(rt, "time-out")
		over := time.Duration(seconds) * time.Second
		round := min(over/3, 5*time.Second)
		sent := rapid.Bool().Draw(rt, "sent by the caller")
		r := begin(t, fmt.Sprintf("step A*\ndo a @ A time %d", seconds), nil)
		in := Intake{Sent: func(string) bool { return sent }}
		lastBreak := time.Duration(-1)
		for range 200 {
			due := r.x().Due()
			if due.IsZero() {
				break
			}
			at := due.Sub(epoch)
			if rapid.IntRange(0, 5).Draw(rt, "break") == 0 && at < 3*over {
				lastBreak = at - time.Duration(rapid.Int64Range(0, int64(round)).Draw(rt, "before"))
				in.Resumed = epoch.Add(max(lastBreak, time.Millisecond))
			}
			r.tickAfter(at, in)
		}
		gone := r.now.Sub(epoch)
		if late := gone - max(over, lastBreak); late > 2*round {
			rt.Fatalf("given up %v late", late)
		}
		if gone < over || !r.x().Failed {
			rt.Fatalf("after %v of %v: failed %v", gone, over, r.x().Failed)
		}
	})
}
