package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/nearest"
)

// Options say how Check judges a recipe that is delivered.
type Options struct {
	// AllowUnknown makes warnings of members that are not known (R036), for recipes of
	// programs that write more than Takt reads.
	AllowUnknown bool
	// Portable adds what a recipe would do differently on MicroDCS (R030, R033).
	Portable bool
}

// Check applies every rule (see Rules) to the text of a recipe as it is delivered. The
// findings stand in the order of the text; the recipe is to be refused if one is an error
// (HasErrors). Rules about the network as a whole (R020 to R023) wait until its names are
// in order. Compile is more lenient: a recipe that is stored was taken by an earlier
// version, perhaps, and runs on.
func Check(data []byte, o Options) []Finding {
	_, findings := check(data, &o)
	return findings
}

// check returns what Compile goes on with: nil when the shape is wrong. o is nil for a
// recipe that is stored.
func check(data []byte, o *Options) (*review, []Finding) {
	r, d := decode(data, o)
	if r == nil {
		return nil, d.findings
	}
	c := newReview(r, d)
	if c.delivery = o != nil; c.delivery {
		c.portable = o.Portable
	}
	for _, rule := range []func(){
		c.initialStep, c.names, c.paths, c.transitionEnds, c.actions, c.qualifiers, c.conditions, c.parameters,
		c.entries, c.exits, c.priorities, c.dead, c.waits, c.advice,
	} {
		rule()
	}
	if !c.broken() {
		c.network()
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Code, b.Code))
	})
	return c, c.findings
}

// review holds a recipe of sound shape and the findings so far.
type review struct {
	r        *Recipe
	source   *source
	findings []Finding
	delivery bool // the rules for deliveries apply
	portable bool // those for other engines do

	steps     map[string]int     // name -> first step of that name
	branches  map[string]int     // name -> first branch of that name
	places    map[string]inPath  // step name -> where it stands in a path
	compiled  []*condition       // per transition; never nil after conditions
	templates []*template        // per action, nil where Parameters have no references
	groups    map[groupKey][]int // transitions that compete, by priority, then as written
	order     []groupKey         // of groups, by first transition
	actionsOf map[string][]int   // step name -> actions
}

// inPath is the place of a step in a branch.
type inPath struct {
	branch, path, pos int
}

// groupKey names transitions of which one is chosen: those out of a step, the entries of
// a branch, or the exits of a branch.
type groupKey struct {
	source string
	entry  bool
}

func newReview(r *Recipe, d *decoder) *review {
	c := &review{
		r: r, source: d.source, findings: d.findings,
		steps: map[string]int{}, branches: map[string]int{}, places: map[string]inPath{},
		groups: map[groupKey][]int{}, actionsOf: map[string][]int{},
	}
	for i, s := range r.Steps {
		if _, twice := c.steps[s.Name]; !twice {
			c.steps[s.Name] = i
		}
	}
	for i, b := range r.Branches {
		if _, twice := c.branches[b.Name]; !twice {
			c.branches[b.Name] = i
		}
		for j, path := range b.Paths {
			for k, step := range path {
				if _, twice := c.places[step]; !twice {
					c.places[step] = inPath{i, j, k}
				}
			}
		}
	}
	for i, a := range r.Actions {
		c.actionsOf[a.Step] = append(c.actionsOf[a.Step], i)
	}
	for i, t := range r.Transitions {
		key := groupKey{t.Source, c.isEntry(t)}
		if c.groups[key] == nil {
			c.order = append(c.order, key)
		}
		c.groups[key] = append(c.groups[key], i)
	}
	for _, group := range c.groups {
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(r.Transitions[a].Priority, r.Transitions[b].Priority) })
	}
	return c
}

// ask is a question for the step, or branch, that name was probably meant to be.
func (c *review) ask(name string, branches bool) string {
	var known []string
	for _, s := range c.r.Steps {
		known = append(known, s.Name)
	}
	for _, b := range c.r.Branches {
		if branches {
			known = append(known, b.Name)
		}
	}
	return nearest.Ask(name, known)
}

