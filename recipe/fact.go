package recipe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// FactKind says what a Fact is about.
type FactKind string

// The kinds of facts. Those from FactRefused to FactTimeout end an attempt; the run goes on if the action has another one.
const (
	FactStep       FactKind = "step"       // a step or branch is entered
	FactTransition FactKind = "transition" // a transition fires, or the way into a path of a selection branch
	FactCommand    FactKind = "command"    // a command is sent for the first time
	FactRepeat     FactKind = "repeat"     // it is sent again, under the same id
	FactWait       FactKind = "wait"       // an action begins to wait for its event
	FactAnswer     FactKind = "answer"     // equipment answered, with Result
	FactEvent      FactKind = "event"      // the event of an action is here, with Result
	FactRefused    FactKind = "refused"    // equipment refused the command
	FactUnreadable FactKind = "unreadable" // an answer or event cannot be kept as a result
	FactTimeout    FactKind = "timeout"    // neither answer nor event came in time
	FactCompleted  FactKind = "completed"  // the run ended
	FactFailed     FactKind = "failed"     // the run ended for Error
)

// Fact is one thing that a decision did. Outcome.Facts lists them in the order in which it did them. What a fact is not about is zero.
type Fact struct {
	Kind       FactKind        `json:"kind"`
	Step       string          `json:"step,omitempty"`       // step or branch
	Action     string          `json:"action,omitempty"`     // of the recipe
	Transition *int            `json:"transition,omitempty"` // index in Recipe.Transitions
	Iteration  int             `json:"iteration,omitempty"`  // of the step, from 1
	Attempt    int             `json:"attempt,omitempty"`    // of the action in this iteration, from 1; 0 for events
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"` // of an attempt: what follows "action NAME"; of a run: its reason
}

// Ends tells whether the fact ends an attempt of its action.
func (f *Fact) Ends() bool {
	switch f.Kind {
	case FactAnswer, FactEvent, FactRefused, FactUnreadable, FactTimeout:
		return true
	}
	return false
}

// fact notes a fact about the attempt of e.
func (d *decision) fact(kind FactKind, e *ActionEntry) {
	f := Fact{Kind: kind, Action: e.Name, Iteration: e.Iteration, Attempt: e.Attempt - e.FirstAttempt + 1}
	if kind == FactAnswer || kind == FactEvent {
		f.Result = e.Result
	}
	d.facts = append(d.facts, f)
}

// sent is facts without the commands that do not leave.
func sent(facts []Fact, commands []Command) []Fact {
	return slices.DeleteFunc(facts, func(f Fact) bool {
		return (f.Kind == FactCommand || f.Kind == FactRepeat) && !slices.ContainsFunc(commands, func(c Command) bool {
			return c.Action == f.Action && c.Iteration == f.Iteration && c.Again == (f.Kind == FactRepeat)
		})
	})
}

// Text says the fact in words, with transitions of r; nil: with their numbers.
func (f *Fact) Text(r *Recipe) string {
	action := "action " + f.Action
	if f.Iteration > 1 {
		action += fmt.Sprintf(" (iteration %d)", f.Iteration)
	}
	switch f.Kind {
	case FactStep:
		if f.Iteration > 1 {
			return fmt.Sprintf("step %s, iteration %d", f.Step, f.Iteration)
		}
		return "step " + f.Step
	case FactTransition:
		if r == nil || *f.Transition >= len(r.Transitions) {
			return fmt.Sprintf("transition %d fires", *f.Transition)
		}
		t := r.Transitions[*f.Transition]
		return fmt.Sprintf("transition %s → %s fires: %s", t.Source, t.Target, cmp.Or(t.Condition, "always"))
	case FactCommand:
		if f.Attempt > 1 {
			return fmt.Sprintf("%s: command, attempt %d", action, f.Attempt)
		}
		return action + ": command"
	case FactRepeat:
		return action + ": command again"
	case FactWait:
		return action + ": waits for its event"
	case FactAnswer:
		return fmt.Sprintf("%s: answer %s", action, cmp.Or(string(f.Result), "without a result"))
	case FactEvent:
		return fmt.Sprintf("%s: event %s", action, cmp.Or(string(f.Result), "without a payload"))
	case FactCompleted:
		return "the recipe is through"
	case FactFailed:
		return "the recipe failed: " + f.Error
	}
	return action + " " + f.Error
}
