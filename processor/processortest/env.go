// Package processortest runs the handlers of a processor in tests: on a store in memory, without a broker and without anything installed.
package processortest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/processor"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// Env is a processor on a store of its own.
type Env struct {
	*processor.Processor
	Store *jobstore.Store

	t testing.TB
}

// New makes an Env with the handlers that register registers. It ends with the test.
func New(t testing.TB, register func(*processor.Processor)) *Env {
	t.Helper()
	server, err := embedded.StartMiniredis(t.Context(), embedded.MiniredisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := jobstore.Open(t.Context(), jobstore.Options{URL: server.URL(), Embedded: true, Instance: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	p, err := processor.New(processor.Options{Name: "test", Store: store, MQTT: mqtt.Options{URL: "mqtt://127.0.0.1:1"}, Log: log}) // never dialed
	if err != nil {
		t.Fatal(err)
	}
	register(p)
	return &Env{Processor: p, Store: store, t: t}
}

// Station gives stations what a station.yaml says that they have, as takt station apply does.
func (e *Env) Station(file string) {
	e.t.Helper()
	conf, err := station.LoadConfiguration(file, recipe.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	events, err := conf.Events("urn:test", time.Now())
	if err != nil {
		e.t.Fatal(err)
	}
	receiver := jobcontrol.New(e.Store, jobcontrol.Options{})
	for _, event := range events {
		event.Delivery.ResponseTopic = "mes/test"
		reply, err := receiver.Handle(e.t.Context(), event)
		if err == nil && reply.ErrorKind != "" {
			err = reply.Err()
		}
		if err != nil {
			e.t.Fatalf("%s: %s: %v", file, event.Type, err)
		}
	}
}

// Send has a handler handle an event of a type, with body in JSON, and decodes the body of the reply into out, unless out is nil. A refusal is a *cloudevent.Error.
func (e *Env) Send(typ string, scope isa95.Scope, body, out any) error {
	e.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		e.t.Fatal(err)
	}
	event := cloudevent.New(typ, "urn:test", string(scope), time.Now()).WithData(data, "")
	event.Delivery.ResponseTopic = "mes/test"
	reply, err := e.Deliver(e.t.Context(), event)
	if err != nil {
		e.t.Fatal(err)
	}
	if why := reply.Err(); why != nil {
		return why
	}
	if out != nil {
		if err := json.Unmarshal(reply.Data, out); err != nil {
			return fmt.Errorf("reply %s: %w", reply.Data, err)
		}
	}
	return nil
}

// JobOrder reads a job order, nil if there is none of that id.
func (e *Env) JobOrder(ctx context.Context, id isa95.JobOrderID) *jobstore.StoredOrder {
	e.t.Helper()
	snap, err := e.Store.Load(ctx, jobstore.Query{JobOrderID: id})
	if err != nil {
		e.t.Fatal(err)
	}
	return snap.Job
}
