package recipe

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/taktworks/takt/internal/jsonscan"
)

// WaitKind is a kind of thing that a run waits for.
type WaitKind string

// The kinds.
const (
	WaitPaused     WaitKind = "paused"     // Resume
	WaitCommand    WaitKind = "command"    // the answer to a command
	WaitEvent      WaitKind = "event"      // an event of equipment
	WaitTransition WaitKind = "transition" // a condition that is to become true
)

// Wait is one thing that a run waits for. Members that do not fit Kind are zero.
//
// Times are in seconds of installation time, rounded to milliseconds.
type Wait struct {
	Kind WaitKind `json:"kind"`
	Step string   `json:"step,omitempty"` // the active step, or the branch that is done or chooses
	Age  float64  `json:"age_seconds"`    // since the command left, the event is awaited, the step was entered or the run was paused

	// Of a command and an event.
	Action    string   `json:"action,omitempty"`
	TypeID    string   `json:"type_id,omitempty"`
	Asset     string   `json:"asset,omitempty"`      // that the event must come from
	CommandID string   `json:"command_id,omitempty"` // of the latest attempt
	Attempt   int      `json:"attempt,omitempty"`    // of this iteration, from 1
	Attempts  int      `json:"attempts,omitempty"`   // how many may be made in it
	Left      *float64 `json:"left_seconds,omitempty"`
	Error     string   `json:"error,omitempty"` // why the latest attempt failed, or why the condition fails

	// Of a transition.
	Transition *int    `json:"transition,omitempty"` // index in Recipe.Transitions
	Target     string  `json:"target,omitempty"`
	Choosing   bool    `json:"choosing,omitempty"` // Step is a branch that looks for a path
	Condition  string  `json:"condition,omitempty"`
	Holds      bool    `json:"holds,omitempty"`  // it is true by now, and fires when it is looked at
	Causes     []Cause `json:"causes,omitempty"` // what makes it false

	// Again is when the command is sent again, or the condition is looked at without an event; nil: not by time. Negative: that is overdue.
	Again *float64 `json:"again_seconds,omitempty"`
}

// Cause is a part of a condition that makes the whole false: one that is false or, below a not, one that is true.
type Cause struct {
	Text     string    `json:"text"` // as it is written, but for blanks and quotes
	Holds    bool      `json:"holds,omitempty"`
	Operands []Operand `json:"operands,omitempty"` // without literals
}

// Operand is a value that a condition looks at.
type Operand struct {
	Text  string          `json:"text"`
	Value json.RawMessage `json:"value"` // null: it is missing
}

// Blame is why the transition of w does not fire, in short: the values that its condition looks at.
func (w *Wait) Blame() string {
	switch {
	case w.Error != "":
		return w.Error
	case w.Holds:
		return "true, fires at the next look"
	}
	var values []string
	for _, c := range w.Causes {
		for _, o := range c.Operands {
			if text := o.Text + " = " + string(o.Value); !slices.Contains(values, text) {
				values = append(values, text)
			}
		}
	}
	if len(values) == 0 {
		return "false"
	}
	return strings.Join(values, ", ")
}

// Waits lists what the run x waits for at now, in installation time: that it is paused, then by active step each action that is not answered and each transition
// out of a step or branch that is done and does not fire. nil: the run is over, or it runs another recipe.
func (p *Program) Waits(o Order, x *Execution, now time.Time) []Wait {
	if p.unfit(x) != "" {
		return nil
	}
	d := p.decide(&o, Docs{Execution: x}, now)
	for i := range x.Actions { // installation time that stands still is known as it was before the last decision
		d.now = max(d.now, x.Actions[i].DispatchedAt)
	}
	w := waits{d: d}
	if x.Paused {
		w.all = append(w.all, Wait{Kind: WaitPaused, Step: x.CurrentStep, Age: w.since(x.PausedAt)})
		d.now = x.PausedAt // step.t stands still
	}
	at := p.places[x.CurrentStep]
	if at == nil {
		return w.all
	}
	for _, step := range x.ActiveSteps {
		if s := p.places[step]; s != nil {
			w.actions(s)
		}
	}
	switch {
	case at.kind != "" && d.record(at.name).Choosing:
		w.transitions(at, at.entries, true)
	case at.kind != "" && len(x.ActiveSteps) == 0, at.kind == "" && d.active(at.name) && d.complete(at):
		w.transitions(at, at.exits, false)
	}
	return w.all
}

// waits collects what a run waits for.
type waits struct {
	d   *decision // of which nothing comes
	all []Wait
}

func (w *waits) since(ms int64) float64 { return float64(w.d.now-ms) / 1000 }

