package chart

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/taktworks/takt/recipe"
)

// layout draws a graph from the top down. What follows a node stands below it on the same link, its spine; the other ways
// of a choice stand in columns to the right, each as far to the left as the columns before it let it, so that short ways
// take no room beside long ones. Ways come together below the node from which they parted. A way that could get there only
// across something else becomes a jump, and so does one that would pass by much.
type layout struct {
	*metrics
	r       *recipe.Recipe
	g       *graph
	live    *state // nil: no run
	actions map[string][]*recipe.Action
	lead    map[int][]string // by node: where jumps to it come from
	spine   *columns         // of the steps outside branches and of first paths, which stand on the same links
	ids     int
	crossed []*way // cannot be drawn as lines
}

// block is a part of the drawing whose spine is at x = 0; y is where its next part begins.
type block struct {
	drawing
	y     int
	ends  []end
	nodes int // how many it has
	rank  int // of several ways: when it is tried
	top   int // and where the last of those that came together in it begins
}

// end is a way that is not joined yet to the node that it leads to. The room below it stays free.
type end struct {
	x, y int
	way  *way
}

// columns are the widths that steps below each other have in common.
type columns struct {
	step, qualifier, action, time, state int
}

// skip is how many nodes a way without steps passes by at most; a longer one is a jump.
const skip = 6

// passes bounds how often a chart is drawn to find its jumps. One with more than that many knots gets a jump wherever ways
// would come together.
const passes = 20

// draw lays g out, the graph of r, and makes jumps in it. It may be drawn again with other metrics.
func draw(r *recipe.Recipe, g *graph, m metrics, live *state) drawing {
	l := &layout{metrics: &m, r: r, g: g, live: live, actions: map[string][]*recipe.Action{}}
	for i := range r.Actions {
		a := &r.Actions[i]
		l.actions[a.Step] = append(l.actions[a.Step], a)
	}
	var main []string
	for _, n := range l.g.nodes {
		if n.branch == nil {
			main = append(main, n.name)
		} else if len(n.branch.Paths) > 0 {
			main = append(main, n.branch.Paths[0]...)
		}
	}
	l.spine = l.columns(main)
	if len(l.g.nodes) == 0 {
		return drawing{}
	}
	for pass := 0; ; pass++ {
		l.ids, l.crossed, l.lead = 0, nil, l.g.landings()
		b := l.heading()
		for i, n := range l.g.parts {
			if i > 0 {
				_, _, _, bottom := b.bounds()
				b.y = bottom + 2*l.clear
			}
			b.follow(l.region(n, b.y))
		}
		for _, e := range b.ends {
			l.crossed = append(l.crossed, e.way)
		}
		if len(l.crossed) == 0 {
			return b.drawing
		}
		if pass == passes {
			l.crossed = l.g.joining()
		}
		l.g.cut(l.crossed)
	}
}

// heading is the state of the run.
func (l *layout) heading() block {
	var b block
	if l.live == nil {
		return b
	}
	words := l.live.heading()
	lines, cut := l.wrap(styleHead, words, l.condition+l.stepMax/2, 4)
	for _, s := range lines {
		t := l.text(&b, styleHead, s, -l.spine.step/2, b.y)
		t.state = l.live.phase()
		if cut {
			t.title = words
		}
		b.y += l.line(styleHead)
	}
	b.y += max(1, l.metrics.lead)
	return b
}

func (l *layout) columns(steps []string) *columns {
	c := &columns{step: l.stepMin}
	for _, name := range steps {
		s, _ := l.short(styleStep, clean(name), l.stepMax)
		c.step = max(c.step, l.width(styleStep, s)+2*l.cell+2)
		if l.live != nil {
			c.step = max(c.step, l.width(styleStep, l.live.mark(name)+s)+2*l.cell+2, l.width(styleNote, l.live.note(name))+2*l.cell+2)
		}
		for _, a := range l.shown(name) {
			c.qualifier = max(c.qualifier, l.width(styleQualifier, clean(string(a.Qualifier)))+2*l.cell)
			s, _ := l.short(styleAction, what(a), l.action)
			c.action = max(c.action, l.width(styleAction, s)+2*l.cell)
			if l.kinds {
				c.action = max(c.action, l.width(styleKind, l.tail(styleKind, clean(a.TypeID), l.action))+2*l.cell)
			}
			c.time = max(c.time, l.width(styleTime, timing(a))+2*l.cell)
			if l.live != nil { // with room for most, so that the chart does not change its shape all the time
				s, _ = l.short(styleState, l.live.progress(a), l.action)
				c.state = max(c.state, l.width(styleState, s)+2*l.cell, l.width(styleState, "waits, 59.9s left")+2*l.cell)
			}
		}
	}
	c.step += c.step & 1 // the spine is in the middle
	if l.single > 0 {
		c.step++ // it takes a cell of a terminal
	}
	return c
}

