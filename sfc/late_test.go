package sfc

import (
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Nothing is decided about a job order that has ended, or about a recipe that has: each of the two is enough. What comes so late is counted, and may be acknowledged.
func TestNothingIsDecidedTooLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*jobstore.Snapshot)
		want   Result
	}{
		"job order aborted": {func(s *jobstore.Snapshot) { s.Job.State = isa95.State{Top: isa95.Aborted} }, AlreadyHandled},
		"job order ended":   {func(s *jobstore.Snapshot) { s.Job.State = isa95.State{Top: isa95.Ended, Sub: isa95.Completed} }, AlreadyHandled},
		"recipe completed":  {func(s *jobstore.Snapshot) { s.Execution.Completed = true }, AlreadyHandled},
		"recipe failed":     {func(s *jobstore.Snapshot) { s.Execution.Failed = true }, AlreadyHandled},
		"no job order":      {func(s *jobstore.Snapshot) { s.Job = nil }, NotFound},
		"no recipe":         {func(s *jobstore.Snapshot) { s.Execution = nil }, NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSteps(t)
			s.running("JO")
			before := s.document("JO")
			ev := &event{query: jobstore.Query{JobOrderID: "JO", Scope: scope, Running: true}, decide: func(situation) recipe.Outcome {
				t.Error("a decision was asked for")
				return recipe.Outcome{Stale: true}
			}}
			snap, program, err := s.a.load(t.Context(), ev.query, "")
			s.must(err)
			job, execution := *snap.Job, *snap.Execution
			snap.Job, snap.Execution = &job, &execution
			c.change(snap)
			s.must(s.a.decide(t.Context(), ev, snap, program))
			if n := s.a.counts.of(OpActionState, c.want); n != 1 {
				t.Errorf("counted %d times as %s", n, c.want)
			}
			if after := s.document("JO"); after != before {
				t.Errorf("the execution was %s, is %s", before, after)
			}
		})
	}
}

// An answer or event that could not be stored is not acknowledged: the same message counts when it comes again.
func TestAnswerWithoutRedisIsNotLost(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	proxy := testenv.CountingProxy(t, s.redis.URL)
	cut := s.start("cut", setup{idle: true, url: proxy.URL})
	proxy.Refuse(true)
	proxy.Cut()
	answer := answerTo(drill, `{"depth":1}`)
	// No error, and the broker would never send the message again.
	if err := cut.Answer(t.Context(), answer); !jobstore.Waits(err) {
		t.Fatalf("the lost answer is taken for handled, or given up: %v", err)
	}
	probe := event07("probe.v1", "cell-07", "", `{}`)
	if err := cut.Event(t.Context(), probe); !jobstore.Waits(err) {
		t.Fatalf("the lost event is taken for handled, or given up: %v", err)
	}
	if x := s.load("JO").Execution; x.Action("drill").State != recipe.ActionDispatched || x.Action("probe").State != recipe.ActionWaiting {
		t.Fatalf("%+v", x.Actions)
	}
	s.must(s.b.Event(t.Context(), probe))
	if got := s.load("JO").Execution.Action("probe").State; got != recipe.ActionCompleted {
		t.Errorf("the probe is %s: the event is lost", got)
	}
	s.must(s.b.Answer(t.Context(), answer))
	if got := s.load("JO").Execution.Action("drill").State; got != recipe.ActionCompleted {
		t.Errorf("drill is %s: the answer is lost", got)
	}
}
