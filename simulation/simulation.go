// Package simulation runs a recipe in a time of its own, without Redis and without a broker: the deciders of package recipe, the states of
// job orders (isa95) and the equipment (station.Plant) in one loop of events. Nothing is lost or late on the way between them, and a run with the same
// input comes out the same.
//
// Time jumps from event to event. An order starts at 0, and so do the sources of the equipment.
package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// The bounds of a simulation: the first that is met ends it.
const (
	MaxEvents = 100_000
	MaxTime   = 30 * 24 * time.Hour
)

// PlainDelay is how long an answer or event takes without Options.Equipment.
const PlainDelay = time.Second

// Options are what is simulated.
type Options struct {
	Program *recipe.Program // that every order runs; required
	Orders  []Order         // in the order in which they are sent; at least one

	// Equipment is how equipment behaves. nil: it answers each command with an empty result and sends each event that is awaited, both after PlainDelay.
	Equipment *station.Equipment

	Faults []Fault

	// Observe is called for all that happens, in order; nil disables it.
	Observe func(Entry)
}

// Order is a job order and the station that it is for.
type Order struct {
	Scope isa95.Scope
	Order *isa95.JobOrder
}

// Entry is one thing that happened. It has one of Fact, Method and Note.
type Entry struct {
	At     time.Duration // since the start
	Order  string        // job order id; "" = of none
	Fact   *recipe.Fact  // what a decision did
	Method isa95.Method  // of the order, which is State after it
	State  isa95.State
	Note   string // what no decision did, for people

	Parameters json.RawMessage // of the command that is sent for the first time; nil = none
}

// Result is what became of one order.
type Result struct {
	Order    string
	Took     time.Duration // from the start to the end, or to the end of the simulation
	State    isa95.State   // at the end
	Refused  string        // why the order was not taken, "" = it was; there is nothing else then
	Waits    []recipe.Wait // what it waited for when the simulation ended before it
	Response *isa95.JobResponse
}

// simulation is one run of the loop.
type simulation struct {
	o      Options
	start  time.Time
	now    time.Time
	agenda agenda
	events int // that were carried out

	plant     *station.Plant
	unknown   map[string]bool     // stations and types of commands that the equipment leaves to other equipment
	disturbed map[string][]string // ids of events, by type and correlation id
	orders    []*order
	open      int               // orders that are not over
	commands  map[string]*order // by the id of a command
	mail      map[isa95.Scope]map[string]*recipe.Mailbox
	handled   map[string]bool // events that actions got, by source and id
}

// order is one order under way.
type order struct {
	stored jobstore.StoredOrder
	view   recipe.Order
	x      *recipe.Execution
	due    time.Time
	result Result
	over   bool
}

// Run simulates until all orders have ended, nothing can happen any more, or a bound is met. bound says which one, "" = none.
func Run(o Options) (results []Result, bound string) {
	s := &simulation{
		o: o, start: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), unknown: map[string]bool{}, disturbed: map[string][]string{},
		commands: map[string]*order{}, mail: map[isa95.Scope]map[string]*recipe.Mailbox{}, handled: map[string]bool{},
	}
	s.now = s.start
	equipment := o.Equipment
	if equipment == nil {
		var types []string
		for _, a := range o.Program.Recipe().Actions {
			types = append(types, a.TypeID)
			if a.Cancel != nil {
				types = append(types, a.Cancel.TypeID)
			}
		}
		equipment = station.PlainEquipment(o.scopes(), types, PlainDelay)
	}
	s.plant = station.NewPlant(equipment, s)
	for _, sent := range o.Orders {
		r := &order{stored: jobstore.StoredOrder{JobOrder: sent.Order, Scope: sent.Scope, State: isa95.Initial}}
		r.view, r.result.Order = r.stored.RecipeOrder(), sent.Order.JobOrderID
		s.orders, s.open = append(s.orders, r), s.open+1
		s.After(0, func() { s.begin(r) })
	}
	bound = s.loop()
	for _, r := range s.orders {
		if !r.over {
			s.end(r)
			if r.x != nil { // nil: a bound was met at the start
				r.result.Waits = s.o.Program.Waits(r.view, r.x, s.now)
			}
		}
		results = append(results, r.result)
	}
	return results, bound
}

