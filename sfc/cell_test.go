package sfc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
)

// cell is the equipment, and the broker before it: commands come by PublishEvent, answers and events go to a living
// engine, again until it has taken them. A command id that comes again is answered again and does nothing else.
type cell struct {
	t testing.TB
	// react is what the equipment does with a command when it comes first; nil answers {}.
	react func(request) reaction
	// before and after are called around each publish that reaches the cell, with its number from 1; an error is what
	// the engine gets.
	before, after func(instance string, n int) error

	mu      sync.Mutex
	alive   map[string]*living
	changed chan struct{}
	sent    []cloudevent.Event // everything that was published, repetitions too
	orders  []request          // everything that was done, in order
	answers map[string]reaction
	tokens  map[string]string // by command id
	work    sync.WaitGroup
	end     context.CancelFunc
	ctx     context.Context
}

type living struct {
	*instance
	ctx  context.Context
	kill context.CancelFunc
}

// request is a command as the equipment sees it.
type request struct {
	id, typ, scope, correlation string
	isa95.ActionCall
	nth int // of this action of this job, from 1
}

// reaction is what becomes of a command.
type reaction struct {
	result string            // JSON; "" = no body
	refuse *cloudevent.Error // instead of a result
	silent bool              // no answer
	events []cloudevent.Event
}

func newCell(t testing.TB) *cell {
	c := &cell{t: t, alive: map[string]*living{}, changed: make(chan struct{}), answers: map[string]reaction{}, tokens: map[string]string{}}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { c.end(); c.work.Wait() })
	return c
}

// port is the connection of one instance.
func (c *cell) port(instance string) Commander { return &port{c, instance} }

type port struct {
	*cell
	instance string
}

var errDead = errors.New("the process is dead")

func (p *port) PublishEvent(ctx context.Context, topic string, e cloudevent.Event) error {
	c := p.cell
	c.mu.Lock()
	n := len(c.sent) + 1
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(p.instance, n); err != nil {
			return err
		}
	}
	c.mu.Lock()
	if c.alive[p.instance] == nil {
		c.mu.Unlock()
		return errDead
	}
	c.take(topic, e)
	c.mu.Unlock()
	if after != nil {
		return after(p.instance, n)
	}
	return nil
}

// take does a command, and answers it.
func (c *cell) take(topic string, e cloudevent.Event) {
	c.check(topic, e)
	c.sent = append(c.sent, e)
	r, known := c.answers[e.ID]
	if !known {
		o := request{id: e.ID, typ: e.Type, scope: e.Subject, correlation: e.CorrelationID, nth: 1}
		if err := json.Unmarshal(e.Data, &o.ActionCall); err != nil {
			c.t.Errorf("body %s: %v", e.Data, err)
		}
		for _, earlier := range c.orders {
			if earlier.JobOrderID == o.JobOrderID && earlier.Action == o.Action {
				o.nth++
			}
		}
		c.orders = append(c.orders, o)
		if r = (reaction{result: "{}"}); c.react != nil {
			r = c.react(o)
		}
		c.answers[e.ID] = r
		for _, ev := range r.events {
			c.send(ev, "", "")
		}
	}
	if r.silent {
		return
	}
	to, _ := topics.Prefix("plant").AnsweredOn(e.Delivery.ResponseTopic)
	c.send(c.answer(e, r), to, e.Delivery.ResponseTopic)
}

func (c *cell) answer(e cloudevent.Event, r reaction) cloudevent.Event {
	a := cloudevent.Event{
		ID: cloudevent.NewID(), Source: "urn:cell", SpecVersion: "1.0", Type: e.Type, Subject: e.Subject,
		CausationID: e.ID, CorrelationID: e.CorrelationID, Data: []byte(r.result), DataContentType: cloudevent.ContentTypeJSON,
		Delivery: cloudevent.Delivery{CorrelationData: e.Delivery.CorrelationData},
	}
	if r.refuse != nil {
		a.ErrorKind, a.ErrorMessage = r.refuse.Kind, r.refuse.Message
	}
	return a
}

