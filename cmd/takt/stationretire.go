package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

type stationRetireCmd struct {
	Scope string `arg:"" help:"The station."`
}

func (c *stationRetireCmd) Run(ctx context.Context, a *app) error {
	scope, err := isa95.ParseScope(c.Scope)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		switch err := store.Retire(ctx, scope); {
		case errors.Is(err, jobstore.ErrScopeInUse):
			return inTheWay(ctx, store, scope)
		case errors.Is(err, jobstore.ErrNotFound):
			return &exitError{exitFailed, fmt.Errorf("no scope %s: it has retired, or never had a job order; takt job list", scope)}
		case err != nil:
			return &exitError{exitNoAnswer, err}
		}
		_, err := printf(a.out, "%s retired; its empty state index expires at the broker\n", scope)
		return err
	})
}

// inTheWay names the job orders that keep a station from retiring.
func inTheWay(ctx context.Context, store *jobstore.Store, scope isa95.Scope) error {
	orders, err := store.List(ctx, scope)
	if err != nil {
		return err
	}
	if len(orders) == 0 {
		return &exitError{exitRefused, fmt.Errorf("the topics of the last job orders of %s are not deleted yet: repeat this while a publisher runs (takt serve --roles publisher)", scope)}
	}
	const most = 20
	var names []string
	for _, o := range orders[:min(len(orders), most)] {
		names = append(names, fmt.Sprintf("%s (%s)", o.JobOrder.JobOrderID, o.State))
	}
	if more := len(orders) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return &exitError{exitRefused, fmt.Errorf("%s has job orders: %s; end them with takt job cancel or abort, then takt job clear", scope, strings.Join(names, ", "))}
}