// isEntry tells whether t leads from a branch to the first step of one of its paths.
func (c *review) isEntry(t Transition) bool {
	b, ok := c.branches[t.Source]
	if !ok {
		return false
	}
	at, ok := c.places[t.Target]
	return ok && at.branch == b && at.pos == 0
}

func (c *review) finding(severity, code, message, fix string, path ...any) {
	pointer, line := c.source.at(path...)
	c.findings = append(c.findings, Finding{Code: code, Severity: severity, Pointer: pointer, Line: line, Message: message, Fix: fix})
}

func (c *review) error(code, message, fix string, path ...any) {
	c.finding(SeverityError, code, message, fix, path...)
}

func (c *review) warn(code, message, fix string, path ...any) {
	c.finding(SeverityWarning, code, message, fix, path...)
}

// broken tells whether the names and paths are such that the network cannot be walked.
func (c *review) broken() bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool {
		switch f.Code {
		case "R003", "R004", "R005", "R007", "R009", "R011", "R012", "R013", "R014", "R015":
			return f.Severity == SeverityError
		}
		return false
	})
}

// initialStep: R003, R004, R005, R014.
func (c *review) initialStep() {
	if len(c.r.Steps) == 0 {
		c.error("R003", "the recipe has no step", "add a step with Initial true", "Steps")
		return
	}
	initial := -1
	for i, s := range c.r.Steps {
		switch {
		case !s.Initial:
		case initial < 0:
			initial = i
			if at, ok := c.places[s.Name]; ok {
				c.error("R014", fmt.Sprintf("the initial step %s is in a path of branch %s", s.Name, c.r.Branches[at.branch].Name),
					"start with a step before the branch", "Steps", i)
			}
		default:
			c.error("R005", fmt.Sprintf("step %s is initial, and so is %s", s.Name, c.r.Steps[initial].Name),
				"leave Initial true at one step only", "Steps", i, "Initial")
		}
	}
	if initial < 0 {
		c.error("R004", "no step is initial", "set Initial to true at the step to start with", "Steps")
	}
}

// names: R006, R007, R008.
func (c *review) names() {
	for i, s := range c.r.Steps {
		c.name("step", s.Name, "Steps", i, "Name")
		if c.steps[s.Name] != i {
			c.error("R007", fmt.Sprintf("there is another step %s", s.Name), "give each step a name of its own", "Steps", i, "Name")
		}
	}
	for i, b := range c.r.Branches {
		c.name("branch", b.Name, "Branches", i, "Name")
		if c.branches[b.Name] != i {
			c.error("R007", fmt.Sprintf("there is another branch %s", b.Name), "give each branch a name of its own", "Branches", i, "Name")
		}
		if _, ok := c.steps[b.Name]; ok {
			c.error("R007", fmt.Sprintf("a step and a branch are both called %s", b.Name), "rename the branch", "Branches", i, "Name")
		}
	}
	seen := map[string]bool{}
	for i, a := range c.r.Actions {
		c.name("action", a.Name, "Actions", i, "Name")
		if seen[a.Name] {
			c.error("R008", fmt.Sprintf("there is another action %s", a.Name), "give each action a name of its own", "Actions", i, "Name")
		}
		seen[a.Name] = true
	}
}

func (c *review) name(what, name string, path ...any) {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) >= 0
	if name == "" || len(name) > MaxNameBytes || bad {
		c.error("R006", fmt.Sprintf("%q cannot be the name of a %s", name, what),
			fmt.Sprintf("use 1 to %d of A-Z a-z 0-9 _ -", MaxNameBytes), path...)
	}
}

