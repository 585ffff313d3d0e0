package main

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// checkRules are what a check judges by.
type checkRules struct {
	RetainedConfig       `embed:""`
	Grace                time.Duration `help:"Younger entries of streams and late timers count as work in hand." default:"30s"`
	Waiting              time.Duration `help:"An order that may start and that nothing has started for longer is reported." default:"24h"`
	RequireConfiguration bool          `help:"Report orders of scopes that were never configured, as takt serve refuses them." default:"true" negatable:""`
}

type checkCmd struct {
	checkRules `embed:""`
	JSON       bool `name:"json" help:"One JSON object per broken invariant."`
}

// rulesOf are the rules for a process with these settings.
func rulesOf(sc *ServeConfig) checkRules {
	return checkRules{sc.RetainedConfig, 30 * time.Second, 24 * time.Hour, sc.RequireConfiguration}
}

func (c *checkCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	if err := a.findBroker(); err != nil {
		return err
	}
	found, err := c.standing(ctx, a, store)
	if err != nil {
		return err
	}
	return violations(a, found, c.JSON, "nothing found: store, streams and retained topics agree")
}

// standing lists the broken invariants of the store and of the retained topics that last.
func (r *checkRules) standing(ctx context.Context, a *app, store *jobstore.Store) ([]invariant.Violation, error) {
	conn, hangUp, err := a.dialAs(ctx, a.Config, "takt-check-"+randomHex(4))
	if err != nil {
		return nil, err
	}
	defer hangUp()
	options := jobstore.CheckOptions{Grace: r.Grace, Waiting: r.Waiting, AnyScope: !r.RequireConfiguration}
	found, err := invariant.Standing(ctx, 3, time.Second, func() ([]invariant.Violation, error) {
		return checkAll(ctx, store, conn, r.publisherOptions(a.TopicPrefix, a.log), options)
	})
	if err != nil {
		err = &exitError{exitNoAnswer, err}
	}
	return found, err
}

// violations prints what a check found, or that it found nothing, which is none.
func violations(a *app, found []invariant.Violation, asJSON bool, none string) error {
	for _, v := range found {
		if err := a.say(asJSON, v, "%v\n", v); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return &exitError{exitFailed, fmt.Errorf("broken invariants: %d", len(found))}
	}
	if asJSON {
		return nil
	}
	_, err := fmt.Fprintln(a.out, none)
	return err
}

// checkAll lists the broken invariants of the store and of the retained topics.
func checkAll(ctx context.Context, store *jobstore.Store, conn *mqtt.Conn, o publisher.Options, co jobstore.CheckOptions) ([]invariant.Violation, error) {
	found, err := store.Check(ctx, co)
	if err != nil {
		return nil, err
	}
	own := topics.Prefix(o.TopicPrefix).Private(conn.Facts().ClientID) + "/probe"
	published, err := publisher.Check(ctx, store, conn.EachRetained, o, func(bytes int) error { return takes(ctx, conn, own, bytes) })
	return append(found, published...), err
}
