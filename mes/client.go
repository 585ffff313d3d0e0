package mes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/mqtt"
)

// Options of a Client. The zero value of a field means its default.
type Options struct {
	// MQTT is the broker and how to reach it. ClientID names this MES: it is required, and two running clients must not
	// share it; the publishing connection adds -pub. SessionExpiry is not used: what was missed is fetched, not queued.
	MQTT mqtt.Options

	TopicPrefix string // of Takt; default takt

	// ResponseTopic is where answers come, for this client alone; default mes/responses/{ClientID}. Takt answers on the topics of its --reply-topics, by default mes/#,
	// and on {TopicPrefix}/{scope}/replies/{requester} to commands for that scope. A command that asks for another is not carried out.
	ResponseTopic string

	Source string // CloudEvents source of the commands, which are known by it and their id; default urn:takt:mes:{ClientID}

	RepeatAfter time.Duration // an unanswered command is sent again after this, default 5 s

	Log *slog.Logger // default slog.Default()
}

// Client is an MES to Takt. Make it with New and let Run hold its connections. All methods may be called by any
// goroutine; those that ask wait for Run to connect.
type Client struct {
	o         Options
	log       *slog.Logger
	recv, pub *mqtt.Conn
	requests  *mqtt.Client
	orders    exclusive
}

// New checks the options and makes a Client that is not connected yet.
func New(o Options) (*Client, error) {
	if o.MQTT.ClientID == "" {
		return nil, errors.New("mes: Options.MQTT.ClientID: missing")
	}
	o.TopicPrefix = cmp.Or(o.TopicPrefix, "takt")
	prefix := topics.Prefix(o.TopicPrefix)
	o.ResponseTopic = cmp.Or(o.ResponseTopic, "mes/responses/"+topics.Level(o.MQTT.ClientID))
	if _, _, ok := prefix.ReplyTo(o.ResponseTopic); prefix.Holds(o.ResponseTopic) && !ok {
		return nil, fmt.Errorf("mes: Options.ResponseTopic %q: must not be below the topic prefix, but for %s", o.ResponseTopic, prefix.Replies("{scope}", "{requester}"))
	}
	o.MQTT.PrivateTopic = cmp.Or(o.MQTT.PrivateTopic, prefix.Private(o.MQTT.ClientID))
	o.Source = cmp.Or(o.Source, "urn:takt:mes:"+o.MQTT.ClientID)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.MQTT.Log = cmp.Or(o.MQTT.Log, o.Log)
	o.MQTT.SessionExpiry = 0
	c := &Client{o: o, log: o.Log}
	var err error
	if c.recv, err = mqtt.New(o.MQTT); err != nil {
		return nil, fmt.Errorf("mes: %w", err)
	}
	pub := o.MQTT // it asks for no retained messages, so the private topic is not used by two
	pub.ClientID += "-pub"
	if c.pub, err = mqtt.New(pub); err != nil {
		return nil, fmt.Errorf("mes: %w", err)
	}
	c.requests, err = mqtt.NewClient(c.recv, c.pub, mqtt.ClientOptions{ResponseTopic: o.ResponseTopic, RepeatAfter: o.RepeatAfter})
	if err != nil {
		return nil, fmt.Errorf("mes: %w", err)
	}
	return c, nil
}

// Run holds the connections until ctx ends, then closes them and returns nil. Run it once.
func (c *Client) Run(ctx context.Context) error {
	var conns sync.WaitGroup
	var err1, err2 error
	conns.Go(func() { err1 = c.recv.Run(ctx) })
	conns.Go(func() { err2 = c.pub.Run(ctx) })
	conns.Wait()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("mes: %w", err)
	}
	return nil
}

// Ready waits until commands can be sent and answers be heard, or ctx ends.
func (c *Client) Ready(ctx context.Context) error {
	for _, conn := range [...]*mqtt.Conn{c.recv, c.pub} {
		if err := conn.Ready(ctx); err != nil {
			return fmt.Errorf("mes: %w", err)
		}
	}
	return nil
}
