package sfc

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/programs"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Whatever comes in whatever order, at whichever instance, as often as it likes: after each step no invariant is
// broken, and in the end the order has ended once, with one response in its state.
func TestAnyOrderOfThings(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlantOn(t, redis)
		p.cell.react = func(request) reaction { return reaction{silent: true} }
		s := &steps{p, p.start("a", setup{idle: true}), p.start("b", setup{idle: true})}
		defer s.mes.Close()
		defer s.a.store.Close()
		defer s.b.store.Close()
		p.workMaster("WM", []byte(bracket))
		p.order("JO", "WM")
		s.a.takeWork()
		ctx := context.WithoutCancel(t.Context())
		at := func() *instance {
			return rapid.SampledFrom([]*instance{s.a, s.b}).Draw(rt, "instance")
		}
		correlation := p.load("JO").Execution.CorrelationID
		answers := func() cloudevent.Event {
			action := rapid.SampledFrom([]string{"drill", "release"}).Draw(rt, "action")
			ev := answerTo(recipe.CommandID(correlation, action, 1, 1), `{"n":1}`)
			if rapid.IntRange(0, 9).Draw(rt, "refused") == 0 {
				ev.ErrorKind = cloudevent.KindStateInvalid
			}
			return ev
		}
		events := func() cloudevent.Event {
			typ := rapid.SampledFrom([]string{"part.v1", "probe.v1"}).Draw(rt, "type")
			who := rapid.SampledFrom([]string{"", correlation, "somebody"}).Draw(rt, "correlation")
			return event07(typ, "cell-07", who, fmt.Sprintf(`{"n":%d}`, rapid.IntRange(1, 2).Draw(rt, "n")))
		}
		paused := false
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			var err error
			switch what := rapid.SampledFrom([]string{"answer", "answer", "event", "event", "both", "tick", "sweep", "pause", "forget", "end"}).Draw(rt, "what"); what {
			case "answer":
				err = at().Answer(ctx, answers())
			case "event":
				err = at().Event(ctx, events())
			case "both":
				one, two, ev, answer := at(), at(), events(), answers()
				done := make(chan error)
				go func() { done <- one.Event(ctx, ev) }()
				err = two.Answer(ctx, answer)
				if other := <-done; err == nil {
					err = other
				}
			case "tick":
				_, err = at().tickDue(ctx)
			case "sweep":
				err = at().sweep(ctx)
			case "pause":
				m := isa95.Pause
				if paused {
					m = isa95.Resume
				}
				if p.try(ctx, "JO", m, nil) == nil {
					paused = !paused
					s.b.takeWork()
				}
			case "forget":
				i := at()
				i.routes, i.programs = newRoutes[string](1), programs.New(1)
			case "end":
				if rapid.IntRange(0, 9).Draw(rt, "really") == 0 {
					_ = p.try(ctx, "JO", rapid.SampledFrom([]isa95.Method{isa95.Abort, isa95.Stop}).Draw(rt, "method"), nil)
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			p.consistent()
		}
		if paused {
			_ = p.try(ctx, "JO", isa95.Resume, nil)
		}
		for _, typ := range []string{"part.v1", "probe.v1"} {
			p.must(s.a.Event(ctx, event07(typ, "cell-07", correlation, `{"last":true}`)))
		}
		s.b.takeWork()
		for _, action := range []string{"drill", "release"} {
			p.must(s.a.Answer(ctx, answerTo(recipe.CommandID(correlation, action, 1, 1), `{}`)))
		}
		p.consistent()
		snap, history := p.load("JO"), p.history("JO")
		if !snap.Job.State.Clearable() || snap.Response == nil || !snap.Execution.Terminal() {
			rt.Fatalf("it is %s: %v", snap.Job.State, history)
		}
		if state, err := isa95.ParseState(snap.Response.JobState); err != nil || state != snap.Job.State {
			rt.Fatalf("the order is %s, the response says %s", snap.Job.State, state)
		}
		if n := len(slices.DeleteFunc(history, func(c string) bool { return c != "ResultUpdate" })); n != 1 {
			rt.Fatalf("%d responses", n)
		}
	})
}
