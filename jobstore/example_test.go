package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Load, decide, commit. Of two writers that decided on the same documents one commits; the other is told to load again.
func Example() {
	ctx := context.Background()
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

	query := jobstore.Query{JobOrderID: "JO-7", Scope: "cell-07"}
	mine, err := store.Load(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	theirs, err := store.Load(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	state, ok := isa95.Next(isa95.Initial, isa95.Store)
	fmt.Println(state, ok)
	change := jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, State: state, Order: &isa95.JobOrder{JobOrderID: "JO-7"}},
		Now:        store.Now(),
	}
	fmt.Println(store.Commit(ctx, mine, change))
	fmt.Println(errors.Is(store.Commit(ctx, theirs, change), jobstore.ErrConflict))

	orders, err := store.List(ctx, "cell-07")
	if err != nil {
		log.Fatal(err)
	}
	changes, err := store.Watch(ctx, "cell-07", "0", time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(orders), orders[0].JobOrder.JobOrderID, orders[0].State, len(changes), changes[0].Type)
	// Output:
	// NotAllowedToStart_Ready true
	// <nil>
	// true
	// 1 JO-7 NotAllowedToStart_Ready 1 Store
}
