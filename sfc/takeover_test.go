package sfc

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// A replica that starts sends nothing again: commands in flight stay in flight.
func TestReplicaStartSendsNothingAgain(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.cell.react = func(request) reaction { return reaction{silent: true} }
	p.workMaster("WM", []byte(bracket))
	p.start("a", setup{})
	p.order("JO", "WM")
	p.cell.emit(event07("part.v1", "cell-07", "", `{}`))
	eventually(t, "the drill is commanded", func() bool { return p.cell.published("JO", "drill") == 1 })
	b := p.start("b", setup{})
	p.must(b.sweep(t.Context()))
	p.must(b.sweep(t.Context()))
	p.call("JO", isa95.Abort, nil)
	p.settled()
	if n := p.cell.published("JO", "drill"); n != 1 {
		t.Errorf("the drill was commanded %d times", n)
	}
}

// steps runs engines by hand: nothing happens but what the test calls.
type steps struct {
	*plant
	a, b *instance
}

func newSteps(t testing.TB) *steps {
	p := newPlant(t)
	p.cell.react = func(request) reaction { return reaction{silent: true} }
	return &steps{p, p.start("a", setup{idle: true}), p.start("b", setup{idle: true})}
}

// running starts a bracket up to where the drill and the probe are under way, and returns the id of the drill's command.
func (s *steps) running(id string) string {
	s.t.Helper()
	s.workMaster("WM", []byte(bracket))
	s.order(id, "WM")
	ctx := s.t.Context()
	s.a.takeWork()
	s.must(s.a.Event(ctx, event07("part.v1", "cell-07", "", `{"n":1}`)))
	return s.command(id, "drill")
}

// command is the id of the latest command of an action.
func (s *steps) command(job, action string) string {
	s.t.Helper()
	a := s.load(job).Execution.Action(action)
	if a.State != recipe.ActionDispatched {
		s.t.Fatalf("%s is %s", action, a.State)
	}
	return a.CommandID
}

// answerTo makes an answer of the equipment to a command with a token of testSeed.
func answerTo(command, result string) cloudevent.Event {
	return cloudevent.Event{
		ID: cloudevent.NewID(), Source: "urn:cell", SpecVersion: "1.0", Type: "any", CausationID: command, Data: []byte(result),
		Delivery: cloudevent.Delivery{Topic: "plant/responses/any/" + string(testSeed.Token(command))},
	}
}

// Two completions at a convergence at once: one of them is the last, whatever the order, and the next step is commanded
// once.
func TestTwoCompletionsAtAConvergence(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	for round := range 25 {
		p := newPlantOn(t, redis)
		p.cell.react = func(request) reaction { return reaction{silent: true} }
		s := &steps{p, p.start("a", setup{idle: true}), p.start("b", setup{idle: true})}
		drill := s.running("JO")
		errs := make(chan error, 2)
		go func() { errs <- s.a.Answer(t.Context(), answerTo(drill, `{"depth":1}`)) }()
		go func() { errs <- s.b.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":1}`)) }()
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		x := s.load("JO").Execution
		if x.Terminal() || x.CurrentStep != "Release" || x.Action("release").State != recipe.ActionDispatched || x.Action("release").Attempt != 1 {
			t.Fatalf("round %d: at %s, %+v", round, x.CurrentStep, x.Action("release"))
		}
		p.consistent()
	}
}

// An answer counts once: at the instance that sent the command, at another, after the sender's death, and repeated.
func TestAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	s.cell.leave("a")
	ctx := t.Context()
	s.must(s.b.Answer(ctx, answerTo(drill, `{"depth":1}`)))
	s.must(s.b.Answer(ctx, answerTo(drill, `{"depth":2}`)))
	s.must(s.a.Answer(ctx, answerTo(drill, `{"depth":3}`)))
	if got := string(s.load("JO").Execution.Action("drill").Result); got != `{"depth":1}` {
		t.Errorf("result %s, want that of the first answer", got)
	}
	if ok, again := s.b.counts.of(OpActionState, OK), s.b.counts.of(OpActionState, AlreadyHandled); ok != 1 || again != 1 {
		t.Errorf("settled %d, already handled %d", ok, again)
	}
	if n := s.a.counts.of(OpActionState, AlreadyHandled); n != 1 {
		t.Errorf("already handled at the sender: %d", n)
	}
}

