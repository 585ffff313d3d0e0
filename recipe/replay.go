package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Recorded is one entry of the history of a run, for Replay.
type Recorded struct {
	At    time.Time // installation time
	Hold  Hold      // what an MES did to the run, HoldNone: nothing
	Facts []Fact    // of the decision

	// Deadlines are those that changed without a fact: the broker has the last call of an action.
	Deadlines map[string]int64
}

// Hold is what an MES does to a run.
type Hold string

// The holds.
const (
	HoldNone   Hold = ""
	HoldPause  Hold = "Pause"
	HoldResume Hold = "Resume"
	HoldStop   Hold = "Stop"
	HoldAbort  Hold = "Abort"
)

// Replayed is how a run goes with a recipe that it was not recorded with.
type Replayed struct {
	Execution *Execution // in the end
	Parted    *Parting   // where the facts differ first; nil: nowhere
	Entries   int        // that were replayed
	Left      []string   // what is recorded and found no action that waits for it: "answer of seat, iteration 2, 3.2s after the start"
}

// Parting is the first difference between a record and its replay.
type Parting struct {
	At       time.Time // installation time
	Entry    int       // of the record, from 0
	Recorded []Fact    // of that entry; nil: the replay does something by time that the record does not
	Replayed []Fact
}

// Replay runs p on what is recorded of a run of another recipe: the answers and events at the times at which they came, time-outs by its own times, and what the MES did.
// The first entry is the start. grace is by how much a process may have been late with what was due; an answer is taken within it although its time is over.
func (p *Program) Replay(o Order, workMasterID string, record []Recorded, grace time.Duration) (Replayed, error) {
	if len(record) == 0 {
		return Replayed{}, fmt.Errorf("recipe: replay: nothing is recorded")
	}
	r := replay{p: p, o: o, grace: grace, mail: map[string]*Mailbox{}}
	for i, entry := range record {
		r.at, r.since = i, entry.At.Sub(record[0].At)
		if i == 0 {
			r.early(entry)
			r.take(entry.At, entry.Facts, p.Start(o, workMasterID, "replay", r.mail, entry.At))
			continue
		}
		r.until(entry.At)
		r.entry(entry)
	}
	r.out.Execution, r.out.Entries = r.x, len(record)
	return r.out, nil
}

type replay struct {
	p     *Program
	o     Order
	x     *Execution
	mail  map[string]*Mailbox
	grace time.Duration
	at    int           // entry of the record,
	since time.Duration // and its time from the start
	out   Replayed
}

func (r *replay) docs(in Intake) Docs { return Docs{Execution: r.x, Mailboxes: r.mail, Intake: in} }

// until does what is due long before at, and is not recorded.
func (r *replay) until(at time.Time) {
	for range maxEntered {
		due := r.x.Due()
		if due.IsZero() || due.Add(r.grace).After(at) {
			return
		}
		r.take(due, nil, r.p.Tick(r.o, r.docs(Intake{}), due))
	}
}

func (r *replay) entry(e Recorded) {
	switch e.Hold {
	case HoldPause:
		r.x = r.x.Pause(e.At)
	case HoldResume:
		r.x = r.x.Resume(e.At)
	case HoldStop:
		r.x = r.x.Stop(e.At)
	case HoldAbort:
		r.x = r.x.Abort("aborted", e.At)
	}
	for action, deadline := range e.Deadlines {
		if a := r.x.Action(action); a != nil && a.State == ActionDispatched {
			r.x = r.x.Clone()
			a = r.x.Action(action)
			a.Deadline, a.ResendAt = deadline, 0
		}
	}
	if len(e.Facts) == 0 {
		return
	}
	var answers []Answer
	var of []Fact
	for _, f := range e.Facts {
		if a, ok := r.answer(f); ok {
			answers, of = append(answers, a), append(of, f)
		}
	}
	first := e.Facts[0]
	switch {
	case len(answers) > 0:
		r.early(e)
		out, each := r.p.Answers(r.o, r.docs(Intake{}), answers, e.At)
		for i, o := range each {
			if o.Stale {
				r.left(of[i])
			}
		}
		r.take(e.At, e.Facts, out)
	case first.Kind == FactEvent && r.state(first.Action) == ActionWaiting:
		r.early(Recorded{At: e.At, Facts: e.Facts[1:]})
		r.take(e.At, e.Facts, r.p.Pulled(r.o, r.docs(Intake{}), first.Action, PullEvent{ID: "replayed", Data: first.Result}, e.At))
	default:
		r.early(e)
		in := Intake{Sent: func(command string) bool { // one that was sent again at its deadline had a last call
			return !slices.ContainsFunc(e.Facts, func(f Fact) bool {
				a := r.x.Action(f.Action)
				return f.Kind == FactRepeat && a != nil && a.CommandID == command
			})
		}}
		r.take(e.At, e.Facts, r.p.Tick(r.o, r.docs(in), e.At))
	}
}