// until is how long it is to a time; nil: it is not set.
func (w *waits) until(ms int64) *float64 {
	if ms == 0 {
		return nil
	}
	left := -w.since(ms)
	return &left
}

// actions adds those of a step that are not answered.
func (w *waits) actions(step *place) {
	for _, i := range step.actions {
		action, e := w.d.p.actions[i], w.d.entry(i)
		if e.State == ActionCompleted {
			continue
		}
		one := Wait{
			Kind: WaitCommand, Step: step.name, Age: w.since(e.DispatchedAt), Action: action.Name, TypeID: action.TypeID,
			Attempt: e.Attempt - e.FirstAttempt + 1, Attempts: action.maxAttempts(), CommandID: e.CommandID,
			Left: w.until(e.Deadline), Again: w.until(e.ResendAt), Error: e.Error,
		}
		if e.Left != 0 {
			one.Left = w.until(w.d.now + e.Left)
		}
		if action.Interaction == InteractionPull {
			one.Kind, one.Asset, one.CommandID, one.Attempt, one.Attempts = WaitEvent, w.d.p.assets[i], "", 0, 0
		}
		w.all = append(w.all, one)
	}
}

// transitions adds those of edges, which lead out of from, or into it if it chooses.
func (w *waits) transitions(from *place, edges []edge, choosing bool) {
	d := w.d
	s := scope{order: d.o, execution: d.x, elapsed: d.elapsed(from), cache: &d.cache}
	for _, e := range edges {
		one := Wait{
			Kind: WaitTransition, Step: from.name, Age: w.since(d.record(from.name).Since),
			Transition: &e.index, Target: e.target, Choosing: choosing, Condition: e.condition.text, Holds: true,
		}
		if e.condition.timed {
			one.Again = w.until(d.x.WakeAt)
		}
		switch e.condition.kind {
		case conditionNever:
			one.Holds = false
		case conditionExpression:
			holds, err := e.condition.holds(s)
			switch one.Holds = holds; {
			case err != nil:
				one.Error = err.Error()
			case !holds:
				one.Causes = d.p.causes(e.condition, s)
			}
		}
		w.all = append(w.all, one)
	}
}

// causes lists the parts of c that make it false in s.
func (p *Program) causes(c *condition, s scope) []Cause {
	tree, err := parseExpression(c.text)
	if err != nil {
		return nil // it was compiled before
	}
	e := explanation{scope: s, tree: tree, actions: make(map[string]bool, len(p.actions))}
	for _, a := range p.actions {
		e.actions[a.Name] = true
	}
	e.blame(tree.Node, true)
	return e.causes
}

// explanation is that of one expression. It evaluates the parts as the expression is evaluated.
type explanation struct {
	scope   scope
	tree    *parser.Tree
	actions map[string]bool
	causes  []Cause
}

// blame adds the parts of n that keep it from being want.
func (e *explanation) blame(n ast.Node, want bool) {
	switch n := n.(type) {
	case *ast.UnaryNode:
		if isNot(n) {
			e.blame(n.Node, !want)
			return
		}
	case *ast.BinaryNode:
		if !isLogical(n.Operator) {
			break
		}
		for _, side := range []ast.Node{n.Left, n.Right} {
			if holds, _, err := e.part(side, false); err == nil && holds != want {
				e.blame(side, want)
			}
		}
		return
	}
	cause := Cause{Text: n.String(), Holds: !want}
	if n, ok := n.(*ast.BinaryNode); ok {
		cause.look(e, n.Left)
		cause.look(e, n.Right)
	}
	_, refs, _ := e.part(n, true)
	for _, r := range refs {
		cause.add(r.text, r.value(e.scope))
	}
	e.causes = append(e.causes, cause)
}

// part is the value of a part of the expression, as true or false or as any value, and what it refers to.
func (e *explanation) part(n ast.Node, anyValue bool) (v any, refs []reference, err error) {
	b := &builder{actions: e.actions}
	if err := b.build(n.String(), &parser.Tree{Node: n, Source: e.tree.Source}, anyValue); err != nil {
		return nil, nil, err
	}
	v, err = b.condition.evaluate(e.scope)
	return v, b.condition.refs, err
}

// look adds an operand of a comparison, unless it is a literal.
func (c *Cause) look(e *explanation, n ast.Node) {
	if v, refs, err := e.part(n, true); err == nil && len(refs) > 0 {
		c.add(n.String(), v)
	}
}

func (c *Cause) add(text string, v any) {
	if slices.ContainsFunc(c.Operands, func(o Operand) bool { return o.Text == text }) {
		return
	}
	value, err := jsonscan.Marshal(v)
	if err != nil { // infinite
		value, _ = jsonscan.Marshal(describeValue(v))
	}
	c.Operands = append(c.Operands, Operand{text, value})
}
