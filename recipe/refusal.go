package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// walk is the way of an order through a recipe, as far as the order alone decides it. A condition that comes to answers or
// the time may come out either way, and so may one that fails: then the run can go on to all that follows.
type walk struct {
	p       *Program
	s       scope
	entered map[string]bool // steps and branches
	left    map[string]bool
	checks  []judged // in the order in which a run comes to them
}

// judged is a condition that a run evaluates, or a command with references that it sends.
type judged struct {
	edge   *edge // nil: a command,
	action int   // of this action
	known  bool  // the order alone decides the condition
	err    error // why it fails for the order, if known
}

// place is where c stands in the recipe: conditions before commands.
func (c judged) place() int {
	if c.edge != nil {
		return c.edge.index
	}
	return MaxTransitions + c.action
}

// walk goes from the initial step to all that a run of o can come to.
func (p *Program) walk(o *Order) *walk {
	w := &walk{
		p: p, s: scope{order: o, execution: &Execution{}, cache: new(cache)},
		entered: make(map[string]bool, len(p.places)), left: make(map[string]bool, len(p.places)),
	}
	w.enter(p.initial)
	return w
}

func (w *walk) enter(name string) {
	if w.entered[name] {
		return
	}
	w.entered[name] = true
	at := w.p.places[name]
	for _, i := range at.actions {
		if w.p.templates[i] != nil {
			w.checks = append(w.checks, judged{action: i})
		}
	}
	switch {
	case at.next != "":
		w.enter(at.next)
	case at.inside != nil:
		w.leave(at.inside)
	case at.kind == "":
		w.leave(at)
	case at.kind == SelectionBranch && len(at.entries) > 0:
		w.choose(at.entries, nil)
	case at.kind == SelectionBranch:
		w.enter(at.paths[0][0])
	default:
		for _, path := range at.paths {
			w.enter(path[0])
		}
	}
}

func (w *walk) leave(at *place) {
	if w.left[at.name] {
		return
	}
	w.left[at.name] = true
	completed := at.actions
	if at.kind == SimultaneousBranch {
		for _, path := range at.paths {
			for _, step := range path {
				completed = append(completed, w.p.places[step].actions...)
			}
		}
	}
	w.choose(at.exits, completed)
}

// choose enters what decision.choose can lead to once these actions are completed.
func (w *walk) choose(edges []edge, completed []int) {
	x := &Execution{Actions: make([]ActionEntry, len(completed))}
	for i, action := range completed {
		x.Actions[i] = ActionEntry{Name: w.p.actions[action].Name, State: ActionCompleted}
	}
	s := w.s
	s.execution = x
	var targets []string
	otherwise := ""
loop:
	for i := range edges {
		e := &edges[i]
		switch e.condition.kind {
		case conditionAlways:
			targets, otherwise = append(targets, e.target), ""
			break loop
		case conditionNever:
		case conditionOtherwise:
			if otherwise == "" {
				otherwise = e.target
			}
		case conditionExpression:
			holds, known, err := e.condition.foresee(s)
			w.checks = append(w.checks, judged{edge: e, known: known, err: err})
			if holds || !known || err != nil {
				targets = append(targets, e.target)
			}
			if holds {
				otherwise = ""
				break loop
			}
		}
	}
	if otherwise != "" {
		targets = append(targets, otherwise)
	}
	for _, t := range targets {
		w.enter(t)
	}
}

func (w *walk) needs(c judged) []need {
	if c.edge != nil {
		return c.edge.condition.needs
	}
	return w.p.templates[c.action].needs
}

// missing lists the parameters that the order lacks and for want of which a condition or a command can fail, in the order
// of the recipe: those of conditions first. A parameter whose value is null is missing.
func (w *walk) missing() (names []string) {
	for _, c := range slices.SortedFunc(slices.Values(w.checks), func(a, b judged) int { return cmp.Compare(a.place(), b.place()) }) {
		evaluated := c.known && c.err == nil // without what is not certain to be looked at
		for _, n := range w.needs(c) {
			if !n.optional && (n.certain || !evaluated) && n.of(w.s.order, w.s.cache) && w.s.cache.below(w.s.order, n.path) == nil && !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
	}
	return names
}

// misfit says which parameter of the order has a value of a kind with which c fails, "" if none has.
func (w *walk) misfit(c judged) string {
	for _, n := range w.needs(c) {
		if n.kind == anyKind || !n.of(w.s.order, w.s.cache) {
			continue
		}
		v := w.s.cache.below(w.s.order, n.path)
		if tooLarge(v) && n.kind == numberKind {
			return fmt.Sprintf("parameter %s is %s, which is out of the range of numbers", n.name, v)
		}
		if v != nil && describeValue(v) != string(n.kind) {
			return fmt.Sprintf("parameter %s is %s, and must be %s", n.name, describeValue(v), n.kind)
		}
	}
	return ""
}

// Refusal says why o cannot run p: parameters that are missing, or the first condition or command that fails and depends on
// o alone, be it for a parameter of the wrong kind, or commands that are too large together. It looks at what a run of o can
// come to, and at nothing else. It is "" if nothing is known to fail.
func (p *Program) Refusal(o Order) string {
	w := p.walk(&o)
	switch missing := w.missing(); len(missing) {
	case 0:
	case 1:
		return "parameter " + missing[0] + " is missing"
	default:
		return "parameters " + strings.Join(missing, ", ") + " are missing"
	}
	sizes := make([]int, len(p.templates))
	for _, c := range w.checks {
		if c.known && c.err == nil {
			continue
		}
		if why := w.misfit(c); why != "" {
			return why
		}
		if c.err != nil {
			return c.edge.fault(c.err)
		}
		if c.edge != nil || p.templates[c.action].later {
			continue
		}
		resolved, err := p.templates[c.action].resolve(w.s)
		if err != nil {
			return "action " + p.actions[c.action].Name + ": Parameters" + err.Error()
		}
		sizes[c.action] = len(resolved)
	}
	return p.oversize(sizes)
}

// oversize says which commands that are made at once are too large together, "" if none. sizes are those of their Parameters,
// as far as they are known, by action.
func (p *Program) oversize(sizes []int) string {
	together := func(steps ...string) string {
		size := 0
		var names []string
		for _, step := range steps {
			for _, i := range p.places[step].actions {
				if size += sizes[i]; sizes[i] > 0 {
					names = append(names, p.actions[i].Name)
				}
			}
		}
		if size <= MaxResultsBytes {
			return ""
		}
		return fmt.Sprintf("the Parameters of actions %s, which are sent together, have %d bytes, and may have %d", strings.Join(names, ", "), size, MaxResultsBytes)
	}
	for _, s := range p.recipe.Steps {
		if why := together(s.Name); why != "" {
			return why
		}
	}
	for _, b := range p.recipe.Branches {
		if b.Type != SimultaneousBranch {
			continue
		}
		var first []string
		for _, path := range b.Paths {
			first = append(first, path[0])
		}
		if why := together(first...); why != "" {
			return why
		}
	}
	return ""
}
