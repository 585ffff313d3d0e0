package station

import (
	"slices"
	"time"
)

// remember is how long a command's answer is kept: longer than Takt waits for one (R027: a day at most).
const remember = 25 * time.Hour

// memory is what equipment knows of the past, and decides by. It has no clock and sends nothing: a Station carries out what comes of it over MQTT, a Plant in simulated time.
type memory struct {
	equipment *Equipment
	commands  map[string]*record // by id
	canceled  map[string]bool    // ids that a command calls back, which may come before them
	ages      []*record          // in the order of arrival
	watches   map[string][]*watch
	supplies  []*supply
}

func newMemory(e *Equipment) memory {
	m := memory{equipment: e, commands: map[string]*record{}, canceled: map[string]bool{}, watches: map[string][]*watch{}}
	for _, scope := range e.Scopes {
		for i := range e.sources {
			m.supplies = append(m.supplies, newSupply(scope, &e.sources[i]))
		}
	}
	return m
}

// add remembers a new command and forgets those that are too old. Of a Station, mu is held, or Run has not begun to take work.
func (m *memory) add(c command, responseTopic string, correlationData []byte, now time.Time) *record {
	r := &record{
		command: c, work: m.equipment.decide(&c), received: now, deliveries: 1,
		responseTopic: responseTopic, correlationData: correlationData, canceled: make(chan struct{}),
	}
	m.commands[c.ID] = r
	if c.Cancels != "" {
		m.canceled[c.Cancels] = true
		if other := m.commands[c.Cancels]; other != nil {
			other.callBack()
		}
	}
	if m.canceled[c.ID] {
		r.callBack()
	}
	m.ages = append(m.ages, r)
	for len(m.ages) > 0 && m.ages[0].executed && now.Sub(m.ages[0].received) >= remember {
		delete(m.commands, m.ages[0].ID)
		delete(m.canceled, m.ages[0].Cancels)
		m.ages = m.ages[1:]
	}
	for _, supply := range m.supplies {
		supply.takenUp(&c, now)
	}
	m.wakeWatches(&c)
	return r
}

// watch is a wait for a command that shows an event to have been received.
type watch struct {
	until []string
	seen  chan struct{}
}

// wakeWatches ends the waits that c fulfils.
func (m *memory) wakeWatches(c *command) {
	waiting := m.watches[c.run()]
	if len(waiting) == 0 {
		return
	}
	waiting = slices.DeleteFunc(waiting, func(w *watch) bool {
		if !slices.Contains(w.until, c.Type) {
			return false
		}
		close(w.seen)
		return true
	})
	m.setWatches(c.run(), waiting)
}

func (m *memory) setWatches(run string, waiting []*watch) {
	if len(waiting) == 0 {
		delete(m.watches, run)
		return
	}
	m.watches[run] = waiting
}

// watch begins the wait that d asks for, if it asks for one.
func (m *memory) watch(r *record, d *dueEvent) *watch {
	w := &watch{until: d.until, seen: make(chan struct{})}
	if d.repeat > 0 {
		m.watches[r.run()] = append(m.watches[r.run()], w)
	}
	return w
}

// unwatch ends a wait, whether it is fulfilled or not.
func (m *memory) unwatch(r *record, w *watch) {
	m.setWatches(r.run(), slices.DeleteFunc(m.watches[r.run()], func(o *watch) bool { return o == w }))
}