// check: the wire.
func (c *cell) check(topic string, e cloudevent.Event) {
	want := fmt.Sprintf("plant/equipment/%s/commands", e.Subject)
	id, err := uuid.Parse(e.ID)
	switch {
	case topic != want:
		c.t.Errorf("command on %s, its scope %s has %s", topic, e.Subject, want)
	case err != nil || id.Version() != 5 && e.DataSchema == "": // only a job method has a schema
		c.t.Errorf("command id %q is no UUID of version 5", e.ID)
	case !slices.Equal(e.Delivery.CorrelationData, id[:]):
		c.t.Errorf("correlation data %x, the id is %s", e.Delivery.CorrelationData, id)
	case !responseTopic.MatchString(e.Delivery.ResponseTopic):
		c.t.Errorf("response topic %q", e.Delivery.ResponseTopic)
	case c.tokens[e.ID] != "" && c.tokens[e.ID] != path.Base(e.Delivery.ResponseTopic):
		c.t.Errorf("command %s has another token when it comes again", e.ID)
	case e.ExpiryInterval < 1:
		c.t.Errorf("expires after %d s", e.ExpiryInterval)
	case e.CorrelationID == "" || e.Source == "" || e.SpecVersion != "1.0":
		c.t.Errorf("incomplete: %+v", e)
	}
	c.tokens[e.ID] = path.Base(e.Delivery.ResponseTopic)
}

var responseTopic = regexp.MustCompile(`^plant/responses/[^/]+/[0-9a-f]{32}$`)

// event makes an event of the equipment; its id is the same for the same text.
func event07(typ, subject, correlation, data string) cloudevent.Event {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(typ+subject+correlation+data)).String()
	return cloudevent.Event{
		ID: id, Source: "urn:cell", SpecVersion: "1.0", Type: typ, Subject: subject, CorrelationID: correlation,
		Data: []byte(data), DataContentType: cloudevent.ContentTypeJSON,
		Delivery: cloudevent.Delivery{Topic: "plant/equipment/cell-07/events"},
	}
}

// emit sends an event of the equipment.
func (c *cell) emit(ev cloudevent.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(ev, "", "")
}

// send brings a message to a living engine, to the addressee if it lives, until one has taken it.
func (c *cell) send(ev cloudevent.Event, to, topic string) {
	if topic != "" {
		ev.Delivery.Topic = topic
	}
	c.work.Go(func() {
		for {
			l := c.pick(to)
			if l == nil {
				return
			}
			handle := l.Event
			if to != "" {
				handle = l.Answer
			}
			if err := handle(l.ctx, ev); err == nil {
				return
			}
			if pause(c.ctx, 5*time.Millisecond) != nil { // redelivery
				return
			}
		}
	})
}

// pick waits for a living engine.
func (c *cell) pick(to string) *living {
	for {
		c.mu.Lock()
		l, changed := c.alive[to], c.changed
		for _, other := range c.alive {
			if l == nil {
				l = other
			}
		}
		c.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return nil
		}
	}
}

func (c *cell) join(i *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &living{instance: i}
	l.ctx, l.kill = context.WithCancel(context.WithoutCancel(c.t.Context()))
	c.alive[i.name] = l
	close(c.changed)
	c.changed = make(chan struct{})
}

// leave ends the connections of an instance, as its death does.
func (c *cell) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.alive[name]; l != nil {
		l.kill()
		delete(c.alive, name)
	}
}

// done lists what the equipment did for a job: "action#n".
func (c *cell) done(job string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, o := range c.orders {
		if o.JobOrderID == job {
			all = append(all, fmt.Sprintf("%s#%d", o.Action, o.nth))
		}
	}
	return all
}

// published counts what was sent for an action, repetitions too.
func (c *cell) published(job, action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.sent {
		var b isa95.ActionCall
		if json.Unmarshal(e.Data, &b) == nil && b.JobOrderID == job && b.Action == action {
			n++
		}
	}
	return n
}