func (o *Options) scopes() (all []isa95.Scope) {
	for _, sent := range o.Orders {
		if !slices.Contains(all, sent.Scope) {
			all = append(all, sent.Scope)
		}
	}
	return all
}

// loop carries out what is on the agenda.
func (s *simulation) loop() (bound string) {
	for s.open > 0 {
		next, ok := s.agenda.first()
		switch {
		case !ok:
			return ""
		case s.events == MaxEvents:
			return fmt.Sprintf("it had %d events, which is the limit", MaxEvents)
		case next.at.Sub(s.start) > MaxTime:
			return fmt.Sprintf("it took %d days, which is the limit", MaxTime/(24*time.Hour))
		}
		s.events++
		s.now = next.at
		next.do()
	}
	return ""
}

// Now is the simulated time, for the plant.
func (s *simulation) Now() time.Time { return s.now }

// After puts do on the agenda. What is due at the same time is done in the order in which it was put there.
func (s *simulation) After(d time.Duration, do func()) {
	s.agenda.add(s.now.Add(d), do, nil)
}

func (s *simulation) tell(e Entry) {
	if e.At = s.now.Sub(s.start); s.o.Observe != nil {
		s.o.Observe(e)
	}
}

// method carries out a method that the state of the order allows.
func (s *simulation) method(r *order, m isa95.Method) {
	r.stored.State, _ = isa95.Next(r.stored.State, m) // of an order that just came
	s.tell(Entry{Order: r.view.ID, Method: m, State: r.stored.State})
}

// begin is StoreAndStart by an MES, and the start of the recipe.
func (s *simulation) begin(r *order) {
	if why := s.o.Program.Refusal(r.view); why != "" {
		s.end(r)
		r.result.Refused = why
		s.tell(Entry{Order: r.view.ID, Note: "the order is refused: " + why})
		return
	}
	s.method(r, isa95.StoreAndStart)
	s.method(r, isa95.Run)
	s.commit(r, s.o.Program.Start(r.view, string(r.stored.WorkMaster()), "simulation", s.mail[r.stored.Scope], s.now))
}

// end notes how far an order came.
func (s *simulation) end(r *order) {
	r.over, r.result.State, r.result.Took = true, r.stored.State, s.now.Sub(s.start)
	s.open--
}

func (s *simulation) docs(r *order) recipe.Docs {
	return recipe.Docs{Execution: r.x, Mailboxes: s.mail[r.stored.Scope]}
}

// commit makes what was decided true, and puts on the agenda what follows from it.
func (s *simulation) commit(r *order, out recipe.Outcome) {
	before := r.x
	r.x, s.mail[r.stored.Scope] = out.Docs.Execution, out.Docs.Mailboxes
	for _, ev := range out.Taken {
		s.handled[eventKey(ev)] = true
	}
	for i := range out.Facts {
		f := &out.Facts[i]
		e := Entry{Order: r.view.ID, Fact: f}
		if f.Kind == recipe.FactCommand {
			c := slices.IndexFunc(out.Commands, func(c recipe.Command) bool { return c.Action == f.Action && c.Iteration == f.Iteration })
			e.Parameters = out.Commands[c].Parameters
		}
		s.tell(e)
		if f.Kind == recipe.FactWait && s.o.Equipment == nil {
			s.plainEvent(r, f.Action)
		}
	}
	for _, c := range append(out.Commands, r.x.NewCancels(before)...) {
		if c.Cancels != "" {
			s.tell(Entry{Order: r.view.ID, Note: fmt.Sprintf("action %s: command %s calls it off", c.Action, c.TypeID)})
		}
		s.commands[c.ID] = r
		s.After(0, func() { s.dispatch(r, c) })
	}
	transition, response, err := jobstore.Conclude(&r.stored, out.Phase, r.x, s.now)
	if transition != nil {
		r.stored.State, r.result.Response = transition.State, response
		s.end(r)
		s.tell(Entry{Order: r.view.ID, Method: transition.Method, State: transition.State})
	} else if err != nil {
		s.tell(Entry{Order: r.view.ID, Note: err.Error()})
	}
	if due := out.Due; !due.Equal(r.due) {
		if r.due = due; !due.IsZero() {
			s.agenda.add(due, func() { s.tick(r) }, func() bool { return !r.over && due.Equal(r.due) })
		}
	}
}

