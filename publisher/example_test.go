package publisher_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// shown is a broker that has nothing and shows what it is given.
type shown struct{ topics chan string }

func (shown) Ready(context.Context) error                                       { return nil }
func (shown) OnConnect(func())                                                  {}
func (shown) EachRetained(context.Context, func(mqtt.Message), ...string) error { return nil }

func (s shown) Retain(_ context.Context, topic string, payload []byte, _ time.Duration, _ ...mqtt.UserProperty) error {
	_, jobs, isIndex := strings.Cut(string(payload), `"jobs":`)
	if isIndex {
		topic += " " + strings.TrimSuffix(jobs, "}")
	}
	s.topics <- topic
	return nil
}

// A job order that was committed is published: its own topic first, then the state index that names it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := embedded.StartMiniredis(ctx, embedded.MiniredisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	store, err := jobstore.Open(ctx, jobstore.Options{URL: server.URL(), Embedded: true, Instance: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	snap, err := store.Load(ctx, jobstore.Query{JobOrderID: "JO-7", Scope: "cell-07"})
	if err != nil {
		log.Fatal(err)
	}
	err = store.Commit(ctx, snap, jobstore.Change{Now: store.Now(), Transition: &jobstore.Transition{
		Method: isa95.Store, State: isa95.State{Top: isa95.NotAllowedToStart}, Order: &isa95.JobOrder{JobOrderID: "JO-7"},
	}})
	if err != nil {
		log.Fatal(err)
	}

	broker := shown{topics: make(chan string, 16)}
	p, err := publisher.New(store, broker, publisher.Options{TopicPrefix: "takt", Log: quiet})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	fmt.Println(<-broker.topics)
	fmt.Println(<-broker.topics)
	stop()
	fmt.Println(<-ended)
	// Output:
	// takt/cell-07/order/JO-7
	// takt/cell-07/state-index [{"job_order_id":"JO-7","state":[{"state_text":{"text":"NotAllowedToStart","locale":"en"},"state_number":1}],"has_result":false}]
	// <nil>
}