// NOT_FOUND is a result, not an error; bad input is counted and may be acknowledged.
func TestAnswersOfNoUse(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	ctx := t.Context()
	s.must(s.a.Answer(ctx, answerTo("00000000-0000-5000-8000-000000000000", "{}")))
	s.must(s.a.Answer(ctx, answerTo("", "{}")))
	if n := s.a.counts.of(OpActionState, NotFound); n != 1 {
		t.Errorf("not found: %d", n)
	}
	if n := s.a.counts.of(OpActionState, Invalid); n != 1 {
		t.Errorf("invalid: %d", n)
	}
	byData := answerTo(drill, `{"depth":1}`) // correlation data is enough
	byData.CausationID = ""
	byData.Delivery.CorrelationData = uuidBytes(t, drill)
	s.must(s.a.Answer(ctx, byData))
	if got := s.load("JO").Execution.Action("drill").State; got != recipe.ActionCompleted {
		t.Errorf("drill is %s", got)
	}
}

// A negative answer is no success: the job order is aborted with the reason. So is an answer that is no
// JSON, or that could not be read at all.
func TestNegativeAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(string) cloudevent.Event{
		"refused": func(id string) cloudevent.Event {
			ev := answerTo(id, "")
			ev.ErrorKind, ev.ErrorMessage = cloudevent.KindStateInvalid, "spindle locked"
			return ev
		},
		"not JSON":     func(id string) cloudevent.Event { return answerTo(id, "12,5") },
		"member twice": func(id string) cloudevent.Event { return answerTo(id, `{"ok":false,"ok":true}`) },
		"unreadable": func(id string) cloudevent.Event {
			ev := answerTo(id, "<done/>")
			ev.Delivery.Unreadable = cloudevent.Errorf(cloudevent.KindUnsupportedContentType, `content type "text/xml": want application/json`)
			return ev
		},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			p := newPlant(t)
			p.cell.react = func(request) reaction { return reaction{silent: true} }
			s := &steps{p, p.start("a", setup{idle: true, engine: func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) }}), nil}
			drill := s.running("JO")
			ev := answer(drill)
			ev.CorrelationID = "run-7"
			s.must(s.a.Answer(t.Context(), ev))
			snap := s.load("JO")
			if snap.Job.State.String() != "Aborted" || !snap.Execution.Failed || snap.Execution.Completed {
				t.Fatalf("%s, %+v", snap.Job.State, snap.Execution)
			}
			if report := said.String(); contains(report, "answer cannot be read", drill, "correlation=run-7", "topic=plant/responses/any/(token)", "job=JO") == (name == "refused") {
				t.Errorf("the log says %s", report)
			}
			text := responseError(t, snap.Response)
			t.Log(text)
			if name == "refused" && !contains(text, "STATE_INVALID", "spindle locked", "drill") {
				t.Errorf("error %q", text)
			}
			if name == "unreadable" && !contains(text, "drill", "cannot be read", "text/xml") {
				t.Errorf("error %q", text)
			}
			want := []string{"StoreAndStart", "Run", "Abort", "ResultUpdate"}
			if got := s.history("JO"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("history %v", got)
			}
			if got := s.statuses("JO"); fmt.Sprint(got) != "[AllowedToStart_Ready Running Aborted+response]" {
				t.Errorf("status events %v", got)
			}
			s.must(s.a.Answer(t.Context(), answerTo(drill, "{}"))) // late
			if got := s.state("JO"); got != "Aborted" {
				t.Errorf("a late answer made it %s", got)
			}
			s.consistent()
		})
	}
}
