package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bar is one thing that took time in a Gantt chart.
type Bar struct {
	Lane string // the row that it stands in; bars of a lane at the same time stand below each other
	Name string
	// State is "active", "done" or "failed", which have colors; anything else has that of work.
	State    string
	From, To time.Duration // since the begin of the chart; To before From counts as From
	Href     string        // where a click on it leads; "" = nowhere
}

// gantt is bars in rows over an axis of time.
type gantt struct {
	rows []ganttRow
	end  time.Duration // of the axis
	tick time.Duration
}

type ganttRow struct {
	lane string // "" in a further row of the lane above
	bars []Bar
}

// ticks are the distances of marks on the axis.
var ticks = []time.Duration{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 4 * 3600, 8 * 3600, 12 * 3600, 24 * 3600}

func newGantt(bars []Bar, marks int) *gantt {
	g := &gantt{end: time.Millisecond}
	lanes := map[string][]Bar{}
	var names []string
	for _, b := range bars {
		b.To = max(b.To, b.From)
		g.end = max(g.end, b.To)
		if lanes[b.Lane] == nil {
			names = append(names, b.Lane)
		}
		lanes[b.Lane] = append(lanes[b.Lane], b)
	}
	for _, name := range names {
		slices.SortStableFunc(lanes[name], func(a, b Bar) int { return cmp.Compare(a.From, b.From) })
		first := len(g.rows)
		g.rows = append(g.rows, ganttRow{lane: name})
		for _, b := range lanes[name] {
			row := first
			for row < len(g.rows) && len(g.rows[row].bars) > 0 && g.rows[row].bars[len(g.rows[row].bars)-1].To > b.From {
				row++
			}
			if row == len(g.rows) {
				g.rows = append(g.rows, ganttRow{})
			}
			g.rows[row].bars = append(g.rows[row].bars, b)
		}
	}
	units := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second}
	for _, unit := range units {
		for _, n := range ticks {
			if unit < time.Second && n > 5 {
				break
			}
			if g.tick = n * unit; g.end/g.tick < time.Duration(marks) {
				return g
			}
		}
	}
	for g.end/g.tick >= time.Duration(marks) {
		g.tick *= 2
	}
	return g
}

// marks are the times at which the axis has a mark.
func (g *gantt) marks() []time.Duration {
	var marks []time.Duration
	for t := time.Duration(0); t <= g.end; t += g.tick {
		marks = append(marks, t)
	}
	return marks
}

// shortTime is a duration without units of zero at its end.
func shortTime(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
		if d%time.Hour == 0 {
			s = strings.TrimSuffix(s, "0m")
		}
	}
	return s
}

// GanttSVG draws bars over time, as a file of its own in the style of charts. The title stands above it and is its
// accessible name.
func GanttSVG(bars []Bar, title string) []byte { return ganttPicture(bars, title, Style) }

// GanttFragment is GanttSVG as an svg element for a page that has Style.
func GanttFragment(bars []Bar, title string) []byte { return ganttPicture(bars, title, "") }