// shown are the actions of a step that the medium has room for.
func (l *layout) shown(step string) []*recipe.Action {
	if state := l.live.entered(step); l.bare && state != stateActive && state != stateFailed {
		return nil
	}
	return l.actions[step]
}

func (l *layout) text(b *block, style textStyle, s string, x, y int) *text {
	b.texts = append(b.texts, text{rect: rect{x, y, l.width(style, s), l.line(style)}, s: s, style: style})
	return &b.texts[len(b.texts)-1]
}

// link leads from y1 to y2. One without a length says that both touch.
func (b *block) link(x, y1, y2 int) {
	b.lines = append(b.lines, line{x1: x, y1: y1, x2: x, y2: y2, kind: lineLink})
}

// region draws node n from y down, with all that is only reached through it.
func (l *layout) region(n, y int) block {
	b := block{y: y}
	b.follow(l.node(n, y))
	outs := l.g.nodes[n].out
	for ; len(outs) == 1; outs = l.g.nodes[n].out {
		w := outs[0]
		b.follow(l.transition(w, b.y))
		if l.stops(&b, w) {
			return b
		}
		n = w.to
		b.follow(l.node(n, b.y))
	}
	if len(outs) == 0 {
		l.end(&b)
		return b
	}
	fork := b.y + l.fork
	b.link(0, b.y, fork)
	var ways []block
	for i, out := range outs {
		w := l.way(out, fork+l.single)
		w.rank = i
		ways = append(ways, w)
	}
	for _, join := range l.g.joins(n) {
		var together, apart []block
		for _, w := range ways {
			if slices.ContainsFunc(w.ends, func(e end) bool { return e.way.to == join }) {
				together = append(together, w)
			} else {
				apart = append(apart, w)
			}
		}
		if len(together) > 0 {
			joined := l.abreast(together)
			l.join(&joined, join)
			ways = append(apart, joined)
			slices.SortFunc(ways, func(v, w block) int { return cmp.Compare(v.rank, w.rank) })
		}
	}
	// The spine goes on with what is tried first, unless that is little beside another way.
	spine := 0
	for i, w := range ways {
		if w.nodes > 3*ways[spine].nodes {
			spine = i
		}
	}
	first := ways[spine]
	all := l.abreast(append([]block{first}, slices.Delete(ways, spine, spine+1)...))
	b.lines = append(b.lines, line{x1: 0, y1: fork, x2: all.top, y2: fork, kind: lineSingle})
	b.follow(all)
	return b
}

// shift moves b to the right.
func (b *block) shift(x int) {
	b.move(x, 0)
	for i := range b.ends {
		b.ends[i].x += x
	}
}

// abreast puts ways side by side.
func (l *layout) abreast(ways []block) block {
	all := ways[0]
	for _, w := range ways[1:] {
		l.beside(&all, w)
	}
	return all
}

// follow adds what stands below b on its spine.
func (b *block) follow(o block) {
	b.drawing.add(o.drawing)
	b.ends = append(b.ends, o.ends...)
	b.nodes += o.nodes
	b.y = o.y
}

// beside adds o to the right of b.
func (l *layout) beside(b *block, o block) {
	x := 0
	added := slices.Collect(o.room())
	top, bottom := math.MaxInt, math.MinInt
	for _, r := range added {
		top, bottom = min(top, r.y), max(bottom, r.y+r.h)
	}
	for there := range b.room() {
		if there.y >= bottom+l.clear || there.y+there.h+l.clear <= top {
			continue
		}
		for _, r := range added {
			if there.y < r.y+r.h+l.clear && r.y < there.y+there.h+l.clear {
				x = max(x, there.x+there.w+l.gap-r.x)
			}
		}
	}
	o.shift(x)
	y := b.y
	b.follow(o)
	b.y, b.top = y, x+o.top
}

