package sfc

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// An event counts once, however often and wherever it comes: what says so is in the commit of its effect.
func TestEventCountsOnce(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.workMaster("WM", []byte(bracket))
	s.ordered("JO-1")
	s.ordered("JO-2")
	part := event07("part.v1", "cell-07", "", `{"n":1}`)
	errs := make(chan error, 4)
	for _, e := range []*instance{s.a, s.b, s.a, s.b} {
		go func() { errs <- e.Event(t.Context(), part) }()
	}
	s.must(errors.Join(<-errs, <-errs, <-errs, <-errs))
	var settled []string
	for _, id := range []string{"JO-1", "JO-2"} {
		if s.load(id).Execution.Action("await_part").State == recipe.ActionCompleted {
			settled = append(settled, id)
		}
	}
	if fmt.Sprint(settled) != "[JO-1]" { // and not JO-2 by a repetition; the oldest first
		t.Errorf("settled %v, want JO-1 alone", settled)
	}
	s.consistent()
}

// An event that names the correlation id of a run that is over is for nobody: it is about another workpiece.
func TestEventOfARunThatIsOver(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.running("JO-1")
	over := s.load("JO-1").Execution.CorrelationID
	s.call("JO-1", isa95.Abort, nil)
	s.ordered("JO-2")
	s.must(s.a.Event(t.Context(), event07("part.v1", "cell-07", "", `{"n":2}`)))
	s.must(s.b.Event(t.Context(), event07("probe.v1", "cell-07", over, `{"bore":1}`)))
	if got := s.load("JO-2").Execution.Action("probe").State; got != recipe.ActionWaiting {
		t.Errorf("the probe of JO-2 is %s", got)
	}
	s.must(s.b.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":2}`)))
	if got := string(s.load("JO-2").Execution.Action("probe").Result); got != `{"bore":2}` {
		t.Errorf("the probe of JO-2 is %s", got)
	}
	s.consistent()
}

// An event that came early, was kept, and was then taken by a recipe, is not kept again when it is repeated.
func TestEarlyEventCountsOnce(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.workMaster("WM", []byte(bracket))
	part := event07("part.v1", "cell-07", "", `{"n":1}`)
	s.must(s.a.Event(t.Context(), part))
	s.ordered("JO-1")
	s.must(s.b.Event(t.Context(), part))
	s.ordered("JO-2")
	for id, want := range map[string]recipe.ActionState{"JO-1": recipe.ActionCompleted, "JO-2": recipe.ActionWaiting} {
		if got := s.load(id).Execution.Action("await_part").State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	if n := s.b.counts.of(OpActionState, AlreadyHandled); n != 1 {
		t.Errorf("already handled %d", n)
	}
	s.consistent()
}

// An event that came early is heard when its action begins to wait, long after the retention of the mailbox: whether equipment repeats it under its
// id, or sent it once. It is taken once.
func TestEarlyEventIsHeardLater(t *testing.T) {
	t.Parallel()
	for name, repeated := range map[string]bool{"sent once": false, "repeated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSteps(t)
			s.a.opt.MailboxRetention, s.b.opt.MailboxRetention = time.Millisecond, time.Millisecond
			s.workMaster("WM", []byte(`{
			  "Steps": [{"Name": "Press", "Initial": true}, {"Name": "Look", "Initial": false}, {"Name": "Again", "Initial": false}],
			  "Transitions": [{"Source": "Press", "Target": "Look", "Condition": "always", "Priority": 0}, {"Source": "Look", "Target": "Again", "Condition": "always", "Priority": 0}],
			  "Actions": [
			    {"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "press.v1", "TimeoutSeconds": 600},
			    {"Name": "look", "Step": "Look", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "seen.v1", "TimeoutSeconds": 600},
			    {"Name": "again", "Step": "Again", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "seen.v1", "TimeoutSeconds": 600}]}`))
			s.ordered("JO")
			ctx := t.Context()
			seen := event07("seen.v1", "cell-07", "", `{"ok":true}`)
			s.must(s.a.Event(ctx, seen))
			over := s.mes.Now().Add(20 * time.Millisecond)
			eventually(t, "its time is over", func() bool { return s.mes.Now().After(over) })
			if repeated {
				s.must(s.b.Event(ctx, seen))
				s.must(s.b.Event(ctx, seen))
			}
			s.must(s.b.Answer(ctx, answerTo(s.command("JO", "press"), `{}`)))
			if a := s.load("JO").Execution.Action("look"); a.State != recipe.ActionCompleted {
				t.Errorf("look is %s: the event is not heard", a.State)
			}
			s.must(s.a.Event(ctx, seen))
			s.must(s.b.Event(ctx, seen))
			if a := s.load("JO").Execution.Action("again"); a.State != recipe.ActionWaiting {
				t.Errorf("again is %s: the event was taken twice", a.State)
			}
			s.consistent()
		})
	}
}

