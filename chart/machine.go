package chart

import "github.com/taktworks/takt/isa95"

// place is where a top state stands in the picture of the state machine.
type place struct {
	state       string
	x, y, width int
}

// edge is a way between two of them: the methods that lead it, its line, and where their names stand.
type edge struct {
	from, to string // "" = InitialState
	methods  string
	line     string // of an SVG path
	x, y     int    // the middle of the names, and their base
}

const placeHeight = 40

// The picture is as narrow as a phone: the way of an order that goes well leads down, what else can become of it stands beside it.
var places = []place{
	{isa95.NotAllowedToStart, 56, 56, 128}, {isa95.AllowedToStart, 56, 150, 128}, {isa95.Running, 56, 244, 128}, {isa95.Ended, 56, 338, 128}, {isa95.EndState, 56, 432, 128},
	{isa95.Aborted, 236, 150, 94}, {isa95.Interrupted, 236, 244, 94},
}

// edges are all transitions between top states.
var edges = []edge{
	{"", isa95.NotAllowedToStart, "Store", "M150 26V56", 172, 46},
	{"", isa95.AllowedToStart, "StoreAndStart", "M142 18H30V170H56", 84, 13},
	{isa95.NotAllowedToStart, isa95.AllowedToStart, "Start", "M92 96V150", 72, 128},
	{isa95.AllowedToStart, isa95.NotAllowedToStart, "RevokeStart", "M130 150V96", 172, 128},
	{isa95.AllowedToStart, isa95.Running, "Run", "M120 190V244", 102, 222},
	{isa95.Running, isa95.Ended, "End, Stop", "M120 284V338", 155, 316},
	{isa95.Ended, isa95.EndState, "Clear", "M120 378V432", 141, 410},
	{isa95.Running, isa95.Interrupted, "Pause", "M184 256H236", 209, 250},
	{isa95.Interrupted, isa95.Running, "Resume", "M236 272H184", 210, 289},
	{isa95.Interrupted, isa95.Ended, "Stop", "M284 284V358H184", 246, 352},
	{isa95.Interrupted, isa95.Aborted, "Abort", "M310 244V190", 288, 222},
	{isa95.Running, isa95.Aborted, "Abort", "M160 244V216H260V190", 210, 210},
	{isa95.AllowedToStart, isa95.Aborted, "Abort", "M184 170H236", 209, 164},
	{isa95.NotAllowedToStart, isa95.Aborted, "Abort", "M184 76H284V150", 234, 70},
	{isa95.Aborted, isa95.EndState, "Clear", "M330 170H340V452H184", 262, 446},
	{isa95.NotAllowedToStart, isa95.EndState, "Cancel", "M56 86H14V452H56", 39, 316},
	{isa95.AllowedToStart, isa95.EndState, "Cancel", "M56 180H14", 39, 222},
}

// MachineFragment draws the state machine of job orders with the state that one is in, as an svg element for a page that has PageStyle.
func MachineFragment(now isa95.State) []byte {
	p := newPicture(346, 480, "State machine of job orders: this one is "+now.String(), "")
	p.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L8 4L0 8Z"/></marker></defs>` + "\n")
	for _, e := range edges {
		class := "way"
		if e.from == now.Top {
			class = "way open"
		}
		p.printf(`<g class="%s"><path class="connect" d="%s" marker-end="url(#arrow)"/><text class="what" x="%d" y="%d" text-anchor="middle">%s</text></g>`+"\n", class, e.line, e.x, e.y, e.methods)
	}
	p.WriteString(`<circle class="tip" cx="150" cy="18" r="8"/>` + "\n")
	for _, n := range places {
		state, sub := "", ""
		if n.state == now.Top {
			state, sub = stateActive, now.Sub
		}
		at := rect{n.x, n.y, n.width, placeHeight}
		p.box(box{rect: at, state: state})
		if sub != "" {
			p.text(text{rect: rect{n.x, n.y + 20, n.width, 18}, s: sub, style: styleTime, align: atMiddle})
			at.h = 26
		}
		p.text(text{rect: at, s: n.state, style: styleStep, align: atMiddle})
	}
	return p.close()
}
