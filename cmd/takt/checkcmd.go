package main

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

type checkCmd struct {
	RetainedConfig
	Grace                time.Duration `help:"Younger entries of streams and late timers count as work in hand." default:"30s"`
	Waiting              time.Duration `help:"An order that may start and that nothing has started for longer is reported." default:"24h"`
	RequireConfiguration bool          `help:"Report orders of scopes that were never configured, as takt serve refuses them." default:"true" negatable:""`
	JSON                 bool          `name:"json" help:"One JSON object per broken invariant."`
}

func (checkCmd) Help() string {
	return `Compares job orders, executions, indexes, timers and streams with each other, and the retained topics with what the publisher believes they are. It reads every key of the prefix and changes nothing. Run it when the system is at rest, or expect what is just being done to be listed. The exit status is 1 if anything is found.

Examples:
  takt check --redis redis://127.0.0.1:6379 --mqtt mqtt://127.0.0.1:1883`
}

func (c *checkCmd) Run(ctx context.Context, a *app) error {
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, hangUp, err := a.dial(ctx, "takt-check-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	found, err := checkAll(ctx, store, conn, c.publisherOptions(a.TopicPrefix, a.log),
		jobstore.CheckOptions{Grace: c.Grace, Waiting: c.Waiting, AnyScope: !c.RequireConfiguration, Recipes: a.recipeOptions()})
	if err != nil {
		return &exitError{exitNoAnswer, err}
	}
	return violations(a, found, c.JSON, "nothing found: store, streams and retained topics agree")
}

// violations prints what a check found, or that it found nothing, which is none.
func violations[V fmt.Stringer](a *app, found []V, asJSON bool, none string) (err error) {
	for _, v := range found {
		if asJSON {
			err = printJSON(a.out, v)
		} else {
			_, err = fmt.Fprintln(a.out, v)
		}
		if err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return &exitError{exitFailed, fmt.Errorf("broken invariants: %d", len(found))}
	}
	if !asJSON {
		_, err = fmt.Fprintln(a.out, none)
	}
	return err
}

// checkAll lists the broken invariants of the store and of the retained topics.
func checkAll(ctx context.Context, store *jobstore.Store, conn *mqtt.Conn, o publisher.Options, co jobstore.CheckOptions) ([]jobstore.Violation, error) {
	found, err := store.Check(ctx, co)
	if err != nil {
		return nil, err
	}
	own := topics.Prefix(o.TopicPrefix).Private(conn.Facts().ClientID) + "/probe"
	published, err := publisher.Check(ctx, store, conn.EachRetained, o, func(bytes int) error { return takes(ctx, conn, own, bytes) })
	return append(found, published...), err
}
