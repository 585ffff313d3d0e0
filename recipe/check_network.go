package recipe

import (
	"fmt"
	"slices"
)

// entries: R017, R018, R019.
func (c *review) entries() {
	for i, b := range c.r.Branches {
		if c.branches[b.Name] != i {
			continue
		}
		entered := map[int]bool{} // paths with an entry
		for _, t := range c.groups[groupKey{b.Name, true}] {
			path := c.places[c.r.Transitions[t].Target].path
			if entered[path] {
				c.error("R017", fmt.Sprintf("branch %s has a second transition to %s, the first step of its own path", b.Name, c.r.Transitions[t].Target),
					"keep one of them; to run the branch again, lead back to the branch", "Transitions", t, "Target")
			}
			entered[path] = true
			if b.Type == SimultaneousBranch && c.compiled[t].kind != conditionAlways {
				c.error("R019", fmt.Sprintf("all paths of branch %s start together, so the transition to %s cannot depend on a condition", b.Name, c.r.Transitions[t].Target),
					"write always, or remove the transition", "Transitions", t, "Condition")
			}
		}
		if len(entered) == 0 || len(entered) == len(b.Paths) {
			continue
		}
		if b.Type == SelectionBranch {
			c.error("R018", fmt.Sprintf("branch %s has transitions to %d of its %d paths", b.Name, len(entered), len(b.Paths)),
				"give each path one, with its condition", "Branches", i)
			continue
		}
		for _, t := range c.groups[groupKey{b.Name, true}] {
			c.error("R017", fmt.Sprintf("branch %s seems to exit to %s, the first step of its own path: that cannot be told from an entry", b.Name, c.r.Transitions[t].Target),
				"lead back to the branch to run it again; or give each path an entry", "Transitions", t, "Target")
		}
	}
}

// exits: R016.
func (c *review) exits() {
	for i, b := range c.r.Branches {
		if b.Type != SimultaneousBranch || c.branches[b.Name] != i {
			continue
		}
		exits := c.groups[groupKey{b.Name, false}]
		if follower := c.orphan(b.Name); len(exits) == 0 && follower != "" {
			c.error("R016", fmt.Sprintf("branch %s has no exit, but nothing else leads to %s", b.Name, follower),
				"add a transition from the branch to what follows it", "Branches", i)
		}
		for k, t := range exits {
			for _, before := range exits[:k] {
				if why := c.overlap(before, t); why != "" {
					c.error("R016", fmt.Sprintf("two exits of simultaneous branch %s, to %s and to %s, %s", b.Name, c.r.Transitions[before].Target, c.r.Transitions[t].Target, why),
						"give them different priorities and conditions that exclude each other", "Transitions", t)
					break
				}
			}
		}
	}
}

// overlap says why two exits, the first of which goes first, are ambiguous; "" if not.
func (c *review) overlap(first, second int) string {
	a, b := c.compiled[first], c.compiled[second]
	switch {
	case c.r.Transitions[first].Priority == c.r.Transitions[second].Priority:
		return "have the same priority"
	case a.kind == conditionAlways:
		return "are not exclusive: the first is always true"
	case a.kind == b.kind && a.text == b.text && a.kind != conditionNever:
		return "have the same condition"
	}
	return ""
}

// orphan returns a step outside branches, or a branch other than this one, that no
// transition leads to and that is not where the recipe starts; "" if there is none.
func (c *review) orphan(branch string) string {
	target := map[string]bool{}
	for _, t := range c.r.Transitions {
		target[t.Target] = true
	}
	for _, s := range c.r.Steps {
		if _, inside := c.places[s.Name]; !inside && !s.Initial && !target[s.Name] {
			return s.Name
		}
	}
	for _, b := range c.r.Branches {
		if _, inside := c.places[b.Name]; !inside && !target[b.Name] && b.Name != branch {
			return b.Name
		}
	}
	return ""
}

// maxExclusive is among how many transitions of one priority each pair is looked at.
const maxExclusive = 100

