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

// The stores of the Persistence page, one call each.
func ExampleStore() {
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
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	const scope isa95.Scope = "cell-07"

	// Resources, the limit of job orders and work masters of a station.
	configure := func(c jobstore.Configuration) {
		snap, err := store.Load(ctx, jobstore.Query{Holders: isa95.WorkMasterID(c.ID)})
		must(err)
		c.Scope = scope
		must(store.Configure(ctx, c, snap, nil))
	}
	configure(jobstore.Configuration{Kind: isa95.ConfigEquipment, ID: "press-1"})
	configure(jobstore.Configuration{Kind: isa95.ConfigJobAcceptance, Limit: 10})
	configure(jobstore.Configuration{Kind: isa95.ConfigWorkMaster, ID: "WM-1", WorkMaster: &isa95.WorkMaster{ID: "WM-1", DataSchema: "urn:acme:program", Data: []byte(`{"program":7}`)}})
	equipment, err := store.Resources(ctx, scope, isa95.ConfigEquipment)
	must(err)
	limit, err := store.Limit(ctx, scope)
	must(err)
	wm, err := store.Load(ctx, jobstore.Query{Scope: scope, WorkMaster: "WM-1"})
	must(err)
	fmt.Println(equipment, limit, string(wm.WorkMaster.Data))

	// A job order from Store to its end: each change is one commit, with the event that asked for it, so it is done once. Acceptance names what the order needs.
	order := &isa95.JobOrder{JobOrderID: "JO-7", EquipmentRequirements: []isa95.Equipment{{ID: "press-1"}}}
	step := func(event string, method isa95.Method) {
		snap, err := store.Load(ctx, jobstore.Query{JobOrderID: "JO-7", Scope: scope, Source: "urn:acme:mes", ID: event, Acceptance: order})
		must(err)
		if snap.Seen {
			fmt.Println(event, "was done before")
			return
		}
		before := isa95.Initial
		if snap.Job != nil {
			before = snap.Job.State
		} else if why := snap.Acceptance.Refusal(false); why != "" {
			log.Fatal(why)
		}
		state, ok := isa95.Next(before, method)
		if !ok {
			log.Fatal(method, " is not possible in ", before)
		}
		change := jobstore.Change{Transition: &jobstore.Transition{Method: method, State: state}, Seen: &jobstore.Seen{}, Now: store.Now()}
		if snap.Job == nil {
			change.Transition.Order = order
		}
		if state.Clearable() {
			change.Response = jobstore.NewResponse(snap.Job, snap.Execution, state, store.Now())
		}
		must(store.Commit(ctx, snap, change))
	}
	step("event-1", isa95.StoreAndStart)
	step("event-1", isa95.StoreAndStart)
	step("event-2", isa95.Run)
	step("event-3", isa95.End)

	// Responses, by order and by state; an execution, which this order does not have.
	ended, err := store.Load(ctx, jobstore.Query{JobOrderID: "JO-7", Response: true})
	must(err)
	list, err := store.ResponsesByState(ctx, scope, []isa95.State{ended.Job.State})
	must(err)
	fmt.Println(ended.Response.JobResponseID, len(list), ended.Execution == nil)

	// The change stream, from the beginning; a reader keeps the id of the last entry as its cursor.
	cursor, wait := "0", time.Second
	changes, err := store.Watch(ctx, scope, cursor, wait)
	must(err)
	for _, c := range changes {
		cursor = c.ID
		fmt.Print(c.Type, " ")
	}
	last, err := store.LastChange(ctx, scope)
	must(err)
	fmt.Println(cursor == last)

	// What the user's own programs share.
	first, err := store.FirstTransaction(ctx, scope, "tx-1")
	must(err)
	again, err := store.FirstTransaction(ctx, scope, "tx-1")
	must(err)
	_, err = store.Count(ctx, "parts")
	must(err)
	parts, err := store.Count(ctx, "parts")
	must(err)
	ran, err := store.PostStart(ctx, "line-1", 0, func(context.Context) error { fmt.Println("post-start"); return nil })
	must(err)
	fmt.Println(first, again, parts, ran)
	// Output:
	// [press-1] 10 {"program":7}
	// event-1 was done before
	// JO-7-response 1 true
	// StoreAndStart Run End ResultUpdate true
	// post-start
	// true false 2 true
}
