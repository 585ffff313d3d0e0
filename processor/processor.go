// Package processor runs handlers of a program's own CloudEvents beside Takt, with what Takt promises for job orders: an event is handled once, what its handler writes, the
// mark of the event and the reply are one commit, and a handler that fails writes nothing.
//
//	broker ──▶ Server: decode ──▶ seen before? ──▶ handler(tx) ──▶ one commit: job orders, configuration, values, events, mark, reply
//	                                   │                                │ conflict: the handler is called again
//	                                   └── the stored reply             ▼
//	broker ◀───────────────────────────────────────────────────── reply, then acknowledge
//
// A handler reads and writes by its Tx alone, for it may be called several times for one event: after a conflict with another process, and after an outage. What it does
// elsewhere must bear to be repeated.
//
// Any number of replicas may run: each event goes to one of them.
package processor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// Options of a Processor. The zero value of a field takes the default it names.
type Options struct {
	// Name of the processor, one for all its replicas: 1 to 64 of a-z, A-Z, 0-9, ".", "_" and "-". It is part of topics, keys and the name of the shared subscription. Required.
	Name string

	// Store is where it writes. Its Instance tells the replicas apart; keep it over restarts, so that the broker hands a replica what it missed. Required.
	Store *jobstore.Store

	// MQTT is the broker. An empty ClientID is takt-{name}-{instance}; a zero SessionExpiry is one hour.
	MQTT mqtt.Options

	TopicPrefix string // default "takt"

	// Filters are the topics that it reads, with QoS 1; default {topic prefix}/processors/{name} and {topic prefix}/processors/{name}/+, by a shared subscription. Share
	// others the same way ($share/{name}/...) when replicas run.
	Filters []string

	AnyScope      bool          // Tx.Call stores job orders for scopes that were never configured, too, as takt serve does with --require-configuration=false
	ReplyTopics   []string      // as jobcontrol.Options.ReplyTopics
	MessageExpiry time.Duration // of replies, whole seconds; 0 = none

	// Slots is how many events are handled at once; default 16. Events of one Lane are handled in the order in which they came; default: those of one subject.
	Slots int
	Lane  func(mqtt.Message) string

	Hold  time.Duration // how long an event that asks for an answer waits for Redis; default 10 s
	Drain time.Duration // how long a stop waits for what runs; default 5 s

	Observe func(jobcontrol.Observation) // called after every event, for metrics; it must not block. nil disables it
	Log     *slog.Logger                 // default slog.Default()
}

// Processor hands events to handlers. Register them with Handle, HandleJSON and PostStart, then call Run.
type Processor struct {
	opt              Options
	receive, publish *mqtt.Conn
	receiver         *jobcontrol.Receiver
	handlers         map[string]handler
	hooks            []hook
}

type handler func(ctx context.Context, tx *Tx, data []byte) ([]byte, error)

