package main

import (
	"context"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

type jobWhyCmd struct {
	ID   string `arg:"" help:"Job order id."`
	JSON bool   `name:"json" help:"One JSON object with the answer and its reasons."`
}

func (c *jobWhyCmd) Run(ctx context.Context, a *app) error {
	id, err := isa95.ParseJobOrderID(c.ID)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		situation, err := store.Situation(ctx, id)
		if err != nil {
			return err
		}
		if situation.Job == nil {
			return noJobOrder(id)
		}
		why := situation.Why(a.TopicPrefix)
		return show(a, nil, c.JSON, &why, a.showWhy)
	})
}

// showWhy prints the answer in one sentence, the other reasons below it, and a table of what to do.
func (a *app) showWhy(why *jobstore.Why) error {
	printf(a.out, "%s\n", why.Answer)
	for _, r := range why.Reasons[1:] {
		printf(a.out, "  and %s\n", r.Text)
	}
	printf(a.out, "\n")
	t := newTable(a.out, "REASON", "WAITS FOR", "TOPIC", "NEXT")
	for _, r := range why.Reasons {
		t.row(r.Kind, r.Short, r.Topic, r.Next)
	}
	return t.flush()
}
