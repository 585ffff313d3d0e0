package recipe

import "fmt"

// results: R042, references in Parameters to results that are not there when the command is made, since their action
// cannot have been completed by then.
func (c *review) results(n *network) {
	s := sequence{review: c, network: n, index: map[string]int{}, after: map[string]map[string]bool{}}
	for i, a := range c.r.Actions {
		s.index[a.Name] = i
	}
	for i, t := range c.templates {
		if t == nil {
			continue
		}
		for k := range t.refs {
			s.results(i, &t.refs[k])
		}
	}
}

// sequence knows which action can be completed before another one.
type sequence struct {
	*review
	network *network
	index   map[string]int             // of actions
	after   map[string]map[string]bool // step or branch -> what can follow it
}

func (c *sequence) results(i int, ref *parameterRef) {
	absent := func(r *reference) bool {
		return (r.root == "result" || r.root == "ok") && !c.mayPrecede(c.index[r.action], i)
	}
	var refs []reference
	fails := len(ref.values) > 0 // no operand has a value
	if ref.expr != nil {
		refs = ref.expr.refs
	}
	for _, o := range ref.values {
		if o.ref != nil {
			refs = append(refs, *o.ref)
		}
		fails = fails && o.ref != nil && o.ref.root == "result" && absent(o.ref)
	}
	for k := range refs {
		if r := &refs[k]; absent(r) {
			c.absent(i, r, ref.pointer, fails)
			if fails { // it says all of the reference
				return
			}
		}
	}
}

func (c *sequence) absent(i int, r *reference, pointer string, fails bool) {
	a, b := &c.r.Actions[i], &c.r.Actions[c.index[r.action]]
	why := fmt.Sprintf("action %s cannot have been completed before", b.Name)
	if a.Name == b.Name {
		why = "it is its own action, which is not completed before its command"
	}
	message := fmt.Sprintf("action %s, Parameters%s: %s has no value when the command is made: %s", a.Name, pointer, r.text, why)
	if r.root == "ok" {
		message = fmt.Sprintf("action %s, Parameters%s: %s is false when the command is made: %s", a.Name, pointer, r.text, why)
	}
	const fix = "refer to an action of a step before this one"
	if fails {
		c.error("R042", message+", so the order is aborted", fix, "Actions", i, "Parameters")
	} else if a.Step != b.Step || a.Name == b.Name || a.maxAttempts() == 1 { // a second attempt is made later
		c.warn("R042", message, fix, "Actions", i, "Parameters")
	}
}

// mayPrecede tells whether the first action can be completed when the first command of the second in a round is made.
func (c *sequence) mayPrecede(first, second int) bool {
	a, b := &c.r.Actions[first], &c.r.Actions[second]
	if first == second {
		return false
	}
	pa, insideA := c.places[a.Step]
	pb, insideB := c.places[b.Step]
	from, to := a.Step, b.Step
	if insideA {
		from = c.r.Branches[pa.branch].Name
	}
	if insideB {
		to = c.r.Branches[pb.branch].Name
	}
	if c.after[from] == nil {
		c.after[from] = c.network.walk(c.network.all, c.network.all[from]...)
	}
	switch {
	case c.after[from][to]:
		return true
	case a.Step == b.Step: // an event that came early
		return a.Interaction == InteractionPull && first < second
	case !insideA || !insideB || pa.branch != pb.branch:
		return false
	case pa.path == pb.path:
		return pa.pos < pb.pos
	}
	return c.r.Branches[pa.branch].Type == SimultaneousBranch
}