type hook struct {
	name string
	do   func(context.Context, *Tx) error
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// New makes a Processor. It connects to nothing.
func New(o Options) (*Processor, error) {
	switch {
	case !validName.MatchString(o.Name):
		return nil, fmt.Errorf("processor: Name is %.80q: must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'", o.Name)
	case o.Store == nil:
		return nil, errors.New("processor: Store is nil: open one with jobstore.Open")
	case o.Slots < 0 || o.Hold < 0 || o.Drain < 0 || o.MessageExpiry < 0:
		return nil, fmt.Errorf("processor: Slots is %d, Hold %v, Drain %v, MessageExpiry %v: none may be negative", o.Slots, o.Hold, o.Drain, o.MessageExpiry)
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = "takt"
	}
	if o.Slots == 0 {
		o.Slots = 16
	}
	if o.Lane == nil {
		o.Lane = bySubject
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	instance := o.Store.Instance()
	if instance == "" {
		return nil, errors.New("processor: the Store has no Instance: name the replica in jobstore.Options.Instance")
	}
	if o.MQTT.ClientID == "" {
		o.MQTT.ClientID = "takt-" + o.Name + "-" + instance
	}
	if o.MQTT.SessionExpiry == 0 {
		o.MQTT.SessionExpiry = time.Hour
	}
	if o.MQTT.Log == nil {
		o.MQTT.Log = o.Log
	}
	if len(o.Filters) == 0 {
		inbox := topics.Prefix(o.TopicPrefix).Processor(o.Name)
		o.Filters = []string{"$share/" + o.Name + "/" + inbox, "$share/" + o.Name + "/" + inbox + "/+"}
	}
	receive, err := mqtt.New(o.MQTT)
	if err != nil {
		return nil, err
	}
	publishing := o.MQTT
	publishing.ClientID, publishing.SessionExpiry = publishing.ClientID+"-pub", 0
	publish, err := mqtt.New(publishing)
	if err != nil {
		return nil, err
	}
	return &Processor{
		opt: o, receive: receive, publish: publish, handlers: make(map[string]handler),
		receiver: jobcontrol.New(o.Store, jobcontrol.Options{
			Source: "urn:takt:" + o.Name + ":" + instance, TopicPrefix: o.TopicPrefix, ReplyTopics: o.ReplyTopics, MessageExpiry: o.MessageExpiry,
			HoldWhenAway: o.Hold, AnyScope: o.AnyScope, Observe: o.Observe, Log: o.Log,
		}),
	}, nil
}

// bySubject keeps events of one subject in order. In structured mode the subject is in the payload, and the topic stands for it.
func bySubject(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name == "subject" || p.Name == "ce-subject" {
			return p.Value
		}
	}
	return m.Topic
}

// HandleJSON has h handle events of a type, with the body as it came, and returns the body of the reply, nil for none.
//
// An error writes nothing. A *cloudevent.Error and a *RefusedError are answered as they are. Any other error, and a panic, is logged and answered with INTERNAL_LOGIC_ERROR;
// for an event that asks for no answer h is called again, until it has failed ten times over jobstore.Options.Patience while other events were handled, or over ten times that while
// none was: then the event is a dead letter (the stream intake:dead below the key prefix).
//
// It panics when typ is empty or has a handler.
func (p *Processor) HandleJSON(typ string, h func(ctx context.Context, tx *Tx, data json.RawMessage) (json.RawMessage, error)) {
	if typ == "" || p.handlers[typ] != nil {
		panic(fmt.Sprintf("processor: type %q is empty or has a handler", typ))
	}
	p.handlers[typ] = func(ctx context.Context, tx *Tx, data []byte) ([]byte, error) { return h(ctx, tx, data) }
}

// Handle has h handle events of a type; In is decoded from the body, and Out encoded as the body of the reply, both by encoding/json. Members that In does not have are
// ignored. An event without a body is handled as the zero In. A body that is no In is refused with PAYLOAD_INVALID. Errors and panics are as for HandleJSON.
func Handle[In, Out any](p *Processor, typ string, h func(ctx context.Context, tx *Tx, in In) (Out, error)) {
	p.HandleJSON(typ, func(ctx context.Context, tx *Tx, data json.RawMessage) (json.RawMessage, error) {
		var in In
		if len(data) > 0 {
			if err := json.Unmarshal(data, &in); err != nil {
				return nil, badBody(err)
			}
		}
		out, err := h(ctx, tx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	})
}

// badBody says which member is wrong.
func badBody(err error) *cloudevent.Error {
	refused := cloudevent.Errorf(cloudevent.KindPayloadInvalid, "the body is not as the handler wants it: %.200v", err)
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		refused.Context = map[string]string{"name": typ.Field, "value": typ.Value, "rule": "must be " + typ.Type.String()}
	}
	return refused
}

// PostStart has hook run once for a set of replicas that start at about the same time, before any of them handles an event; what it writes by tx is one commit. name tells the
// hooks of one processor apart: 1 to 64 of the characters of Options.Name. When hook fails, Run of that replica returns its error, and the next replica runs it.
// A replica that starts more than 30 s later runs it again, so it must bear to be repeated.
//
// It panics when the name is bad or used twice.
func (p *Processor) PostStart(name string, do func(ctx context.Context, tx *Tx) error) {
	if !validName.MatchString(name) || slices.ContainsFunc(p.hooks, func(h hook) bool { return h.name == name }) {
		panic(fmt.Sprintf("processor: hook %q: must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and not used twice", name))
	}
	p.hooks = append(p.hooks, hook{name, do})
}

// Run runs the hooks, then handles events until ctx ends, and returns nil when what runs has ended. Broker and Redis may be away: it waits for them. Errors are those of
// options, of subscriptions that the broker refuses, and of hooks.
func (p *Processor) Run(ctx context.Context) error {
	if len(p.handlers) == 0 {
		return errors.New("processor: no handler is registered: call Handle")
	}
	server, err := mqtt.NewServer(p.receive, p.publish, mqtt.ServerOptions{
		Filters: p.opt.Filters, Handler: p.handler(), Lane: p.opt.Lane, Lanes: p.opt.Slots, Expiry: p.opt.MessageExpiry, Hold: p.opt.Hold, Drain: p.opt.Drain, Log: p.opt.Log,
	})
	if err != nil {
		return err
	}
	for _, h := range p.hooks {
		if err := p.postStart(ctx, h); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("processor: hook %s: %w", h.name, err)
		}
	}
	up := func(ctx context.Context) error {
		if p.Ready(ctx) == nil {
			p.opt.Log.Info("processor is up", "name", p.opt.Name, "instance", p.opt.Store.Instance(), "types", slices.Sorted(maps.Keys(p.handlers)), "filters", p.opt.Filters)
		}
		<-ctx.Done()
		return nil
	}
	const margin = 10 * time.Second // the server bounds its end itself, and not much above Drain
	return lifecycle.Run(ctx, p.opt.Drain+margin, lifecycle.Stage{"events": server.Run, "up": up}, lifecycle.Stage{"mqtt receive": p.receive.Run, "mqtt publish": p.publish.Run})
}