func (r *replay) state(action string) ActionState {
	if a := r.x.Action(action); a != nil {
		return a.State
	}
	return ""
}

// answer is the answer to a command that f records, to the command that the action has now.
func (r *replay) answer(f Fact) (Answer, bool) {
	i := slices.IndexFunc(r.p.actions, func(a *Action) bool { return a.Name == f.Action })
	if i >= 0 && r.p.actions[i].Interaction == InteractionPull {
		return Answer{}, false
	}
	a := Answer{CommandID: "of " + f.Action, Result: f.Result} // no command has such an id
	if e := r.x.Action(f.Action); e != nil && e.State == ActionDispatched {
		a.CommandID = e.CommandID
	}
	switch f.Kind {
	case FactAnswer:
	case FactRefused:
		a.Error = &ActionError{Message: strings.TrimPrefix(f.Error, wasRefused)}
	case FactUnreadable:
		a.Unreadable = strings.TrimPrefix(f.Error, wasUnreadable)
	default:
		return a, false
	}
	return a, true
}

// early puts the events of e into the mailboxes, where the decision finds them.
func (r *replay) early(e Recorded) {
	for _, f := range e.Facts {
		i := slices.IndexFunc(r.p.actions, func(a *Action) bool { return a.Name == f.Action })
		if f.Kind != FactEvent {
			continue
		}
		if i < 0 {
			r.left(f)
			continue
		}
		typ := r.p.actions[i].TypeID
		m := r.mail[typ]
		if m == nil {
			m = &Mailbox{}
		}
		m = m.Clone()
		asset := cmp.Or(r.p.assets[i], "-") // an action that names none takes the event of any
		m.Keep(PullEvent{
			ID: fmt.Sprint("replayed-", r.at, "-", f.Action, "-", f.Iteration), Source: "replay", Subject: r.o.Scope + "/" + asset,
			Data: f.Result, At: e.At.UnixMilli(), Until: e.At.Add(MailboxHold).UnixMilli(),
		}, "")
		r.mail[typ] = m
	}
}

// left notes what found no action.
func (r *replay) left(f Fact) {
	r.out.Left = append(r.out.Left, fmt.Sprintf("%s of %s, iteration %d, %v after the start", f.Kind, f.Action, f.Iteration, r.since))
}

// take goes on with what was decided, and compares it with what is recorded.
func (r *replay) take(at time.Time, recorded []Fact, out Outcome) {
	if !out.Stale {
		r.x, r.mail = out.Docs.Execution, out.Docs.Mailboxes
		if r.mail == nil {
			r.mail = map[string]*Mailbox{}
		}
	}
	if r.out.Parted == nil && !r.alike(recorded, out.Facts) {
		r.out.Parted = &Parting{At: at, Entry: r.at, Recorded: recorded, Replayed: out.Facts}
	}
}

// alike compares facts but for their texts. The places of transitions are those of their recipe, so a transition is where the step is that it leads to.
func (r *replay) alike(a, b []Fact) bool {
	shape := func(facts []Fact) []string {
		var all []string
		for _, f := range facts {
			if f.Kind != FactTransition {
				all = append(all, fmt.Sprint(f.Kind, f.Step, f.Action, f.Iteration, f.Attempt, string(f.Result)))
			}
		}
		return all
	}
	return slices.Equal(shape(a), shape(b))
}