// paths: R011, R012, R013.
func (c *review) paths() {
	for i, b := range c.r.Branches {
		switch len(b.Paths) {
		case 0:
			c.error("R012", fmt.Sprintf("branch %s has no path", b.Name), "add paths, or remove the branch", "Branches", i)
		case 1:
			c.warn("R012", fmt.Sprintf("branch %s has one path only", b.Name), "add a path, or write the steps without a branch", "Branches", i)
		}
		for j, path := range b.Paths {
			if len(path) == 0 {
				c.error("R012", fmt.Sprintf("path %d of branch %s is empty", j+1, b.Name), "name its steps; for a path that does nothing, name a step without actions", "Branches", i, "Branches", j)
			}
			for k, step := range path {
				at := []any{"Branches", i, "Branches", j, k}
				if _, ok := c.steps[step]; !ok {
					if _, nested := c.branches[step]; nested {
						c.error("R011", fmt.Sprintf("%s is a branch: branches do not nest", step), "end this branch first and let the other follow it", at...)
					} else {
						c.error("R011", fmt.Sprintf("there is no step %s", step)+c.ask(step, false), "name a step of Steps", at...)
					}
				}
				if first := c.places[step]; first != (inPath{i, j, k}) {
					c.error("R013", fmt.Sprintf("step %s is already in path %d of branch %s", step, first.path+1, c.r.Branches[first.branch].Name),
						"give each place in a path a step of its own", at...)
				}
			}
		}
	}
}

// transitionEnds: R009, R015.
func (c *review) transitionEnds() {
	for i, t := range c.r.Transitions {
		c.transitionEnd("Source", t.Source, i, false)
		c.transitionEnd("Target", t.Target, i, c.isEntry(t))
	}
}

func (c *review) transitionEnd(member, name string, i int, entry bool) {
	_, step := c.steps[name]
	_, branch := c.branches[name]
	if !step && !branch {
		c.error("R009", fmt.Sprintf("there is no step or branch %q", name)+c.ask(name, true), "name one of Steps or Branches", "Transitions", i, member)
		return
	}
	if at, ok := c.places[name]; ok && !branch && !entry {
		b := c.r.Branches[at.branch].Name
		fix := "let the transition lead to the branch " + b
		if member == "Source" {
			fix = "let the transition start at the branch " + b + ", which it leaves when its paths are done"
		}
		c.error("R015", fmt.Sprintf("step %s is inside branch %s: no transition may jump into or out of it", name, b), fix, "Transitions", i, member)
	}
}

// actions: R010, R027, R029.
func (c *review) actions() {
	for i, a := range c.r.Actions {
		if _, ok := c.steps[a.Step]; !ok {
			c.error("R010", fmt.Sprintf("action %s belongs to %q, which is no step", a.Name, a.Step)+c.ask(a.Step, false), "name one of Steps", "Actions", i, "Step")
		}
		if a.TimeoutSeconds < 1 || a.TimeoutSeconds > MaxTimeoutSeconds {
			c.error("R027", fmt.Sprintf("action %s has a time-out of %d s", a.Name, a.TimeoutSeconds),
				fmt.Sprintf("write 1 to %d", MaxTimeoutSeconds), "Actions", i, "TimeoutSeconds")
		}
		if badType(a.TypeID) {
			c.error("R029", fmt.Sprintf("action %s has the type %q", a.Name, a.TypeID), "write the CloudEvents type of the command or event, 1 to 256 characters without spaces, not that of a job method", "Actions", i, "TypeId")
		}
		if a.Cancel != nil {
			c.cancel(i, a)
		}
	}
}

// cancel: R043.
func (c *review) cancel(i int, a Action) {
	switch {
	case a.Interaction == InteractionPull:
		c.error("R043", fmt.Sprintf("action %s awaits an event, and no command of it can be called off", a.Name), "remove Cancel", "Actions", i, "Cancel")
	case badType(a.Cancel.TypeID):
		c.error("R043", fmt.Sprintf("the Cancel of action %s has the type %q", a.Name, a.Cancel.TypeID), "write the CloudEvents type of the command, 1 to 256 characters without spaces, not that of a job method", "Actions", i, "Cancel", "TypeId")
	case a.Cancel.TimeoutSeconds < 1 || a.Cancel.TimeoutSeconds > MaxTimeoutSeconds:
		c.error("R043", fmt.Sprintf("the Cancel of action %s has a time-out of %d s", a.Name, a.Cancel.TimeoutSeconds), fmt.Sprintf("write 1 to %d", MaxTimeoutSeconds), "Actions", i, "Cancel", "TimeoutSeconds")
	}
}

// jobMethods begins the types of the job methods, which have a meaning of their own on the topics of equipment.
const jobMethods = "org.opcfoundation.ISA95-JOBCONTROL_V2."