func ganttPicture(bars []Bar, title, style string) []byte {
	const axis, row, bar, width, pad = 24, 28, 20, 860, 6
	g := newGantt(bars, 9)
	names := 0
	for _, r := range g.rows {
		s, _ := pixels.short(styleStep, clean(r.lane), pixels.stepMax)
		names = max(names, pixels.width(styleStep, s))
	}
	left, top := pixels.margin+names+16, pixels.margin
	if title != "" {
		top += 28
	}
	at := func(d time.Duration) int { return left + int(int64(d)*width/int64(g.end)) }
	bottom := top + axis + len(g.rows)*row
	p := newPicture(left+width+pixels.margin+60, bottom+pixels.margin, cmp.Or(title, "Gantt chart"), style)
	if title != "" {
		p.text(text{rect: rect{pixels.margin, pixels.margin, 0, 16}, s: clean(title), style: styleHead})
	}
	for _, t := range g.marks() {
		p.printf(`<path class="grid" d="M%d %dV%d"/>`+"\n", at(t), top+axis-6, bottom)
		p.printf(`<text class="axis" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", at(t), top+12, shortTime(t))
	}
	linked := false
	for i, r := range g.rows {
		y := top + axis + i*row + (row-bar)/2
		if r.lane != "" {
			s, cut := pixels.short(styleStep, clean(r.lane), pixels.stepMax)
			t := text{rect: rect{pixels.margin, y, 0, bar}, s: s, style: styleStep}
			if cut {
				t.title = clean(r.lane)
			}
			p.text(t)
			p.printf(`<path class="grid" d="M%d %dH%d"/>`+"\n", pixels.margin, y-(row-bar)/2, left+width)
		}
		for k, b := range r.bars {
			x, w := at(b.From), max(2, at(b.To)-at(b.From))
			if b.Href != "" {
				linked = true
				p.printf(`<a href="%s" aria-label="%s">`, escape(b.Href), escape(clean(b.Lane+": "+b.Name)))
			}
			p.printf(`<rect class="bar-%s" x="%d" y="%d" width="%d" height="%d" rx="3"`, work(b.State), x, y, w, bar)
			p.titled("rect", "", fmt.Sprintf("%s: %s, %s to %s", clean(b.Lane), clean(b.Name), b.From, b.To))
			if b.Href != "" {
				p.WriteString("</a>\n")
			}
			room, start := w-2*pad, x+pad
			beyond := left + width + 60 // where the next bar begins
			if k+1 < len(r.bars) {
				beyond = at(r.bars[k+1].From)
			}
			if after := beyond - x - w - 2*pad; after > room && pixels.width(styleTime, clean(b.Name)) > room {
				room, start = after, x+w+pad
			}
			if s, _ := pixels.short(styleTime, clean(b.Name), room); pixels.width(styleTime, s) <= room {
				p.text(text{rect: rect{start, y, 0, bar}, s: s, style: styleTime})
			}
		}
	}
	if svg := p.close(); linked { // an image has no parts
		return bytes.Replace(svg, []byte(`role="img"`), []byte(`role="group"`), 1)
	}
	return p.Bytes()
}

// work is the state of a bar as a class.
func work(state string) string {
	switch state {
	case stateActive, stateDone, stateFailed:
		return state
	}
	return "work"
}

// blocks fill the cells of bars in text.
var blocks = map[string]rune{"work": '█', stateDone: '█', stateActive: '▒', stateFailed: '░'}

// GanttText draws bars for a terminal: a line for each bar, with its name behind it, and the axis above. A line has at most
// width cells; 0 means 100, and less than 40 is taken as 40.
func GanttText(bars []Bar, width int) string {
	if width <= 0 {
		width = 100
	}
	width = max(width, 40)
	g := newGantt(bars, max(2, width/16))
	names, labels := 0, 0
	for _, b := range bars {
		names = max(names, min(cellWidth(clean(b.Lane)), width/4))
		labels = max(labels, min(cellWidth(barLabel(b)), width/3))
	}
	axis := width - names - labels - 4
	at := func(d time.Duration) int { return int(int64(d) * int64(axis-1) / int64(g.end)) }
	var out strings.Builder
	write := func(lane string, row []rune, label string) {
		line := pad(lane, names) + " │" + string(row)
		if label != "" {
			line = pad(line, names+2+axis) + "│ " + label
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	scale := []rune(strings.Repeat(" ", axis))
	for _, t := range g.marks() {
		s := []rune(shortTime(t))
		if x := at(t); x+len(s) <= axis {
			copy(scale[x:], s)
		}
	}
	write("", scale, "")
	for _, r := range g.rows {
		lane := r.lane
		for _, b := range r.bars {
			row := []rune(strings.Repeat(" ", axis))
			for x := at(b.From); x <= max(at(b.From), at(b.To)-1); x++ {
				row[x] = blocks[work(b.State)]
			}
			label, _ := cells.short(styleTime, barLabel(b), labels)
			name, _ := cells.short(styleTime, clean(lane), names)
			write(name, row, label)
			lane = ""
		}
	}
	return out.String()
}

func barLabel(b Bar) string {
	s := strings.TrimSpace(clean(b.Name) + " " + shortTime(max(0, b.To-b.From).Round(time.Millisecond)))
	if work(b.State) != "work" {
		s += " " + b.State
	}
	return s
}

// pad fills s up with spaces.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-cellWidth(s)))
}
