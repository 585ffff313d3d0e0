package chart

import "github.com/taktworks/takt/isa95"

// place is where a top state stands in the picture of the state machine.
type place struct {
	state string
	x, y  int
}

// edge is a way between two of them: the methods that lead it, its line, and where their names stand.
type edge struct {
	from, to string // "" = InitialState
	methods  string
	line     string // of an SVG path
	x, y     int    // the middle of the names, and their base
}

const placeWidth, placeHeight = 144, 44

var places = []place{
	{isa95.NotAllowedToStart, 20, 130}, {isa95.AllowedToStart, 256, 130}, {isa95.Running, 492, 130}, {isa95.Ended, 728, 130}, {isa95.EndState, 930, 130},
	{isa95.Interrupted, 492, 20}, {isa95.Aborted, 492, 232},
}

// edges are all transitions between top states.
var edges = []edge{
	{"", isa95.NotAllowedToStart, "Store", "M92 52V130", 62, 98},
	{"", isa95.AllowedToStart, "StoreAndStart", "M100 44H328V130", 214, 36},
	{isa95.NotAllowedToStart, isa95.AllowedToStart, "Start", "M164 144H256", 210, 138},
	{isa95.AllowedToStart, isa95.NotAllowedToStart, "RevokeStart", "M256 162H164", 210, 178},
	{isa95.AllowedToStart, isa95.Running, "Run", "M400 152H492", 446, 145},
	{isa95.Running, isa95.Ended, "End, Stop", "M636 152H728", 688, 170},
	{isa95.Ended, isa95.EndState, "Clear", "M872 152H930", 900, 145},
	{isa95.Running, isa95.Interrupted, "Pause", "M540 130V64", 512, 101},
	{isa95.Interrupted, isa95.Running, "Resume", "M580 64V130", 612, 101},
	{isa95.Interrupted, isa95.Ended, "Stop", "M636 34H800V130", 718, 26},
	{isa95.Interrupted, isa95.Aborted, "Abort", "M636 52H650V246H636", 672, 216},
	{isa95.Running, isa95.Aborted, "Abort", "M564 174V232", 590, 208},
	{isa95.AllowedToStart, isa95.Aborted, "Abort", "M348 174V244H492", 420, 237},
	{isa95.NotAllowedToStart, isa95.Aborted, "Abort", "M112 174V264H492", 220, 257},
	{isa95.Aborted, isa95.EndState, "Clear", "M636 262H982V174", 800, 255},
	{isa95.NotAllowedToStart, isa95.EndState, "Cancel", "M72 174V300H1022V174", 180, 293},
	{isa95.AllowedToStart, isa95.EndState, "Cancel", "M300 174V300", 330, 293},
}

// MachineFragment draws the state machine of job orders with the state that one is in, as an svg element for a page that has PageStyle.
func MachineFragment(now isa95.State) []byte {
	p := newPicture(1094, 316, "State machine of job orders: this one is "+now.String(), "")
	p.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L8 4L0 8Z"/></marker></defs>` + "\n")
	for _, e := range edges {
		class := "way"
		if e.from == now.Top {
			class = "way open"
		}
		p.printf(`<g class="%s"><path class="connect" d="%s" marker-end="url(#arrow)"/><text class="what" x="%d" y="%d" text-anchor="middle">%s</text></g>`+"\n", class, e.line, e.x, e.y, e.methods)
	}
	p.WriteString(`<circle class="tip" cx="92" cy="44" r="8"/>` + "\n")
	for _, n := range places {
		state, sub := "", ""
		if n.state == now.Top {
			state, sub = stateActive, now.Sub
		}
		at := rect{n.x, n.y, placeWidth, placeHeight}
		p.box(box{rect: at, state: state})
		if sub != "" {
			p.text(text{rect: rect{n.x, n.y + 22, placeWidth, 18}, s: sub, style: styleTime, align: atMiddle})
			at.h = 28
		}
		p.text(text{rect: at, s: n.state, style: styleStep, align: atMiddle})
	}
	return p.close()
}