// tick does what is due.
func (s *simulation) tick(r *order) {
	r.due = time.Time{}
	if out := s.o.Program.Tick(r.view, s.docs(r), s.now); !out.Stale {
		s.commit(r, out)
	}
}

// dispatch hands a command to the equipment, if it is still needed.
func (s *simulation) dispatch(r *order, c recipe.Command) {
	if c.Cancels == "" && !r.x.Awaits(c) {
		return
	}
	if kind := c.Scope + " " + c.TypeID; !s.plant.Take(c, s.disturbance(c)) && !s.unknown[kind] {
		s.unknown[kind] = true
		s.tell(Entry{Order: r.view.ID, Note: fmt.Sprintf("the equipment has no command %s for station %s: it is not answered", c.TypeID, c.Scope)})
	}
}

// Answer takes an answer of the plant.
func (s *simulation) Answer(a recipe.Answer) {
	r := s.commands[a.CommandID]
	if x, ok := r.x.Canceled(a.CommandID, &a); ok {
		r.x = x
		return
	}
	out, _ := s.o.Program.Answers(r.view, s.docs(r), []recipe.Answer{a}, s.now)
	if out.Stale {
		s.tell(Entry{Order: r.view.ID, Note: "an answer comes to nothing: " + out.Note})
		return
	}
	s.commit(r, out)
}

func eventKey(ev recipe.PullEvent) string { return ev.Source + "\x00" + ev.ID }

// Event takes an event of the plant, unless a fault keeps it away.
func (s *simulation) Event(scope isa95.Scope, typeID string, ev recipe.PullEvent) {
	d := s.disturbanceOf(typeID, ev)
	switch {
	case d.Silent:
	case d.Late > 0:
		s.After(d.Late, func() { s.event(scope, typeID, ev) })
	default:
		s.event(scope, typeID, ev)
	}
}

// event gives an event to the action that waits for it, or keeps it for one that will.
func (s *simulation) event(scope isa95.Scope, typeID string, ev recipe.PullEvent) {
	if s.handled[eventKey(ev)] {
		return
	}
	ev.At, ev.Until = s.now.UnixMilli(), s.now.Add(recipe.MailboxRetention).UnixMilli()
	owner := ""
	if i := slices.IndexFunc(s.orders, func(r *order) bool { return !r.over && r.x != nil && r.x.CorrelationID == ev.CorrelationID }); i >= 0 {
		owner = s.orders[i].view.ID
	}
	mail := s.mail[scope]
	box := cmp.Or(mail[typeID], &recipe.Mailbox{})
	w, ok := box.Match(ev, string(scope), owner)
	if !ok {
		if box = box.Clone(); box.Keep(ev, owner) {
			s.keep(scope, typeID, box)
		}
		return
	}
	r := s.orders[slices.IndexFunc(s.orders, func(r *order) bool { return r.view.ID == w.JobID })]
	out := s.o.Program.Pulled(r.view, s.docs(r), w.Action, ev, s.now)
	if out.Stale {
		s.tell(Entry{Order: r.view.ID, Note: out.Note})
		return
	}
	s.handled[eventKey(ev)] = true
	s.commit(r, out)
}

func (s *simulation) keep(scope isa95.Scope, typeID string, box *recipe.Mailbox) {
	mail := maps.Clone(s.mail[scope])
	if mail == nil {
		mail = map[string]*recipe.Mailbox{}
	}
	mail[typeID] = box
	s.mail[scope] = mail
}

// plainEvent sends the event that an action waits for, after PlainDelay.
func (s *simulation) plainEvent(r *order, action string) {
	e := r.x.Action(action)
	ev := recipe.PullEvent{ID: fmt.Sprintf("%s-%d", e.CommandID, e.Iteration), Source: "simulation", Subject: r.view.Scope, CorrelationID: r.x.CorrelationID}
	s.After(PlainDelay, func() { s.Event(r.stored.Scope, e.TypeID, ev) })
}
