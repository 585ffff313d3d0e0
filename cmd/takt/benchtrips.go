package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/proxy"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/sfc"
)

// countTrips counts round trips to Redis on the wire, through a proxy, one operation at a time and with nothing else going on: a job
// command from its arrival to its reply, and an action from the arrival of its answer to the commit, at the instance that sent
// its command.
func countTrips(ctx context.Context, cfg *Config, log *slog.Logger) (perCommand, perAction float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	wire, err := proxy.New(cfg.Redis)
	if err != nil {
		return 0, 0, err
	}
	defer wire.Close()
	o := cfg.storeOptions(false, log)
	o.URL, o.Instance, o.WorkerTTL = wire.URL, "bench-count", time.Hour // so that no renewal falls into a count
	store, err := jobstore.Open(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	c := tripCounter{store: store, wire: wire, sent: make(chan cloudevent.Event, 16), log: log}
	c.receiver = jobcontrol.New(store, jobcontrol.Options{AnyScope: true, TopicPrefix: cfg.TopicPrefix, Log: log})
	c.engine = sfc.New(store, c, sfc.Options{TopicPrefix: cfg.TopicPrefix, Instance: "bench-count", Log: log})
	heart := newGroup(ctx)
	defer func() { _ = heart.stop() }() // it was told to
	heart.start("heartbeat", store.RunWorker)
	const orders = 2
	commands, actions := 0, 0
	for i := range orders + 1 {
		id := fmt.Sprintf("T-%d", i)
		inCommand, inActions, err := c.order(ctx, id)
		if err != nil {
			return 0, 0, err
		}
		if i > 0 { // the first one loads scripts and compiles the recipe
			commands += inCommand
			actions += inActions
		}
	}
	return float64(commands) / orders, float64(actions) / (orders * 4), nil
}

type tripCounter struct {
	store    *jobstore.Store
	wire     *proxy.Proxy
	receiver *jobcontrol.Receiver
	engine   *sfc.Engine
	sent     chan cloudevent.Event // commands to the equipment
	log      *slog.Logger
}

// PublishEvent is the equipment's side of the outbox.
func (c tripCounter) PublishEvent(_ context.Context, _ string, e cloudevent.Event) error {
	c.sent <- e
	return nil
}

// order runs one order: the engine works only between the operations that are counted.
func (c *tripCounter) order(ctx context.Context, id string) (inCommand, inActions int, err error) {
	body, err := isa95.Marshal(isa95.JobOrderCall{JobOrder: benchOrder(id)})
	if err != nil {
		return 0, 0, err
	}
	e := cloudevent.New(isa95.StoreAndStart.TypeID(), "urn:takt:bench", "bench-0", time.Now()).WithData(body, isa95.StoreAndStart.CallSchema())
	e.Delivery.ResponseTopic = "mes/bench"
	c.wire.Reset()
	reply, err := c.receiver.Handle(ctx, e)
	inCommand = c.wire.Trips()
	if err != nil {
		return 0, 0, err
	}
	if why := reply.Err(); why != nil {
		return 0, 0, why
	}
	for range 4 {
		command, err := c.nextCommand(ctx)
		if err != nil {
			return 0, 0, err
		}
		answer := command.Reply([]byte(`{"ok":true}`), "", "urn:takt:bench", time.Now())
		c.wire.Reset()
		if err := c.engine.Answer(ctx, answer); err != nil {
			return 0, 0, err
		}
		inActions += c.wire.Trips()
	}
	return inCommand, inActions, nil
}

// nextCommand lets the engine work until it has sent a command.
func (c *tripCounter) nextCommand(ctx context.Context) (cloudevent.Event, error) {
	work := newGroup(ctx)
	defer func() { _ = work.stop() }() // it was told to
	work.start("engine", c.engine.Run)
	select {
	case e := <-c.sent:
		return e, nil
	case <-ctx.Done():
		return cloudevent.Event{}, ctx.Err()
	}
}