// priorities: R024.
func (c *review) priorities() {
	for _, key := range c.order {
		if key.entry && c.r.Branches[c.branches[key.source]].Type == SimultaneousBranch {
			continue // all are taken
		}
		group := c.groups[key]
		start := 0 // of the run of equal priority
		for k, t := range group {
			if c.r.Transitions[t].Priority != c.r.Transitions[group[start]].Priority {
				start = k
			}
			if k == start {
				continue
			}
			message := fmt.Sprintf("transitions from %s to %s and to %s have the same priority %d",
				key.source, c.r.Transitions[group[start]].Target, c.r.Transitions[t].Target, c.r.Transitions[t].Priority)
			fix := "give them different priorities; the lower number goes first"
			if k-start > maxExclusive || slices.ContainsFunc(group[start:k], func(o int) bool { return !exclusive(c.compiled[o], c.compiled[t]) }) {
				c.error("R024", message, fix, "Transitions", t)
			} else {
				c.warn("R024", message+"; their conditions exclude each other", fix, "Transitions", t)
			}
		}
	}
}

// dead: R025.
func (c *review) dead() {
	for _, key := range c.order {
		if key.entry && c.r.Branches[c.branches[key.source]].Type == SimultaneousBranch {
			continue
		}
		group := c.groups[key]
		live := c.live(group)
		for _, t := range group {
			if !slices.Contains(live, t) {
				c.warn("R025", fmt.Sprintf("the transition from %s to %s can never fire", key.source, c.r.Transitions[t].Target),
					"give it a lower priority number or another condition, or remove it", "Transitions", t)
			}
		}
	}
	for i, b := range c.r.Branches {
		if b.Type == SelectionBranch && len(b.Paths) > 1 && len(c.groups[groupKey{b.Name, true}]) == 0 {
			c.warn("R025", fmt.Sprintf("branch %s always takes its first path: no transition leads to the others", b.Name),
				"add a transition from the branch to the first step of each path, with its condition", "Branches", i)
		}
	}
}

// live returns the transitions of a group that can fire: not never, not after one that is
// always true, and of several otherwise the first.
func (c *review) live(group []int) []int {
	always := slices.ContainsFunc(group, func(t int) bool { return c.compiled[t].kind == conditionAlways })
	var live []int
	otherwise := always
	for _, t := range group {
		switch c.compiled[t].kind {
		case conditionNever:
			continue
		case conditionOtherwise:
			if otherwise {
				continue
			}
			otherwise = true
		}
		live = append(live, t)
		if c.compiled[t].kind == conditionAlways {
			break
		}
	}
	return live
}

// network: R020, R021, R022, R023, R042, and the loops of R033. The nodes are the steps outside
// branches and the branches; the names are in order (see broken).
func (c *review) network() {
	n := c.newNetwork()
	reached := n.walk(n.all, n.initial)
	for _, name := range n.names {
		if !reached[name] {
			c.error("R020", name+" cannot be reached from the initial step", "add a transition to it, or remove it", n.at(name)...)
		}
	}
	if !c.r.AllowEndless {
		c.ends(n, reached)
	}
	for _, name := range n.firstOfLoops(n.free) {
		c.error("R023", fmt.Sprintf("a loop through %s has no action, and its transitions are always true: it would never rest", name),
			"add an action to a step of the loop, or a condition", n.at(name)...)
	}
	if loops := n.firstOfLoops(n.all); len(loops) > 0 && c.portable {
		c.warn("R033", fmt.Sprintf("the recipe has a loop through %s: MicroDCS leaves it at once, or hangs", loops[0]), "give the way out of the loop the lowest number", n.at(loops[0])...)
	}
	if c.delivery {
		c.results(n)
	}
}

func (c *review) ends(n *network, reached map[string]bool) {
	var ends []string
	back := map[string][]string{}
	for _, name := range n.names {
		if len(n.all[name]) == 0 {
			ends = append(ends, name)
		}
		for _, target := range n.open[name] {
			back[target] = append(back[target], name)
		}
	}
	if len(ends) == 0 {
		c.error("R022", "the recipe has no end: every step and branch has a transition out of it", "add a step without one, or set AllowEndless", "Transitions")
		return
	}
	ending := n.walk(back, ends...)
	for _, name := range n.names {
		if reached[name] && (!ending[name] || n.stuck[name]) {
			c.error("R021", "from "+name+" no end can be reached", "add a transition that can fire and leads on to an end, or set AllowEndless", n.at(name)...)
		}
	}
}

