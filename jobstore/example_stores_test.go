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
	"github.com/taktworks/takt/recipe"
)

// exampleStore is a store on a server of its own, that of `takt demo`.
func exampleStore(ctx context.Context) (store *jobstore.Store, done func()) {
	server, err := embedded.StartMiniredis(ctx, embedded.MiniredisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	store, err = jobstore.Open(ctx, jobstore.Options{URL: server.URL(), Embedded: true, Instance: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return store, func() { store.Close(); server.Stop() }
}

// commit loads and decides on one job order; it ends the example if another writer was faster.
func commit(ctx context.Context, store *jobstore.Store, q jobstore.Query, decide func(*jobstore.Snapshot) jobstore.Change) {
	snap, err := store.Load(ctx, q)
	if err != nil {
		log.Fatal(err)
	}
	change := decide(snap)
	change.Now = store.Now()
	if err := store.Commit(ctx, snap, change); err != nil {
		log.Fatal(err)
	}
}

// A job order is written with a change record, read by its id, and listed by scope. The commit of its end has the response, which is found by the id of the order and by state; with
// the same calls the recipe that runs it is read.
func ExampleStore_Commit() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	query := jobstore.Query{JobOrderID: "JO-7", Scope: "cell-07", Response: true}
	commit(ctx, store, query, func(*jobstore.Snapshot) jobstore.Change {
		state, _ := isa95.Next(isa95.Initial, isa95.StoreAndStart)
		return jobstore.Change{Transition: &jobstore.Transition{Method: isa95.StoreAndStart, State: state, Order: &isa95.JobOrder{JobOrderID: "JO-7"}}}
	})
	commit(ctx, store, query, func(snap *jobstore.Snapshot) jobstore.Change {
		state, _ := isa95.Next(snap.Job.State, isa95.Run)
		x := &recipe.Execution{JobID: "JO-7", Scope: "cell-07", CurrentStep: "drill", ActiveSteps: []string{"drill"}, StartedAt: store.Now().UnixMilli(), CorrelationID: recipe.CorrelationID("JO-7", "1")}
		return jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Run, State: state}, Execution: x}
	})
	orders, err := store.List(ctx, "cell-07")
	fmt.Println(len(orders), orders[0].JobOrder.JobOrderID, orders[0].State, err)

	commit(ctx, store, query, func(snap *jobstore.Snapshot) jobstore.Change {
		fmt.Println(snap.Job.State, snap.Execution.CurrentStep, snap.Execution.Terminal())
		state, _ := isa95.Next(snap.Job.State, isa95.End)
		x := snap.Execution.Stop(store.Now())
		return jobstore.Change{
			Transition: &jobstore.Transition{Method: isa95.End, State: state}, Execution: x,
			Response: jobstore.NewResponse(snap.Job, x, state, store.Now()),
		}
	})
	snap, err := store.Load(ctx, query)
	fmt.Println(snap.Job.State, snap.Response.JobResponseID, snap.Execution.Terminal(), err)
	responses, err := store.ResponsesByState(ctx, "cell-07", []isa95.State{{Top: isa95.Ended, Sub: isa95.Completed}})
	fmt.Println(len(responses), responses[0].JobOrderID, err)
	// Output:
	// 1 JO-7 Running <nil>
	// Running drill false
	// Ended_Completed JO-7-response true <nil>
	// 1 JO-7 <nil>
}

