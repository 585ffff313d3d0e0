package chart

import "strings"

// Text returns the chart for a terminal, in lines that each end with a line feed.
func (c *Chart) Text(o Options) string {
	live, g := newState(o.Live), newGraph(c.recipe)
	var d drawing
	var width, height int
	for _, narrow := range []struct {
		percent, lines int
		bare, fold     bool
	}{{100, 3, false, false}, {70, 4, false, false}, {50, 6, false, false}, {60, 6, true, false}, {70, 4, false, true}, {60, 6, true, true}, {40, 8, true, true}} {
		if narrow.fold && len(g.parts) == 1 {
			g.fold()
		}
		m := cells
		m.condition, m.action, m.stepMax = m.condition*narrow.percent/100, m.action*narrow.percent/100, m.stepMax*narrow.percent/100
		m.lines, m.bare = narrow.lines, narrow.bare
		d = draw(c.recipe, g, m, live)
		if width, height = d.place(m.margin); width <= o.Width || o.Width <= 0 {
			break
		}
	}
	s := newScreen(width, height)
	for _, b := range d.boxes {
		s.box(b)
	}
	for _, l := range d.lines {
		s.line(l)
	}
	for _, l := range d.lines {
		s.touch(l)
	}
	for _, t := range d.texts {
		s.text(t)
	}
	return s.lines(o.Width, o.Color)
}

// The directions in which a cell is connected.
const (
	up = 1 << iota
	down
	left
	right
)

// strokes are the characters by the directions in which they lead. Of a double and of a heavy one the line itself is so, and what
// touches it is light.
var strokes = map[string][]rune{
	"":       []rune(" │││─┘┐┤─└┌├─┴┬┼"),
	"double": []rune(" ║║║═╝╗╢═╚╔╟═╧╤╪"),
	"heavy":  []rune(" ┃┃┃━┛┓┨━┗┏┠━┷┯┿"),
}

// glyph is a cell of the screen.
type glyph struct {
	to     int    // directions; a line is here
	stroke string // of strokes
	r      rune   // a character; -1: the right half of the one before
	color  string // SGR parameters
}

type screen [][]glyph

func newScreen(width, height int) screen {
	s := make(screen, height)
	for y := range s {
		s[y] = make([]glyph, width)
	}
	return s
}

// at is a cell; one that is outside is thrown away.
func (s screen) at(x, y int) *glyph {
	if y < 0 || y >= len(s) || x < 0 || x >= len(s[y]) {
		return &glyph{}
	}
	return &s[y][x]
}

var stateColors = map[string]string{stateActive: "36", stateDone: "32", stateFailed: "31", "waits": "33"}

func (s screen) join(x, y, to int, stroke, color string) {
	g := s.at(x, y)
	g.to |= to
	if stroke != "" {
		g.stroke = stroke
	}
	if color != "" {
		g.color = color
	}
}

func (s screen) box(b box) {
	color := stateColors[b.state]
	stroke, top, bottom := "", b.y, b.y+b.h-1
	switch {
	case b.kind == boxEnd:
		s.at(b.x, b.y).r, s.at(b.x+b.w-1, b.y).r = '(', ')'
		return
	case b.kind == boxAction:
		top, bottom = b.y-1, b.y+1
	case b.kind == boxInitial:
		stroke = "double"
	case b.state == stateActive || b.state == stateFailed:
		stroke = "heavy"
	}
	ends := b.x + b.w - 1
	for x := b.x; x <= ends; x++ {
		to := left | right
		switch x {
		case b.x:
			to = right
		case ends:
			to = left
		}
		if b.first {
			s.join(x, top, to, stroke, color)
		}
		if b.last {
			s.join(x, bottom, to, stroke, color)
		}
	}
	for _, x := range append([]int{b.x, ends}, b.cuts...) {
		for y := top; y <= bottom; y++ {
			switch {
			case y == top && b.first:
				s.join(x, y, down, stroke, color)
			case y == bottom && b.last:
				s.join(x, y, up, stroke, color)
			case y > top && y < bottom:
				s.join(x, y, up|down, stroke, color)
			}
		}
	}
}

func (s screen) line(l line) {
	switch l.kind {
	case lineLink, lineJump:
		for y := l.y1; y < l.y2; y++ {
			s.join(l.x1, y, up|down, "", "")
		}
		if l.kind == lineJump {
			s.at(l.x1, l.y2-1).r = '▼'
		}
	case lineConnect, lineLanding:
		for x := l.x1; x < l.x2; x++ {
			s.join(x, l.y1, left|right, "", "")
		}
		if l.kind == lineLanding {
			s.at(l.x2-1, l.y1).r = '►'
		}
	case lineBar:
		for x := l.x1; x <= l.x2; x++ {
			s.join(x, l.y1, left|right, "heavy", stateColors[l.state])
		}
	default:
		for x := l.x1; x <= l.x2; x++ {
			to := left | right
			switch {
			case l.kind == lineDouble:
			case x == l.x1:
				to = right
			case x == l.x2:
				to = left
			}
			s.join(x, l.y1, to, map[lineKind]string{lineDouble: "double"}[l.kind], "")
		}
	}
}

// touch connects the ends of l with what is there.
func (s screen) touch(l line) {
	meet := func(x, y, to int) {
		if g := s.at(x, y); g.to != 0 {
			g.to |= to
		}
	}
	switch l.kind {
	case lineLink:
		meet(l.x1, l.y1-1, down)
		meet(l.x2, l.y2, up)
	case lineConnect:
		meet(l.x1-1, l.y1, right)
		meet(l.x2, l.y2, left)
	}
}

func (s screen) text(t text) {
	x := t.x
	if t.align == atMiddle {
		x += (t.w - cellWidth(t.s)) / 2
	}
	color := stateColors[t.state]
	switch t.style {
	case styleStep, styleJump, styleHead:
		color = strings.TrimLeft(color+";1", ";")
	case styleWait:
		color = stateColors["waits"]
	}
	if t.state == "always" || t.style == styleLanding || t.style == stylePriority {
		color = "2"
	}
	for _, r := range t.s {
		n := cellWidth(string(r))
		if n == 0 {
			continue
		}
		g := s.at(x, t.y)
		g.r, g.color = r, color
		if n == 2 {
			s.at(x+1, t.y).r = -1
		}
		x += n
	}
}

func (s screen) lines(width int, color bool) string {
	var b strings.Builder
	for _, row := range s {
		n := len(row)
		for n > 0 && row[n-1].r == 0 && row[n-1].to == 0 {
			n--
		}
		cut := width > 0 && n > width
		if cut {
			n = width - 1
		}
		now := ""
		set := func(next string) {
			if color && next != now {
				b.WriteString("\x1b[" + next + "m")
				now = next
			}
		}
		for _, g := range row[:n] {
			switch {
			case g.r < 0:
				continue
			case g.color != "":
				if now != "" && now != g.color {
					set("")
				}
				set(g.color)
			default:
				set("")
			}
			if g.r == 0 {
				g.r = strokes[g.stroke][g.to]
			}
			b.WriteRune(g.r)
		}
		set("")
		if cut {
			b.WriteString("…")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