func badType(typeID string) bool {
	return typeID == "" || len(typeID) > 256 || strings.HasPrefix(typeID, jobMethods) || strings.ContainsFunc(typeID, func(r rune) bool { return r <= ' ' || r >= 0x7f && r <= 0x9f })
}

// qualifiers: R037. N, P and P1 are carried out: at the entry of the step, and waited for.
func (c *review) qualifiers() {
	if !c.delivery {
		return
	}
	for i, a := range c.r.Actions {
		if !notCarriedOut(a.Qualifier) {
			continue
		}
		if c.r.Semantics == SemanticsCompat {
			c.warn("R037", fmt.Sprintf("action %s has the qualifier %s, which runs as N here, since Semantics is %s", a.Name, a.Qualifier, SemanticsCompat),
				"write N, if that is what is meant", "Actions", i, "Qualifier")
			continue
		}
		c.error("R037", fmt.Sprintf("action %s has the qualifier %s, which Takt does not carry out", a.Name, a.Qualifier),
			fmt.Sprintf("write N, P or P1; or add \"Semantics\": %q to the recipe, if every action may run as N", SemanticsCompat), "Actions", i, "Qualifier")
	}
}

func notCarriedOut(q Qualifier) bool {
	return slices.Contains([]Qualifier{QualifierL, QualifierD, QualifierS, QualifierR, QualifierP0}, q)
}

func (c *review) actionNames() map[string]bool {
	names := map[string]bool{}
	for _, a := range c.r.Actions {
		names[a.Name] = true
	}
	return names
}

// parameters: R039 and R041, references in Parameters. In a recipe that is stored, one that
// cannot be read is sent as it is written.
func (c *review) parameters() {
	names := c.actionNames()
	for i, a := range c.r.Actions {
		t, faults := compileParameters(a.Parameters, names)
		if a.Interaction == InteractionPull {
			if t != nil || len(faults) > 0 {
				c.warn("R039", fmt.Sprintf("Parameters of action %s have references, and those of a pull_event are not sent", a.Name), "write the values", "Actions", i, "Parameters")
			}
			t, faults = nil, nil
		}
		c.templates = append(c.templates, t)
		for _, f := range faults {
			c.finding(f.severity, f.code, fmt.Sprintf("action %s, Parameters%s: %s", a.Name, f.pointer, f.message), f.fix, "Actions", i, "Parameters")
		}
	}
	if !c.delivery { // of what is stored, a run finds out
		c.findings = slices.DeleteFunc(c.findings, func(f Finding) bool { return f.Code == "R039" || f.Code == "R041" })
	}
}

// conditions: R026, R040, R041.
func (c *review) conditions() {
	names := c.actionNames()
	known := map[string]*condition{}
	failed := map[string]error{}
	for i, t := range c.r.Transitions {
		cond, ok := known[t.Condition]
		if !ok {
			var err error
			if cond, err = compileCondition(t.Condition, names); err != nil {
				cond, failed[t.Condition] = &condition{text: t.Condition, kind: conditionExpression}, err
			}
			known[t.Condition] = cond
		}
		c.compiled = append(c.compiled, cond)
		if c.delivery && cond.patterns != nil && cond.patterns.instructions > MaxPatternInstructions {
			c.error("R040", fmt.Sprintf("the patterns of condition %q compile to %d instructions", clipped(cond.text, 0), cond.patterns.instructions),
				fmt.Sprintf("keep them at most %d: shorten repeats such as {0,1000}", MaxPatternInstructions), "Transitions", i, "Condition")
		}
		if c.delivery && cond.fault != nil {
			c.error("R041", fmt.Sprintf("condition %q: %v", clipped(cond.text, placeOf(cond.fault)), cond.fault), "mend that part", "Transitions", i, "Condition")
		}
		if err := failed[t.Condition]; err != nil {
			c.error("R026", fmt.Sprintf("condition %q: %v", clipped(strings.TrimSpace(t.Condition), placeOf(err)), err),
				"write always, never, otherwise, or an expression over actions.<name>.ok, actions.<name>.result, job.parameters.<id>, job.id, step.t; a name with - is written actions[\"a-b\"].ok",
				"Transitions", i, "Condition")
		}
	}
}