// A station is told what it has: resources of five kinds, work masters, and how many orders it takes. Then an order is judged by that.
func ExampleStore_Configure() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	for _, c := range []jobstore.Configuration{
		{Kind: isa95.ConfigEquipment, ID: "drill-2"},
		{Kind: isa95.ConfigEquipment, ID: "drill-1"},
		{Kind: isa95.ConfigMaterialClass, ID: "sheet"},
		{Kind: isa95.ConfigMaterialDefinition, ID: "sheet-2mm"},
		{Kind: isa95.ConfigPersonnel, ID: "night-shift"},
		{Kind: isa95.ConfigPhysicalAsset, ID: "SN-1077"},
		{Kind: isa95.ConfigWorkMaster, ID: "WM-1", WorkMaster: &isa95.WorkMaster{ID: "WM-1"}},
		{Kind: isa95.ConfigJobAcceptance, Limit: 10},
		{Kind: isa95.ConfigEquipment, ID: "drill-1", Delete: true},
	} {
		c.Scope = "cell-07"
		snap, err := store.Load(ctx, jobstore.Query{Scope: c.Scope, Holders: isa95.WorkMasterID(c.ID)})
		if err != nil {
			log.Fatal(err)
		}
		if err := store.Configure(ctx, c, snap, nil); err != nil {
			log.Fatal(err)
		}
	}
	for _, kind := range isa95.ConfigKinds()[:6] {
		ids, err := store.Resources(ctx, "cell-07", kind)
		fmt.Println(kind, ids, err)
	}
	order := &isa95.JobOrder{JobOrderID: "JO-7", EquipmentRequirements: []isa95.Equipment{{ID: "drill-1"}}}
	snap, err := store.Load(ctx, jobstore.Query{Scope: "cell-07", WorkMaster: "WM-1", Acceptance: order, Configured: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.WorkMaster.ID, snap.Acceptance.Limit, snap.Acceptance.Live)
	fmt.Println(snap.Acceptance.Refusal(false))
	// Output:
	// equipment [drill-2] <nil>
	// materialclass [sheet] <nil>
	// materialdefinition [sheet-2mm] <nil>
	// personnel [night-shift] <nil>
	// physicalasset [SN-1077] <nil>
	// workmaster [WM-1] <nil>
	// WM-1 10 0
	// equipment "drill-1" is not known at this station
}

// A CloudEvent is noted in the commit of what it changed: its repetition finds that when it is loaded, and of two that are decided on at once one conflicts. A transaction is noted by itself.
func ExampleStore_FirstTransaction() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	query := jobstore.Query{JobOrderID: "JO-7", Scope: "cell-07", Source: "urn:example:mes", ID: "req-1"}
	store7 := jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, State: isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}, Order: &isa95.JobOrder{JobOrderID: "JO-7"}},
		Seen:       &jobstore.Seen{},
	}
	atOnce, err := store.Load(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	commit(ctx, store, query, func(snap *jobstore.Snapshot) jobstore.Change { return store7 })
	fmt.Println(errors.Is(store.Commit(ctx, atOnce, store7), jobstore.ErrConflict))
	again, err := store.Load(ctx, query)
	fmt.Println(again.Seen, err)

	for range 2 {
		first, err := store.FirstTransaction(ctx, "cell-07", "label-0815", time.Minute)
		fmt.Println(first, err)
	}
	// Output:
	// true
	// true <nil>
	// true <nil>
	// false <nil>
}

func ExampleStore_Count() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	for range 2 {
		if _, err := store.Count(ctx, "labels"); err != nil {
			log.Fatal(err)
		}
	}
	n, err := store.Counter(ctx, "labels")
	fmt.Println(n, err)
	n, err = store.Counter(ctx, "never counted")
	fmt.Println(n, err)
	// Output:
	// 2 <nil>
	// 0 <nil>
}

// The first replica registers the line at the ERP system; one that starts at about the same time does not.
func ExampleStore_PostStart() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	for range 2 {
		ran, err := store.PostStart(ctx, "line-3", 0, func(context.Context) error {
			fmt.Println("register line-3")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// register line-3
	// true <nil>
	// false <nil>
}

// The one process that publishes reads changes from its cursor, and remembers how far it is.
func ExampleStore_SaveCursor() {
	ctx := context.Background()
	store, done := exampleStore(ctx)
	defer done()
	for _, id := range []isa95.JobOrderID{"JO-7", "JO-8"} {
		commit(ctx, store, jobstore.Query{JobOrderID: id, Scope: "cell-07"}, func(*jobstore.Snapshot) jobstore.Change {
			state, _ := isa95.Next(isa95.Initial, isa95.Store)
			return jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, State: state, Order: &isa95.JobOrder{JobOrderID: string(id)}}}
		})
	}
	for range 2 { // the second time it goes on after the first
		err := store.Lease(ctx, jobstore.RolePublisher, time.Minute, func(ctx context.Context, l *jobstore.Lease) error {
			cursor, err := store.Cursor(ctx)
			if err != nil {
				return err
			}
			if cursor == "" {
				cursor = "0"
			}
			changes, err := store.Watch(ctx, "", cursor, time.Millisecond) // "": of all scopes
			for _, c := range changes {
				fmt.Println(c.Type, c.JobOrderID, c.Scope)
				cursor = c.ID
			}
			if err != nil {
				return err
			}
			return store.SaveCursor(ctx, l, cursor)
		})
		fmt.Println(err)
	}
	// Output:
	// Store JO-7 cell-07
	// Store JO-8 cell-07
	// <nil>
	// <nil>
}
