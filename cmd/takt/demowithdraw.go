package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
)

// stored lists the job orders of the example that the store has and that are not cleared, in the order of the example.
func (d *demo) stored(ctx context.Context, store *jobstore.Store) ([]*jobstore.StoredOrder, error) {
	var all []*jobstore.StoredOrder
	for _, o := range d.example.orders {
		snap, err := store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(o.Order.JobOrderID)})
		if err != nil {
			return nil, err
		}
		if snap.Job != nil && !snap.Job.State.IsEnd() {
			all = append(all, snap.Job)
		}
	}
	return all, nil
}

// mustBeNew refuses a store that has job orders with the ids of the example: their results would count as those of this demo.
func (d *demo) mustBeNew(ctx context.Context) error {
	store, err := d.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	there, err := d.stored(ctx, store)
	if err != nil || len(there) == 0 {
		return err
	}
	return &exitError{exitUsage, fmt.Errorf("the store of --redis has %d of the %d job orders of this demo, such as %s, which is %s: nothing was sent. Give the demo a --prefix and a --topic-prefix of its own, or remove the orders:\n%s",
		len(there), len(d.example.orders), there[0].JobOrder.JobOrderID, there[0].State, removal(there))}
}

// removal is a command that removes orders, in lines for a shell.
func removal(orders []*jobstore.StoredOrder) string {
	var scopes []isa95.Scope
	ids := make(map[isa95.Scope][]string)
	for _, o := range orders {
		if ids[o.Scope] == nil {
			scopes = append(scopes, o.Scope)
		}
		ids[o.Scope] = append(ids[o.Scope], o.JobOrder.JobOrderID)
	}
	var lines []string
	for _, scope := range scopes {
		lines = append(lines, fmt.Sprintf("  for id in '%s'; do takt job abort \"$id\" --scope %s; takt job clear \"$id\" --scope %[2]s; done", strings.Join(ids[scope], "' '"), scope))
	}
	return strings.Join(lines, "\n") + "\nwith the --redis, --mqtt, --prefix and --topic-prefix of this demo"
}

// withdrawLimit is how long a demo that has ended early tries to remove its orders.
const withdrawLimit = 20 * time.Second

// withdraw aborts and clears what a demo that ended early has left in a store that is not its own, and says so, or what is left there and how to remove it.
func (d *demo) withdraw(ctx context.Context, store *jobstore.Store) string {
	d.progress.say("aborting and clearing the job orders of this demo")
	limited, cancel := context.WithTimeout(ctx, min(withdrawLimit, d.Timeout))
	defer cancel()
	n, err := d.remove(limited, store)
	if err == nil {
		return fmt.Sprintf("%d job orders of this demo were aborted and cleared", n)
	}
	left, lerr := d.stored(ctx, store)
	if lerr != nil {
		return fmt.Sprintf("the job orders of this demo are left in the store of --redis: %v", errors.Join(err, lerr))
	}
	return fmt.Sprintf("%d job orders of this demo are left in the store of --redis (%v); to remove them:\n%s", len(left), err, removal(left))
}

// remove aborts and clears the orders of the demo until the store has none: the last command of a demo that was interrupted may be on its way.
func (d *demo) remove(ctx context.Context, store *jobstore.Store) (removed int, err error) {
	client, hangUp, err := d.dialMES(ctx, "takt-demo-withdraw-"+randomHex(4))
	if err != nil {
		return 0, err
	}
	defer hangUp()
	for {
		left, err := d.stored(ctx, store)
		if err != nil || len(left) == 0 {
			return removed, err
		}
		for _, o := range left {
			for _, method := range []func(context.Context, isa95.Scope, isa95.JobOrderID) (isa95.ReturnStatus, error){client.Abort, client.Clear} {
				_, err := method(ctx, o.Scope, isa95.JobOrderID(o.JobOrder.JobOrderID))
				if err != nil && !is[*mes.RefusedError](err) { // that is over, or another one has cleared it
					return removed, err
				}
			}
			removed++
		}
	}
}
