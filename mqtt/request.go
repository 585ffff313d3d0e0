package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
)

// ClientOptions of a Client. The zero value of a field means its default.
type ClientOptions struct {
	ResponseTopic string        // where answers come, for this client alone; required
	RepeatAfter   time.Duration // an unanswered request is sent again after this, default 5 s
	Expiry        time.Duration // of requests that set none themselves; 0: none

	Log *slog.Logger // default: that of recv
}

// Client asks and waits for answers. Many requests may be under way at once.
type Client struct {
	o         ClientOptions
	recv, pub *Conn
	log       *slog.Logger

	mu          sync.Mutex
	waiting     map[string][]*waiter // by correlation data
	reconnected chan struct{}        // closed and replaced at every connect
}

type waiter struct {
	id, correlation string
	answer          chan answer // capacity 1
}

type answer struct {
	event cloudevent.Event
	err   error
}

// NewClient makes a Client and registers its subscription on recv, so make it before recv runs.
// Requests go out on pub, which should be another Conn.
func NewClient(recv, pub *Conn, o ClientOptions) (*Client, error) {
	if err := CheckTopic(o.ResponseTopic); err != nil {
		return nil, fmt.Errorf("mqtt: ClientOptions.ResponseTopic: %w", err)
	}
	if o.RepeatAfter < 0 || o.Expiry < 0 {
		return nil, errors.New("mqtt: ClientOptions: RepeatAfter and Expiry: want 0 or more")
	}
	o.RepeatAfter = cmp.Or(o.RepeatAfter, 5*time.Second)
	o.Log = cmp.Or(o.Log, recv.log)
	c := &Client{
		o: o, recv: recv, pub: pub, log: o.Log,
		waiting:     make(map[string][]*waiter),
		reconnected: make(chan struct{}),
	}
	recv.OnConnect(c.repeat)
	pub.OnConnect(c.repeat)
	return c, recv.Subscribe(context.Background(), Subscription{Filter: o.ResponseTopic, QoS: 1, RetainHandling: 2, Handle: c.take})
}

// Request publishes e on topic and returns the answer. Until it comes, or ctx ends, e is sent
// again under the same id, every RepeatAfter and after every connect; whoever answers must know
// a repeated id (Takt does, for two hours). A missing id, specversion, correlation id or content
// type is filled in.
//
// A refusal is an answer too: look at its Err. An error means that no answer came, the request
// can never be sent, or the answer could not be read (*cloudevent.Error, with what could be).
func (c *Client) Request(ctx context.Context, topic string, e cloudevent.Event) (cloudevent.Event, error) {
	if e.ID == "" {
		e.ID = cloudevent.NewID()
	}
	if e.CorrelationID == "" {
		e.CorrelationID = cloudevent.NewID()
	}
	e.SpecVersion = cmp.Or(e.SpecVersion, cloudevent.SpecVersion)
	if e.DataContentType == "" && len(e.Data) > 0 {
		e.DataContentType = cloudevent.ContentTypeJSON
	}
	if e.ExpiryInterval == 0 {
		e.ExpiryInterval = int64(seconds(c.o.Expiry))
	}
	e.Delivery.ResponseTopic = c.o.ResponseTopic
	m := Encode(topic, e)

	w := &waiter{id: e.ID, correlation: string(m.CorrelationData), answer: make(chan answer, 1)}
	c.add(w)
	defer c.remove(w)
	if err := c.recv.Ready(ctx); err != nil { // an answer must find its subscription
		return cloudevent.Event{}, err
	}
	var last error
	repeat := time.NewTimer(c.o.RepeatAfter)
	defer repeat.Stop()
	for {
		c.mu.Lock()
		reconnected := c.reconnected
		c.mu.Unlock()
		last = c.pub.publishEncoded(ctx, m)
		if last != nil && ctx.Err() == nil && (!transient(last) || errors.Is(last, ErrClosed)) {
			return cloudevent.Event{}, last
		}
		repeat.Reset(c.o.RepeatAfter)
		select {
		case a := <-w.answer:
			return a.event, a.err
		case <-ctx.Done():
			if last != nil {
				return cloudevent.Event{}, fmt.Errorf("mqtt: no answer from %s to %s: %w (%w)", topic, e.ID, ctx.Err(), last)
			}
			return cloudevent.Event{}, fmt.Errorf("mqtt: no answer from %s to %s: %w", topic, e.ID, ctx.Err())
		case <-repeat.C:
		case <-reconnected:
		}
	}
}

// repeat has all requests under way sent again.
func (c *Client) repeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.reconnected)
	c.reconnected = make(chan struct{})
}

func (c *Client) add(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[w.correlation] = append(c.waiting[w.correlation], w)
}

func (c *Client) remove(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[w.correlation] = slices.DeleteFunc(c.waiting[w.correlation], func(o *waiter) bool { return o == w })
	if len(c.waiting[w.correlation]) == 0 {
		delete(c.waiting, w.correlation)
	}
}

// take gives an answer to who waits for it: to the request that its causationid names, if it has that one's correlation data, which who answers returns
// (MQTT 5, 4.10.2). Ids may be known to others, who could have an answer to a command of theirs sent here. Without causationid the correlation data
// decides, and the oldest request waits first, for several may belong to one conversation.
func (c *Client) take(_ context.Context, in *Inbound) {
	defer in.Ack()
	e, err := Decode(in.Message)
	e.Delivery.Duplicate = in.Duplicate
	c.mu.Lock()
	waiting := slices.Clone(c.waiting[string(e.Delivery.CorrelationData)])
	if e.CausationID != "" {
		waiting = slices.DeleteFunc(waiting, func(w *waiter) bool { return w.id != e.CausationID })
	} else if len(waiting) > 1 {
		waiting = waiting[:1]
	}
	c.mu.Unlock()
	for _, w := range waiting {
		select {
		case w.answer <- answer{e, err}:
		default: // it has one
		}
	}
	if len(waiting) == 0 {
		c.log.Debug("mqtt: answer to no request under way", "topic", c.recv.o.ShownTopic(in.Topic), "causationid", e.CausationID, "err", err)
	}
}
