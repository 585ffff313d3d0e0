package chart

import (
	"cmp"
	"slices"

	"github.com/taktworks/takt/recipe"
)

// graph is a recipe as its transitions see it. The ways that are drawn as lines have no cycle; every other one is a jump.
type graph struct {
	nodes []node
	root  int
	parts []int // where the parts begin that are drawn below each other: root, and the nodes that fold has put aside

	order []int // the nodes that lines lead to, each before its successors
	idom  []int // the nearest node that every line from the root to a node passes; the root's is itself
	in    []int // how many lines lead to a node
}

// node is a step outside branches, or a branch.
type node struct {
	name    string
	branch  *recipe.Branch // nil: a step
	out     []*way         // in the order in which they are tried
	entries []*way         // of a branch, by path; nil: the path has no transition into it
}

// way is a transition between nodes, or into a path of a branch.
type way struct {
	*recipe.Transition
	index    int // in Recipe.Transitions
	from, to int // nodes; to is -1 for a name that the recipe does not have
	jump     bool
	ranked   bool // one of several, so that its priority counts
}

func newGraph(r *recipe.Recipe) *graph {
	g := &graph{}
	at := map[string]int{}
	inside := map[string]bool{}
	for _, b := range r.Branches {
		for _, path := range b.Paths {
			for _, step := range path {
				inside[step] = true
			}
		}
	}
	for _, s := range r.Steps {
		if inside[s.Name] {
			continue
		}
		if s.Initial {
			g.root = len(g.nodes)
		}
		at[s.Name] = len(g.nodes)
		g.nodes = append(g.nodes, node{name: s.Name})
	}
	for i := range r.Branches {
		b := &r.Branches[i]
		at[b.Name] = len(g.nodes)
		g.nodes = append(g.nodes, node{name: b.Name, branch: b, entries: make([]*way, len(b.Paths))})
	}
	for i := range r.Transitions {
		w := &way{Transition: &r.Transitions[i], index: i, to: -1}
		from, ok := at[w.Source]
		if !ok {
			continue
		}
		w.from = from
		n := &g.nodes[from]
		if path := n.pathFrom(w.Target); path >= 0 {
			n.entries[path] = w
			continue
		}
		if to, ok := at[w.Target]; ok {
			w.to = to
		}
		w.jump = w.to < 0
		n.out = append(n.out, w)
	}
	for _, n := range g.nodes {
		slices.SortStableFunc(n.out, func(a, b *way) int { return cmp.Compare(a.Priority, b.Priority) })
		for _, w := range n.out {
			w.ranked = len(n.out) > 1
		}
		for _, w := range n.entries {
			if w != nil {
				w.ranked = n.branch.Type == recipe.SelectionBranch && len(n.entries) > 1
			}
		}
	}
	if len(g.nodes) > 0 {
		g.parts = []int{g.root}
	}
	g.breakCycles()
	g.dominate()
	return g
}

// pathFrom returns the path that begins with step, -1 if none does.
func (n *node) pathFrom(step string) int {
	if n.branch == nil {
		return -1
	}
	return slices.IndexFunc(n.branch.Paths, func(path []string) bool { return len(path) > 0 && path[0] == step })
}

// breakCycles makes a jump of each way that leads back.
func (g *graph) breakCycles() {
	const open, done = 1, 2
	state := make([]int, len(g.nodes))
	var visit func(n int)
	visit = func(n int) {
		state[n] = open
		for _, w := range g.nodes[n].out {
			switch {
			case w.jump:
			case state[w.to] == open:
				w.jump = true
			case state[w.to] == 0:
				visit(w.to)
			}
		}
		state[n] = done
	}
	for _, n := range g.parts {
		visit(n)
	}
}

// dominate fills order, idom and in, anew after each change of what is a jump.
func (g *graph) dominate() {
	g.order = g.order[:0]
	g.idom, g.in = make([]int, len(g.nodes)), make([]int, len(g.nodes))
	seen := make([]bool, len(g.nodes))
	var visit func(n int)
	visit = func(n int) {
		seen[n] = true
		for _, w := range slices.Backward(g.nodes[n].out) {
			if !w.jump && !seen[w.to] {
				visit(w.to)
			}
		}
		g.order = append(g.order, n)
	}
	for _, n := range slices.Backward(g.parts) {
		visit(n)
	}
	slices.Reverse(g.order)
	place := make([]int, len(g.nodes))
	for i, n := range g.order {
		place[n] = i
		g.idom[n] = -1
	}
	for _, n := range g.parts {
		g.idom[n] = n
	}
	for _, n := range g.order {
		for _, w := range g.nodes[n].out {
			if w.jump {
				continue
			}
			g.in[w.to]++
			a, b := n, g.idom[w.to]
			for b >= 0 && a != b {
				if place[a] > place[b] {
					a = g.idom[a]
				} else {
					b = g.idom[b]
				}
			}
			g.idom[w.to] = a
		}
	}
}

// joins lists the nodes at which ways from n come together again, each before its successors.
func (g *graph) joins(n int) []int {
	var joins []int
	for _, m := range g.order {
		if m != g.root && g.idom[m] == n && g.in[m] > 1 {
			joins = append(joins, m)
		}
	}
	return joins
}

// landings returns for each node the names of the nodes from which jumps lead to it.
func (g *graph) landings() map[int][]string {
	from := map[int][]string{}
	for _, n := range g.order {
		for _, w := range g.nodes[n].out {
			if w.jump && w.to >= 0 && !slices.Contains(from[w.to], g.nodes[n].name) {
				from[w.to] = append(from[w.to], g.nodes[n].name)
			}
		}
	}
	return from
}

// joining lists the lines to nodes that several lead to.
func (g *graph) joining() []*way {
	var ways []*way
	for _, n := range g.order {
		for _, w := range g.nodes[n].out {
			if !w.jump && g.in[w.to] > 1 {
				ways = append(ways, w)
			}
		}
	}
	return ways
}

// fold makes a chart narrow: ways no longer come together, and of the ways of each choice only the one with most behind it
// goes on as a line. What the others lead to is drawn below, as parts of their own.
func (g *graph) fold() {
	g.cut(g.joining())
	size := make([]int, len(g.nodes))
	for _, n := range slices.Backward(g.order) {
		var on *way
		for _, w := range g.nodes[n].out {
			if w.jump {
				continue
			}
			size[n] += size[w.to]
			if on == nil || size[w.to] > size[on.to] {
				on = w
			}
		}
		size[n]++
		for _, w := range g.nodes[n].out {
			if !w.jump && w != on {
				w.jump = true
				g.parts = append(g.parts, w.to)
			}
		}
	}
	slices.Reverse(g.parts[1:])
	g.dominate()
}

// cut makes jumps of ways that cannot be drawn as lines. The last line to a node stays, so that each node is drawn.
func (g *graph) cut(ways []*way) {
	for _, w := range ways {
		if !w.jump && g.in[w.to] > 1 {
			w.jump = true
			g.in[w.to]--
		}
	}
	g.dominate()
}