// network is the recipe as a graph.
type network struct {
	c       *review
	names   []string
	initial string
	all     map[string][]string // all transitions but the entries of branches
	open    map[string][]string // those that can fire
	free    map[string][]string // those that fire at once, between nodes without actions
	stuck   map[string]bool     // selection branches none of whose paths can be taken
}

func (c *review) newNetwork() *network {
	n := &network{c: c, all: map[string][]string{}, open: map[string][]string{}, free: map[string][]string{}, stuck: map[string]bool{}}
	idle := map[string]bool{}
	for _, s := range c.r.Steps {
		if _, inside := c.places[s.Name]; inside {
			continue
		}
		n.names = append(n.names, s.Name)
		idle[s.Name] = len(c.actionsOf[s.Name]) == 0
		if s.Initial {
			n.initial = s.Name
		}
	}
	for _, b := range c.r.Branches {
		n.names = append(n.names, b.Name)
		idle[b.Name] = c.idleBranch(b)
		entries := c.groups[groupKey{b.Name, true}]
		n.stuck[b.Name] = b.Type == SelectionBranch && len(entries) > 0 && len(c.live(entries)) == 0
	}
	for _, key := range c.order {
		if key.entry {
			continue
		}
		group := c.groups[key]
		live := c.live(group)
		for _, t := range group {
			target := c.r.Transitions[t].Target
			n.all[key.source] = append(n.all[key.source], target)
			if !slices.Contains(live, t) {
				continue
			}
			n.open[key.source] = append(n.open[key.source], target)
			if kind := c.compiled[t].kind; idle[key.source] && idle[target] && (kind == conditionAlways || kind == conditionOtherwise) {
				n.free[key.source] = append(n.free[key.source], target)
			}
		}
	}
	return n
}

// idleBranch tells whether b can be passed without any action.
func (c *review) idleBranch(b Branch) bool {
	idlePath := func(path []string) bool {
		return !slices.ContainsFunc(path, func(step string) bool { return len(c.actionsOf[step]) > 0 })
	}
	entries := c.groups[groupKey{b.Name, true}]
	switch {
	case b.Type == SimultaneousBranch:
		return !slices.ContainsFunc(b.Paths, func(path []string) bool { return !idlePath(path) })
	case len(entries) == 0:
		return idlePath(b.Paths[0])
	}
	return slices.ContainsFunc(c.live(entries), func(t int) bool {
		kind := c.compiled[t].kind
		return (kind == conditionAlways || kind == conditionOtherwise) && idlePath(b.Paths[c.places[c.r.Transitions[t].Target].path])
	})
}

// at is the path of a node in the text.
func (n *network) at(name string) []any {
	if i, ok := n.c.branches[name]; ok {
		return []any{"Branches", i}
	}
	return []any{"Steps", n.c.steps[name]}
}

// walk returns what can be reached over edges from the given nodes, themselves included.
func (n *network) walk(edges map[string][]string, from ...string) map[string]bool {
	reached := map[string]bool{}
	for len(from) > 0 {
		name := from[len(from)-1]
		from = from[:len(from)-1]
		if !reached[name] {
			reached[name] = true
			from = append(from, edges[name]...)
		}
	}
	return reached
}

// firstOfLoops returns one node of each loop over edges: the one at which a walk in the
// order of the recipe closes it.
func (n *network) firstOfLoops(edges map[string][]string) []string {
	const open, done = 1, 2
	state := map[string]int{}
	var loops []string
	var visit func(name string)
	visit = func(name string) {
		state[name] = open
		for _, target := range edges[name] {
			switch state[target] {
			case 0:
				visit(target)
			case open:
				if !slices.Contains(loops, target) {
					loops = append(loops, target)
				}
			}
		}
		state[name] = done
	}
	for _, name := range n.names {
		if state[name] == 0 {
			visit(name)
		}
	}
	return loops
}
