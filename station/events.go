package station

import (
	"context"
	"strconv"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
)

// maxRepeats is how often an event is sent again that nobody shows to have received: its order may have been aborted.
const maxRepeats = 20

// announceAll sends the events of an executed command that were not sent yet. s.mu is held.
func (s *Station) announceAll(r *record) {
	for i := range r.events {
		d := &r.events[i]
		if r.sent[d.id] {
			continue
		}
		w := s.watch(r, d)
		s.running.Go(func() { s.announce(s.ctx, r, d, w) })
	}
}

// announce sends one event of a command, again and again under the same id where the file asks for it.
func (s *Station) announce(ctx context.Context, r *record, d *dueEvent, w *watch) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwatch(r, w)
	}()
	if !lifecycle.Sleep(ctx, d.after) {
		return
	}
	request := r.command.event()
	e := request.Caused(d.typeID, d.body, "", s.o.Equipment.Source, time.Now())
	e.ID, e.Subject = d.id, d.subject
	for i := 0; i <= maxRepeats; i++ {
		if !s.send(ctx, s.topic(r.Scope, "events"), e) {
			return
		}
		s.mu.Lock()
		r.noteSent(d.id)
		entry := r.entry(Event)
		entry.Type, entry.Subject, entry.Event, entry.Body, entry.Correlation = d.typeID, d.subject, d.id, d.body, r.Correlation
		s.write(entry)
		s.mu.Unlock()
		if d.repeat == 0 {
			return
		}
		if pause(ctx, d.repeat, w.seen) || ctx.Err() != nil {
			return
		}
	}
}

// pause waits for that long, or until ctx ends or there is something in wake, and tells whether it was that.
func pause(ctx context.Context, long time.Duration, wake <-chan struct{}) (woken bool) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
		return true
	case <-ctx.Done():
	}
	return false
}

// event is the command as the cause of events.
func (c *command) event() cloudevent.Event {
	return cloudevent.Event{ID: c.ID, Type: c.Type, Subject: c.Subject, CorrelationID: c.Correlation}
}

func (r *record) noteSent(id string) {
	if r.sent == nil {
		r.sent = map[string]bool{}
	}
	r.sent[id] = true
}

// supply is a source at work in one scope. Station.mu guards it.
type supply struct {
	source
	scope   isa95.Scope
	n       int64           // events sent so far
	waiting []time.Time     // when those were sent that no order has taken up
	runs    map[string]bool // runs of job orders that have taken one up
	changed chan struct{}   // has one element after waiting became shorter
}

func newSupply(scope isa95.Scope, s *source) *supply {
	return &supply{source: *s, scope: scope, runs: map[string]bool{}, changed: make(chan struct{}, 1)}
}

// recall counts an event of the log. Which of the last ones were taken up is not known; a few more do no harm.
func (u *supply) recall(e *Entry) {
	if e.N > u.n && e.Type == u.typeID && e.Subject == subject(u.scope, u.asset) {
		u.n = e.N
	}
}

// takenUp counts a command that shows that its order has taken up an event.
func (u *supply) takenUp(c *command, now time.Time) {
	if c.Type != u.takenBy || c.Scope != u.scope || u.runs[c.run()] {
		return
	}
	if len(u.runs) >= 1<<20 { // far more than can be under way
		clear(u.runs)
	}
	u.runs[c.run()] = true
	if len(u.waiting) > 0 {
		u.waiting = u.waiting[1:]
	}
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// room is how long to wait until one more event may be sent, 0 = now.
func (u *supply) room(now time.Time) time.Duration {
	for len(u.waiting) > 0 && now.Sub(u.waiting[0]) >= u.again {
		u.waiting = u.waiting[1:]
	}
	if u.ahead == 0 || int64(len(u.waiting)) < u.ahead {
		return 0
	}
	return u.waiting[0].Add(u.again).Sub(now)
}

// beginning is how long after the start the first event comes.
func (u *supply) beginning(seed int64) time.Duration {
	return u.first.pick(newDice(seed, "first", string(u.scope), u.typeID))
}

// interval is how long after the n-th event the next one comes.
func (u *supply) interval(seed, n int64) time.Duration {
	return u.every.pick(newDice(seed, "every", string(u.scope), u.typeID, strconv.FormatInt(n, 10)))
}

// next is the next event, or how long to wait until there is room for it. over: there is none any more.
func (u *supply) next(of *Equipment, now time.Time) (e cloudevent.Event, entry Entry, wait time.Duration, over bool) {
	wait = u.room(now)
	if over = u.limit > 0 && u.n >= u.limit; over || wait > 0 {
		return e, entry, wait, over
	}
	u.n++
	u.waiting = append(u.waiting, now) // before it is sent: the order may be faster than the broker's word
	e, entry = u.event(u.n, of.Source, of.seed, now)
	return e, entry, 0, false
}

// supply sends the events of one source.
func (s *Station) supply(ctx context.Context, u *supply) {
	seed := s.o.Equipment.seed
	if !lifecycle.Sleep(ctx, u.beginning(seed)) {
		return
	}
	for {
		e, entry, ok := s.nextOf(ctx, u)
		if !ok || !s.send(ctx, s.topic(u.scope, "events"), e) {
			return
		}
		s.mu.Lock()
		s.write(entry)
		s.mu.Unlock()
		if !lifecycle.Sleep(ctx, u.interval(seed, entry.N)) {
			return
		}
	}
}

// nextOf waits for room and makes the next event of a source; false at its limit or when ctx ended.
func (s *Station) nextOf(ctx context.Context, u *supply) (e cloudevent.Event, entry Entry, ok bool) {
	for {
		s.mu.Lock()
		e, entry, wait, over := u.next(s.o.Equipment, time.Now())
		s.mu.Unlock()
		if over || wait <= 0 {
			return e, entry, !over
		}
		if pause(ctx, wait, u.changed); ctx.Err() != nil {
			return e, entry, false
		}
	}
}

// event is the n-th event of the source. Its id is new at every run of the program: the same id would be taken for a
// repeat. It has no correlation id: it belongs to no order yet.
func (u *supply) event(n int64, source string, seed int64, now time.Time) (cloudevent.Event, Entry) {
	body := u.body.fill(&scene{scope: string(u.scope), n: n, dice: newDice(seed, "source", string(u.scope), u.typeID, strconv.FormatInt(n, 10))})
	e := cloudevent.New(u.typeID, source, subject(u.scope, u.asset), now).WithData(body, "")
	e.CorrelationID = ""
	return e, Entry{
		Kind: Event, Scope: string(u.scope), Type: u.typeID, Subject: e.Subject, Event: e.ID, N: n, Body: body,
	}
}