// Ready waits until events are taken, which needs Run. The error says why they are not when ctx ends.
func (p *Processor) Ready(ctx context.Context) error {
	if err := p.receive.Ready(ctx); err != nil {
		return err
	}
	return p.publish.Ready(ctx)
}

// postStart runs one hook, and waits for a Redis that is away.
func (p *Processor) postStart(ctx context.Context, h hook) error {
	for {
		_, err := p.opt.Store.PostStart(ctx, p.opt.Name+":"+h.name, 0, func(ctx context.Context) error {
			return p.Do(ctx, func(tx *Tx) error { return h.do(ctx, tx) })
		})
		if err == nil || !jobstore.Away(err) && !errors.Is(err, jobstore.ErrLeaseLost) || !lifecycle.Sleep(ctx, time.Second) {
			return err
		}
	}
}

// Do has do write by a Tx without an event. It is called again after a conflict with another process. The error is that of do, or of the commit; see jobstore.Away.
func (p *Processor) Do(ctx context.Context, do func(tx *Tx) error) error {
	for {
		b := p.opt.Store.Batch(p.opt.Name)
		err := do(p.tx(b, cloudevent.New("takt.processor", "urn:takt:"+p.opt.Name, "", p.opt.Store.Now())))
		if err == nil {
			err = b.Commit(ctx, nil, nil)
		}
		if !errors.Is(err, jobstore.ErrConflict) || !lifecycle.Sleep(ctx, time.Millisecond) {
			return err
		}
	}
}

// Deliver handles an event as if the broker had delivered it, and returns the reply, nil for none; its Delivery.Topic is "" when no answer was asked for. It needs no Run and no
// broker. An error says that nothing was decided: deliver the event again.
func (p *Processor) Deliver(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return p.handler().Handle(ctx, e)
}

// handler is what the broker's events go to.
func (p *Processor) handler() jobcontrol.Program {
	return p.receiver.Program(jobcontrol.ProgramOptions{
		Name:  p.opt.Name,
		Knows: func(typ string) bool { return p.handlers[typ] != nil },
		Do: func(ctx context.Context, e cloudevent.Event, b *jobstore.Batch) (body []byte, err error) {
			defer func() {
				if v := recover(); v != nil {
					p.opt.Log.Error("processor: handler panicked", "type", e.Type, "source", e.Source, "id", e.ID, "panic", v, "stack", string(debug.Stack()))
					err = fmt.Errorf("the handler panicked: %v", v)
				}
			}()
			body, err = p.handlers[e.Type](ctx, p.tx(b, e), e.Data)
			if err == nil && bytes.Equal(body, []byte("null")) {
				body = nil
			}
			return body, err
		},
	})
}
