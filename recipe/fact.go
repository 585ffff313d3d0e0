package recipe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	FactCancel     FactKind = "cancel"     // a command leaves that calls the command of an attempt off
	FactCanceled   FactKind = "canceled"   // it was answered, or was not in time
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
	Attempt    int             `json:"attempt,omitempty"`    // of the action in this iteration, from 1; 0 for events. Of cancel commands: in the whole run
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

// CancelFacts are the facts about cancel commands that lead from before to after, either of which may be nil. No Outcome has them: a cancel command is as the recipe says for
// whatever ends an attempt, and its answer changes nothing else.
func CancelFacts(before, after *Execution) (facts []Fact) {
	if after == nil {
		return nil
	}
	for _, c := range after.Cancels {
		was := CancelEntry{}
		if before != nil {
			if i := before.cancelOf(c.CommandID); i >= 0 {
				was = before.Cancels[i]
			}
		}
		f := Fact{Kind: FactCancel, Action: c.Action, Attempt: c.Attempt}
		if was.CommandID == "" {
			facts = append(facts, f)
		}
		if c.State != ActionDispatched && was.State != c.State {
			f.Kind, f.Result, f.Error = FactCanceled, c.Result, c.Error
			facts = append(facts, f)
		}
	}
	return facts
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
		what := "step "
		if r != nil && slices.ContainsFunc(r.Branches, func(b Branch) bool { return b.Name == f.Step }) {
			what = "branch "
		}
		if f.Iteration > 1 {
			return fmt.Sprintf("%s%s, iteration %d", what, f.Step, f.Iteration)
		}
		return what + f.Step
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
		return fmt.Sprintf("%s: answer %s", action, shortened(f.Result))
	case FactEvent:
		return fmt.Sprintf("%s: event %s", action, shortened(f.Result))
	case FactCancel:
		return fmt.Sprintf("action %s: cancel command, for attempt %d", f.Action, f.Attempt)
	case FactCanceled:
		if f.Error != "" {
			return fmt.Sprintf("action %s: cancel command %s", f.Action, f.Error)
		}
		return fmt.Sprintf("action %s: answer %s to its cancel command", f.Action, shortened(f.Result))
	case FactCompleted:
		return "the recipe is through"
	case FactFailed:
		return "the recipe failed: " + f.Error
	}
	return action + " " + f.Error
}

// shortened is a result for people, of at most 500 bytes and its size.
func shortened(result json.RawMessage) string {
	const most = 500
	if len(result) <= most {
		return cmp.Or(string(result), "without data")
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(result[:most]), ""), len(result))
}
