package sfc

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// A replica that starts sends nothing again: commands in flight stay in flight.
func TestReplicaStartSendsNothingAgain(t *testing.T) {
	t.Parallel()
	p := newSilent(t)
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

func newSteps(t testing.TB) *steps { return newStepsWith(t, setup{}) }

func newStepsWith(t testing.TB, with setup) *steps {
	p := newSilent(t)
	with.idle = true
	return &steps{p, p.start("a", with), p.start("b", with)}
}

// ordered starts an order of the work master WM at a.
func (s *steps) ordered(id string) {
	s.t.Helper()
	s.order(id, "WM")
	s.a.takeWork()
}

// running starts a bracket up to where the drill and the probe are under way, and returns the id of the drill's command.
func (s *steps) running(id string) string {
	s.t.Helper()
	s.workMaster("WM", []byte(bracket))
	s.ordered(id)
	s.must(s.a.Event(s.t.Context(), event07("part.v1", "cell-07", "", `{"n":1}`)))
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
	command := uuid.MustParse(drill)
	byData.Delivery.CorrelationData = command[:]
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
			s := newStepsWith(t, setup{engine: func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) }})
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