// The mailbox can be switched off, for those who want events before the wait dropped as upstream does.
func TestMailboxOff(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	a := p.start("a", setup{idle: true, engine: func(o *Options) { o.MailboxRetention = -1 }})
	p.must(a.Event(t.Context(), event07("part.v1", "cell-07", "", `{}`)))
	if n := a.counts.of(OpMailbox, Ignored); n != 1 {
		t.Errorf("ignored %d", n)
	}
	all, err := p.redis.AllKeys(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

// The asset in the subject chooses among waiting actions.
func TestEventByAsset(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.workMaster("WM", []byte(`{
	  "Steps": [{"Name": "Split", "Initial": true}, {"Name": "Left", "Initial": false}, {"Name": "Right", "Initial": false}],
	  "Transitions": [{"Source": "Split", "Target": "Both", "Condition": "always", "Priority": 0}],
	  "Actions": [
	    {"Name": "left", "Step": "Left", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "seen.v1", "TimeoutSeconds": 60, "Parameters": {"asset_id": "cam-1"}},
	    {"Name": "right", "Step": "Right", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "seen.v1", "TimeoutSeconds": 60, "Parameters": {"asset_id": "cam-2"}}
	  ],
	  "Branches": [{"Name": "Both", "Type": "simultaneous", "Branches": [["Left"], ["Right"]]}]
	}`))
	s.ordered("JO")
	s.must(s.b.Event(t.Context(), event07("seen.v1", "cell-07/cam-2", "", `{"n":2}`)))
	x := s.load("JO").Execution
	if x.Action("left").State != recipe.ActionWaiting || string(x.Action("right").Result) != `{"n":2}` {
		t.Errorf("left %+v, right %+v", x.Action("left"), x.Action("right"))
	}
	s.must(s.b.Event(t.Context(), event07("seen.v1", "cell-07/cam-1", "", `{"n":1}`)))
	if got := s.state("JO"); got != "Ended_Completed" {
		t.Errorf("the order is %s", got)
	}
	s.consistent()
}

// What nobody can use is acknowledged, counted, and changes nothing.
func TestEventsOfNoUse(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.running("JO")
	edit := func(f func(*cloudevent.Event)) cloudevent.Event {
		ev := event07("probe.v1", "cell-07", "", `{"bore":1}`)
		f(&ev)
		return ev
	}
	big := make([]byte, recipe.MaxResultBytes+1)
	for name, ev := range map[string]cloudevent.Event{
		"other topic": edit(func(e *cloudevent.Event) { e.Subject = "cell-08" }),
		"no subject":  edit(func(e *cloudevent.Event) { e.Subject = "" }),
		"bad subject": edit(func(e *cloudevent.Event) { e.Subject = "+/x" }),
		"no id":       edit(func(e *cloudevent.Event) { e.ID = "" }),
		"no type":     edit(func(e *cloudevent.Event) { e.Type = "" }),
		"no JSON":     edit(func(e *cloudevent.Event) { e.Data = []byte("8,001") }),
		"too big":     edit(func(e *cloudevent.Event) { e.Data = big }),
		"retained":    edit(func(e *cloudevent.Event) { e.Delivery.Retained = true }),
	} {
		before := s.a.counts.of(OpActionState, Invalid)
		if err := s.a.Event(t.Context(), ev); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.a.counts.of(OpActionState, Invalid) - before; n != 1 {
			t.Errorf("%s: counted %d", name, n)
		}
	}
	if got := s.load("JO").Execution.Action("probe").State; got != recipe.ActionWaiting {
		t.Errorf("the probe is %s", got)
	}
}

// A job that has ended without its mailbox being told is no candidate: the event goes on to the next.
func TestEventPassesOverTheDead(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.workMaster("WM", []byte(bracket))
	s.ordered("JO-1")
	s.ordered("JO-2")
	ctx := t.Context()
	snap := s.load("JO-1")
	snap.Scope = scope
	next, _ := isa95.Next(snap.Job.State, isa95.Abort)
	x := snap.Execution.Abort("by somebody who forgets the mailbox", s.mes.Now())
	s.must(s.mes.Commit(ctx, snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Abort, State: next},
		Execution:  x, Response: jobstore.NewResponse(snap.Job, x, next, s.mes.Now()), Now: s.mes.Now(),
	}))
	s.must(s.b.Event(ctx, event07("part.v1", "cell-07", "", `{"n":1}`)))
	if got := s.load("JO-2").Execution.Action("await_part").State; got != recipe.ActionCompleted {
		t.Errorf("JO-2 is %s", got)
	}
	if s.redis.Number(t, "EXISTS", keys.New(s.prefix).SfcMailbox(string(scope), "part.v1")) != 0 {
		t.Error("the mailbox is still there")
	}
	s.consistent()
}

// A wait from a mailbox that was read before another instance went on with the recipe is over; what the job order waits
// for by now is left alone (the event that it then waited for was kept for nobody, and the action timed out).
func TestEventMatchedTooLate(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.running("JO") // its part has come, it waits for the probe
	late := event07("part.v1", "cell-07", "", `{"n":2}`)
	q := jobstore.Query{Source: late.Source, ID: late.ID, Scope: scope, Mailboxes: []string{late.Type}}
	pulled := recipe.PullEvent{ID: late.ID, Source: late.Source, Subject: late.Subject, Data: late.Data}
	settled, err := s.b.deliver(t.Context(), q, late, pulled, recipe.Waiting{JobID: "JO", Action: "await_part"})
	if settled || err != nil {
		t.Fatalf("settled %v, %v", settled, err)
	}
	s.must(s.b.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":2}`)))
	if got := s.load("JO").Execution.Action("probe").State; got != recipe.ActionCompleted {
		t.Errorf("the probe is %s", got)
	}
	s.consistent()
}