// room is what nothing else may stand in.
func (b *block) room() iter.Seq[rect] {
	return func(yield func(rect) bool) {
		for r := range b.extents() {
			if !yield(r) {
				return
			}
		}
		for _, e := range b.ends {
			if !yield(rect{e.x, e.y, 1, math.MaxInt32}) {
				return
			}
		}
	}
}

// join brings the ways to a node together below b, and goes on with the node.
func (l *layout) join(b *block, n int) {
	var ends, others []end
	for _, e := range b.ends {
		if e.way.to == n {
			ends = append(ends, e)
		} else {
			others = append(others, e)
		}
	}
	if len(ends) == 0 {
		return
	}
	x, right := ends[0].x, ends[0].x
	for _, e := range ends {
		x, right = min(x, e.x), max(right, e.x)
		if l.g.in[n] > 1 && b.nodes > skip && e.way.from == l.g.idom[n] {
			l.crossed = append(l.crossed, e.way)
		}
	}
	if !slices.ContainsFunc(others, func(e end) bool { return e.x < right }) {
		x = 0 // nothing has to pass to the left of the node
	}
	_, _, _, y := b.bounds()
	if x < right {
		y += l.fork
		b.lines = append(b.lines, line{x1: x, y1: y, x2: right, y2: y, kind: lineSingle})
	}
	for _, e := range ends {
		b.link(e.x, e.y, y)
	}
	if x < right {
		y += l.single
	}
	rest := l.region(n, y)
	rest.shift(x)
	left, _, beyond, _ := rest.bounds()
	left, right = min(left, x), max(right, beyond)
	b.ends = nil
	for _, e := range others {
		if left-l.gap <= e.x && e.x <= right+l.gap {
			l.crossed = append(l.crossed, e.way)
		} else {
			b.ends = append(b.ends, e)
		}
	}
	b.follow(rest)
}

// way draws a transition and what it leads to, unless other ways lead there, too.
func (l *layout) way(w *way, y int) block {
	b := l.transition(w, y)
	if !l.stops(&b, w) {
		b.follow(l.region(w.to, b.y))
	}
	return b
}

// stops ends b after the transition of w if its target is drawn elsewhere, and tells whether it did.
func (l *layout) stops(b *block, w *way) bool {
	switch {
	case w.jump:
		l.jump(b, w)
	case l.g.in[w.to] == 1:
		return false
	default:
		b.ends = append(b.ends, end{0, b.y, w})
	}
	return true
}

// transition draws a bar with its condition beside it. A nil way is one that the recipe does not write down: from step to
// step of a path.
func (l *layout) transition(w *way, y int) block {
	b := block{}
	at := y + l.above
	height := l.line(styleCondition)
	bar := line{x1: -l.bar, y1: at + height/2, x2: l.bar, y2: at + height/2, kind: lineBar, title: "as soon as the step is done"}
	if w != nil {
		bar.title = ""
		full := condition(w)
		lines, cut := l.wrap(styleCondition, full, l.condition, l.lines)
		x := l.bar + l.cell + l.single
		for i, s := range lines {
			t := l.text(&b, styleCondition, s, x, at+i*height)
			if cut {
				t.title = full
			}
			if full == "always" {
				t.state = "always"
			}
		}
		height *= len(lines)
		if wait := l.live.wait(w.index); wait != "" {
			lines, cut := l.wrap(styleWait, wait, l.condition, l.lines)
			for _, s := range lines {
				t := l.text(&b, styleWait, s, x, at+height)
				if cut {
					t.title = wait
				}
				height += l.line(styleWait)
			}
			bar.state = "waits"
		}
		if w.ranked {
			s := fmt.Sprint(w.Priority)
			t := l.text(&b, stylePriority, s, -l.bar-max(1, l.cell/2)-l.width(stylePriority, s), at)
			t.align, t.title = atEnd, "priority: the lowest number is tried first"
		}
	}
	b.y = at + height + l.below
	b.link(0, y, b.y)
	b.lines = append(b.lines, bar)
	return b
}

// jump ends a way with an arrow and the name of its target.
func (l *layout) jump(b *block, w *way) {
	b.lines = append(b.lines, line{x1: 0, y1: b.y, x2: 0, y2: b.y + l.metrics.jump, kind: lineJump})
	s, cut := l.short(styleJump, clean(w.Target), l.stepMax)
	t := l.text(b, styleJump, s, l.bar/2+max(1, l.single)+l.single, b.y+l.metrics.jump-l.line(styleJump))
	if cut {
		t.title = clean(w.Target)
	}
	b.y += l.metrics.jump
}

