package station

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// World is where a Plant stands: a time, and Takt that hears it.
type World interface {
	Now() time.Time
	After(d time.Duration, do func()) // do is called once, d from now
	Answer(a recipe.Answer)
	Event(scope isa95.Scope, typeID string, ev recipe.PullEvent) // ev.At and ev.Until are for the receiver to set
}

// Plant is simulated equipment in the time of its World, without a broker and without a log. It does what a Station with the same
// Equipment does, but nothing is lost on the way. One goroutine calls it and is called by it.
type Plant struct {
	memory
	world  World
	parked map[*supply]*int // sources that wait for room; each wait is its own pointer
}

// Disturbance is what goes wrong with one command beyond what the Equipment says.
type Disturbance struct {
	Silent bool          // no delivery of it is answered; the work is done
	Refuse string        // it is refused for this reason; "" = it is not
	Late   time.Duration // the work takes so much longer
}

// NewPlant makes a plant. Its sources begin to send.
func NewPlant(e *Equipment, world World) *Plant {
	p := &Plant{memory: newMemory(e), world: world, parked: map[*supply]*int{}}
	for _, u := range p.supplies {
		world.After(u.beginning(e.seed), func() { p.supply(u) })
	}
	return p
}

// Take hands it a command. known is false if it is left to other equipment, which means that it is not answered. A command that comes
// again under its id is answered again.
func (p *Plant) Take(c recipe.Command, with Disturbance) (known bool) {
	if p.equipment.commands[c.TypeID] == nil || !slices.Contains(p.equipment.Scopes, isa95.Scope(c.Scope)) {
		return false
	}
	if r := p.commands[c.ID]; r != nil {
		r.deliveries++
		if r.executed {
			p.answer(r)
		}
		return true
	}
	r := p.add(command{
		ID: c.ID, Type: c.TypeID, Subject: c.Scope, Correlation: c.CorrelationID, Scope: isa95.Scope(c.Scope),
		Order: c.JobID, Action: c.Action, Attempt: c.Attempt, Parameters: c.Parameters, Cancels: c.Cancels,
	}, "", nil, p.world.Now())
	with.disturb(&r.work)
	if other := p.commands[c.Cancels]; other != nil && other.calledBack() {
		p.execute(other)
	}
	if r.calledBack() {
		r.takes = 0
	}
	p.world.After(r.takes, func() { p.execute(r) })
	for _, u := range p.supplies {
		if wait := p.parked[u]; wait != nil && len(u.changed) > 0 {
			p.retry(u, wait)
		}
	}
	return true
}

// With is both together.
func (d Disturbance) With(other Disturbance) Disturbance {
	return Disturbance{d.Silent || other.Silent, cmp.Or(d.Refuse, other.Refuse), d.Late + other.Late}
}

func (d Disturbance) disturb(w *work) {
	if d.Refuse != "" {
		w.refused, w.result, w.events = cloudevent.Errorf(cloudevent.KindStateInvalid, "%s", d.Refuse), nil, nil
	}
	if d.Silent {
		w.unanswered = math.MaxInt
	}
	w.takes += d.Late
}

// execute ends the work of a command, once.
func (p *Plant) execute(r *record) {
	if r.executed {
		return
	}
	r.executed = true
	for i := range r.events {
		d := &r.events[i]
		w := p.watch(r, d)
		p.world.After(d.after, func() { p.announce(r, d, w, 0) })
	}
	p.answer(r)
}

func (p *Plant) answer(r *record) {
	if r.silent() {
		return
	}
	a := recipe.Answer{CommandID: r.ID, Result: r.result}
	if r.refused != nil {
		a = recipe.Answer{CommandID: r.ID, Error: &recipe.ActionError{Kind: string(r.refused.Kind), Message: r.refused.Message}}
	}
	p.world.Answer(a)
}

// announce sends the event of a command that was sent so many times before, and again later where the file asks for it.
func (p *Plant) announce(r *record, d *dueEvent, w *watch, times int) {
	p.world.Event(r.Scope, d.typeID, recipe.PullEvent{
		ID: d.id, Source: p.equipment.Source, Subject: d.subject, CorrelationID: r.Correlation, Data: d.body,
	})
	if d.repeat == 0 || times == maxRepeats {
		p.unwatch(r, w)
		return
	}
	p.world.After(d.repeat, func() {
		select {
		case <-w.seen:
		default:
			p.announce(r, d, w, times+1)
		}
	})
}

// supply sends the next event of a source, or waits for room.
func (p *Plant) supply(u *supply) {
	select {
	case <-u.changed:
	default:
	}
	e, entry, wait, over := u.next(p.equipment, p.world.Now())
	switch {
	case over:
	case wait > 0:
		this := new(int)
		p.parked[u] = this
		p.world.After(wait, func() { p.retry(u, this) })
	default:
		p.world.Event(u.scope, u.typeID, recipe.PullEvent{ID: e.ID, Source: e.Source, Subject: e.Subject, Data: e.Data})
		p.world.After(u.interval(p.equipment.seed, entry.N), func() { p.supply(u) })
	}
}

// retry ends a wait for room, unless it has ended.
func (p *Plant) retry(u *supply, wait *int) {
	if p.parked[u] == wait {
		delete(p.parked, u)
		p.supply(u)
	}
}
