package chart

import "iter"

// A drawing is a chart as boxes, lines and texts in one plane, from which the picture and the text are made. All measures are in
// the unit of its metrics. A rectangle holds its left and upper edge and not its right and lower one.
type drawing struct {
	boxes []box
	lines []line
	texts []text
}

type rect struct{ x, y, w, h int }

func (a rect) overlaps(b rect) bool {
	return a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h
}

type boxKind string

const (
	boxStep    boxKind = "step"
	boxInitial boxKind = "initial"
	boxAction  boxKind = "action" // one action; its cells stand at cuts
	boxEnd     boxKind = "end"
)

type box struct {
	rect
	kind  boxKind
	id    int    // of the step or end; its actions have it, too
	state string // of a run: "", or a class of the style sheet
	title string
	cuts  []int // of an action: where its inner borders stand
	first bool  // of an action: the first and the last of its table
	last  bool
}

type lineKind string

const (
	lineLink    lineKind = "link"    // down from y1 to y2, which is not part of it
	lineConnect lineKind = "connect" // right, from a step to its actions
	lineBar     lineKind = "bar"     // of a transition
	lineSingle  lineKind = "single"  // of a selection
	lineDouble  lineKind = "double"  // of simultaneous paths
	lineJump    lineKind = "jump"    // down; its end has an arrowhead
	lineLanding lineKind = "landing" // right, to a link, with an arrowhead
)

type line struct {
	x1, y1, x2, y2 int
	kind           lineKind
	state          string
	title          string
}

type textStyle string

const (
	styleStep      textStyle = "name"
	styleNote      textStyle = "note" // T and iteration of a step
	styleQualifier textStyle = "qualifier"
	styleAction    textStyle = "what"
	styleKind      textStyle = "kind" // the type of a command or event
	styleTime      textStyle = "time"
	styleState     textStyle = "progress" // of an action
	styleCondition textStyle = "condition"
	stylePriority  textStyle = "priority"
	styleWait      textStyle = "wait"
	styleBranch    textStyle = "branch"
	styleJump      textStyle = "target"
	styleLanding   textStyle = "origin"
	styleEnd       textStyle = "over"
	styleHead      textStyle = "head"
)

type text struct {
	rect         // as estimated
	s     string // as shown
	title string // in full, where s was cut
	style textStyle
	align alignment // in its rectangle
	state string
	box   int // the id of the box that it stands in, 0 = none
}

type alignment int

const (
	atStart alignment = iota
	atMiddle
	atEnd
)

// place moves everything so that the drawing begins at a margin, and returns its size.
func (d *drawing) place(margin int) (width, height int) {
	left, top, right, bottom := d.bounds()
	d.move(margin-left, margin-top)
	return right - left + 2*margin, bottom - top + 2*margin
}

func (d *drawing) bounds() (left, top, right, bottom int) {
	first := true
	for r := range d.extents() {
		if first {
			left, top, right, bottom, first = r.x, r.y, r.x+r.w, r.y+r.h, false
		}
		left, top = min(left, r.x), min(top, r.y)
		right, bottom = max(right, r.x+r.w), max(bottom, r.y+r.h)
	}
	return left, top, right, bottom
}

// extents lists the room that everything takes.
func (d *drawing) extents() iter.Seq[rect] {
	return func(yield func(rect) bool) {
		for i := range d.boxes {
			if !yield(d.boxes[i].rect) {
				return
			}
		}
		for i := range d.lines {
			if !yield(d.lines[i].extent()) {
				return
			}
		}
		for i := range d.texts {
			if !yield(d.texts[i].rect) {
				return
			}
		}
	}
}

// extent is the room that l takes. A line has a thickness, so that it is something to run into; bars and the lines of
// branches hold both their ends.
func (l *line) extent() rect {
	switch l.kind {
	case lineBar, lineSingle, lineDouble:
		return rect{l.x1, l.y1, l.x2 - l.x1 + 1, max(1, l.y2-l.y1)}
	}
	if l.x1 == l.x2 {
		return rect{l.x1, l.y1, 1, l.y2 - l.y1}
	}
	return rect{l.x1, l.y1, l.x2 - l.x1, 1}
}

func (d *drawing) move(dx, dy int) {
	for i := range d.boxes {
		b := &d.boxes[i]
		b.x, b.y = b.x+dx, b.y+dy
		for k := range b.cuts {
			b.cuts[k] += dx
		}
	}
	for i := range d.lines {
		l := &d.lines[i]
		l.x1, l.x2, l.y1, l.y2 = l.x1+dx, l.x2+dx, l.y1+dy, l.y2+dy
	}
	for i := range d.texts {
		d.texts[i].x += dx
		d.texts[i].y += dy
	}
}

func (d *drawing) add(o drawing) {
	d.boxes = merge(d.boxes, o.boxes)
	d.lines = merge(d.lines, o.lines)
	d.texts = merge(d.texts, o.texts)
}

// merge adds the shorter slice to the longer one, so that what is drawn first is not copied again for each step before it.
func merge[E any](a, b []E) []E {
	if len(a) < len(b) {
		a, b = b, a
	}
	return append(a, b...)
}