// end ends a chart below a step or branch without a way out.
func (l *layout) end(b *block) {
	b.link(0, b.y, b.y+max(1, l.metrics.lead))
	b.y += max(1, l.metrics.lead)
	l.ids++
	r := rect{-l.endW / 2, b.y, l.endW, l.endH}
	b.boxes = append(b.boxes, box{rect: r, kind: boxEnd, id: l.ids, first: true, last: true})
	t := l.text(b, styleEnd, "End", 0, b.y+(l.endH-l.line(styleEnd))/2)
	t.x, t.w, t.align, t.box = r.x+1, r.w-2, atMiddle, l.ids
	b.y += l.endH
}

// node draws a step or a branch from y down, with the link that leads to it.
func (l *layout) node(n, y int) block {
	node := &l.g.nodes[n]
	b := block{y: y, nodes: 1}
	if from := l.lead[n]; len(from) > 0 {
		l.landing(&b, from)
	}
	if node.branch != nil {
		l.branch(&b, node)
		return b
	}
	if n != l.g.root || b.y > y {
		b.link(0, b.y, b.y+l.metrics.lead)
		b.y += l.metrics.lead
	}
	l.step(&b, node.name, l.spine)
	return b
}

// landing marks the target of jumps: an arrow into its link, with the names of the steps that they come from.
func (l *layout) landing(b *block, from []string) {
	full := clean(strings.Join(from, ", "))
	s, cut := l.short(styleLanding, full, l.stepMax)
	b.link(0, b.y, b.y+l.metrics.landing)
	middle := b.y + l.metrics.landing/2
	b.lines = append(b.lines, line{x1: -l.arrow, y1: middle, x2: 0, y2: middle, kind: lineLanding})
	x := -l.arrow - max(1, l.cell/2) - l.width(styleLanding, s)
	t := l.text(b, styleLanding, s, x, b.y+(l.metrics.landing-l.line(styleLanding))/2)
	t.align = atEnd
	if cut {
		t.title = full
	}
	b.y += l.metrics.landing
}

// step draws a step with its actions.
func (l *layout) step(b *block, name string, c *columns) {
	l.ids++
	id, top := l.ids, b.y
	state, note, mark := l.live.step(name)
	s, cut := l.short(styleStep, mark+clean(name), c.step-2*l.cell-2)
	height := l.metrics.step + l.stepLine
	if note != "" || l.kinds {
		height = l.metrics.step + 2*l.stepLine
	}
	kind := boxStep
	if slices.ContainsFunc(l.r.Steps, func(s recipe.Step) bool { return s.Name == name && s.Initial }) {
		kind = boxInitial
	}
	r := rect{-c.step / 2, top, c.step, height}
	b.boxes = append(b.boxes, box{rect: r, kind: kind, id: id, state: state, first: true, last: true})
	if cut {
		b.boxes[len(b.boxes)-1].title = clean(name)
	}
	inner := rect{r.x + l.cell, 0, r.w - 2*l.cell, 0}
	line := func(style textStyle, s string, y int) {
		t := l.text(b, style, s, inner.x, y)
		t.w, t.align, t.box, t.state = inner.w, atMiddle, id, state
	}
	free := height - l.line(styleStep)
	if note != "" {
		free -= l.line(styleNote)
		line(styleNote, note, top+free/2+l.line(styleStep))
	}
	line(styleStep, s, top+free/2)
	b.y = top + height
	bottom := b.y
	if actions := l.shown(name); len(actions) > 0 {
		bottom = max(bottom, l.table(b, actions, id, r.x+r.w, top, c))
	}
	b.link(0, b.y, bottom)
	b.y = bottom
}

// table draws the actions of a step beside it, and returns where it ends.
func (l *layout) table(b *block, actions []*recipe.Action, id, x, top int, c *columns) (bottom int) {
	left := x + l.tie
	b.lines = append(b.lines, line{x1: x, y1: top + l.connect, x2: left, y2: top + l.connect, kind: lineConnect})
	y := top + l.frame
	for i, a := range actions {
		b.boxes = append(b.boxes, l.row(b, a, id, left, y, c))
		last := &b.boxes[len(b.boxes)-1]
		last.first, last.last = i == 0, i == len(actions)-1
		y += l.metrics.row
	}
	return y + l.frame
}

