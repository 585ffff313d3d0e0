package sfc

import (
	"fmt"
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// An Abort or Stop reaches the recipe: nothing is sent any more, late answers and events change nothing, and there is one
// response, with the right state.
func TestEndByCommand(t *testing.T) {
	t.Parallel()
	for m, want := range map[isa95.Method]string{isa95.Abort: "Aborted", isa95.Stop: "Ended_Completed"} {
		t.Run(string(m), func(t *testing.T) {
			s := newSteps(t)
			drill := s.running("JO") // its command is in the outbox, unsent
			s.call("JO", m, nil)
			s.must(s.a.Answer(t.Context(), answerTo(drill, `{"depth":1}`)))
			s.must(s.a.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":1}`)))
			s.a.stop()
			c := s.start("c", setup{}) // sends what is to be sent
			s.settled()
			if n := s.cell.published("JO", "drill"); n != 0 {
				t.Errorf("the drill was commanded %d times after %s", n, m)
			}
			if n := c.counts.of(OpDispatch, Dropped); n != 1 {
				t.Errorf("dropped %d commands", n)
			}
			snap := s.load("JO")
			state, err := isa95.ParseState(snap.Response.JobState)
			if got := snap.Job.State.String(); got != want || state.String() != want || err != nil {
				t.Errorf("order %s, response %s, %v", got, state, err)
			}
			if got := fmt.Sprint(s.history("JO")); got != fmt.Sprintf("[StoreAndStart Run %s ResultUpdate]", m) {
				t.Errorf("history %s", got)
			}
		})
	}
}

// While the order is Interrupted answers are recorded, nothing is sent and no step is left; Resume goes on from there.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	s.call("JO", isa95.Pause, nil)
	s.must(s.b.Answer(t.Context(), answerTo(drill, `{"depth":12.50}`)))
	s.must(s.b.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":8.001}`)))
	x := s.load("JO").Execution
	if x.Action("drill").State != recipe.ActionCompleted || x.Action("probe").State != recipe.ActionCompleted {
		t.Errorf("not recorded: %+v", x.Actions)
	}
	if x.Action("release").State != recipe.ActionPending || x.CurrentStep != "Both" {
		t.Errorf("a step was left while Interrupted: at %s, %+v", x.CurrentStep, x.Action("release"))
	}
	if n := s.redis.Number(t, "ZCARD", keys.New(s.prefix).SfcTimers()); n != 0 {
		t.Errorf("%d timers run while Interrupted", n)
	}
	s.must(s.a.sweep(t.Context())) // a sweep leaves it alone
	s.call("JO", isa95.Resume, nil)
	s.a.stop()
	s.b.stop()
	bracketCell(s.cell)
	s.start("c", setup{})
	s.await("JO", "End", "ResultUpdate")
	s.settled()
	if n := s.cell.published("JO", "drill"); n != 0 {
		t.Errorf("the drill was commanded %d times after it had answered", n)
	}
	if got := fmt.Sprint(s.history("JO")); got != "[StoreAndStart Run Pause Resume End ResultUpdate]" {
		t.Errorf("history %s", got)
	}
}

// A command whose order was paused before it was sent is sent after Resume, once.
func TestCommandWaitsForResume(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.running("JO")
	s.call("JO", isa95.Pause, nil)
	bracketCell(s.cell)
	c := s.start("c", setup{})
	s.empty(keys.New(s.prefix).SfcOutbox())
	if n := c.counts.of(OpDispatch, Dropped); n != 1 || s.cell.published("JO", "drill") != 0 {
		t.Errorf("dropped %d, sent %d", n, s.cell.published("JO", "drill"))
	}
	s.call("JO", isa95.Resume, nil)
	s.await("JO", "End", "ResultUpdate")
	if n := s.cell.published("JO", "drill"); n != 1 {
		t.Errorf("the drill was commanded %d times", n)
	}
	s.settled()
}

// Whoever interrupted the order, without telling the recipe: it is recorded only.
func TestInterruptedWithoutPause(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	snap := s.load("JO")
	snap.Scope = scope
	next, _ := isa95.Next(snap.Job.State, isa95.Pause)
	s.must(s.mes.Commit(t.Context(), snap, change(isa95.Pause, next, s.mes.Now())))
	s.must(s.a.Answer(t.Context(), answerTo(drill, `{"depth":1}`)))
	s.must(s.a.Event(t.Context(), event07("probe.v1", "cell-07", "", `{}`)))
	if x := s.load("JO").Execution; !x.Paused || x.Action("release").State != recipe.ActionPending {
		t.Errorf("it went on: %+v", x)
	}
	s.consistent()
}