// row draws one action.
func (l *layout) row(b *block, a *recipe.Action, id, x, y int, c *columns) box {
	state := l.live.action(a)
	progress := l.live.progress(a)
	row := box{rect: rect{x, y, 0, l.metrics.row}, kind: boxAction, id: id, state: state, title: describe(a)}
	if progress != "" {
		row.title += "; " + progress
	}
	cell := func(width int, texts ...text) {
		border := l.frame // a border takes a cell of a terminal
		if len(row.cuts) > 0 || row.w > 0 {
			row.cuts = append(row.cuts, x)
		}
		height := 0
		for _, t := range texts {
			height += l.line(t.style)
		}
		top := y + (l.metrics.row-height)/2
		for _, t := range texts {
			if t.s != "" {
				added := l.text(b, t.style, t.s, x+border+l.cell, top)
				added.box, added.state = id, state
				if t.align == atMiddle {
					added.x, added.w, added.align = x+border, width, atMiddle
				}
			}
			top += l.line(t.style)
		}
		x += border + width
		row.w = x - row.x
	}
	name, _ := l.short(styleAction, what(a), l.action)
	if !l.bare {
		cell(c.qualifier, text{s: clean(string(a.Qualifier)), style: styleQualifier, align: atMiddle})
	}
	if l.kinds {
		cell(c.action, text{s: name, style: styleAction}, text{s: l.tail(styleKind, clean(a.TypeID), l.action), style: styleKind})
	} else {
		cell(c.action, text{s: name, style: styleAction})
	}
	if !l.bare {
		cell(c.time, text{s: timing(a), style: styleTime})
	}
	if c.state > 0 {
		progress, _ = l.short(styleState, progress, l.action)
		cell(c.state, text{s: progress, style: styleState})
	}
	row.w += l.frame
	return row
}

// branch draws a branch from its divergence to its convergence.
func (l *layout) branch(b *block, n *node) {
	simultaneous := n.branch.Type == recipe.SimultaneousBranch
	kind, thick := lineSingle, l.single
	if simultaneous {
		kind, thick = lineDouble, l.double
	}
	name := clean(n.name)
	if note := l.live.branch(n.name); note != "" {
		name += ": " + note
	}
	room := l.metrics.lead/2 + l.line(styleBranch)
	s, cut := l.short(styleBranch, name, l.stepMax)
	t := l.text(b, styleBranch, s, l.cell, b.y+l.metrics.lead/2-l.over/8)
	if cut {
		t.title = name
	}
	t.state = l.live.entered(n.name)
	if l.single > 0 {
		t.x++
	}
	b.link(0, b.y, b.y+room)
	fork := b.y + room
	var paths []block
	for i, path := range n.branch.Paths {
		paths = append(paths, l.path(n, i, path, fork+thick))
	}
	all := l.abreast(paths)
	_, _, _, bottom := all.bounds()
	bottom += l.fork
	for _, e := range all.ends {
		all.link(e.x, e.y, bottom)
	}
	from, to := 0, all.top
	if simultaneous {
		from, to = -l.over, all.top+l.over
	}
	for _, y := range []int{fork, bottom} {
		b.lines = append(b.lines, line{x1: from, y1: y, x2: to, y2: y + thick - l.single, kind: kind, title: clean(n.name)})
	}
	b.drawing.add(all.drawing)
	b.nodes += all.nodes
	b.y = bottom + thick
}

// path draws a path of a branch. Its end is joined by its branch.
func (l *layout) path(n *node, i int, steps []string, y int) block {
	b := block{y: y}
	if n.branch.Type == recipe.SelectionBranch {
		if w := n.entries[i]; w != nil {
			b.follow(l.transition(w, y))
		} else { // without entries the first path is taken
			t := recipe.Transition{Condition: map[bool]string{true: "always", false: "never"}[i == 0]}
			b.follow(l.transition(&way{Transition: &t, index: -1}, y))
		}
	}
	c := l.spine
	if i > 0 {
		c = l.columns(steps)
	}
	for k, step := range steps {
		if k > 0 {
			b.follow(l.transition(nil, b.y))
		}
		b.link(0, b.y, b.y+l.metrics.lead)
		b.y += l.metrics.lead
		l.step(&b, step, c)
		b.nodes++
	}
	b.ends = []end{{0, b.y, nil}}
	return b
}
