package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
)

type stationRetireCmd struct {
	Scope   string        `arg:"" help:"The station."`
	Yes     bool          `help:"Say that it shall be done; without it you are asked."`
	Timeout time.Duration `help:"How long to wait until it is done." default:"1m"`
	JSON    bool          `name:"json" help:"One JSON object: what was deleted."`
}

func (stationRetireCmd) Help() string {
	return `Clears the job orders of the station that are over, with their results, and deletes its state index at the broker, at once. Lists what goes before it asks. The exit status is 3 if the station has job orders that are not over.
What the station has stays: equipment, material, work masters. The next job order brings it back, and its state index goes on with a higher seq. Without this command a station without job orders retires when its last state index has expired (--retained-ttl).

Examples:
  takt station retire cell-07
  takt station retire cell-07 --yes --json`
}

// retired is what a station had.
type retired struct {
	Scope   string   `json:"scope"`
	Cleared []string `json:"cleared"` // job orders whose results were there
	Topics  []string `json:"topics"`  // deleted
}

func (c *stationRetireCmd) Run(ctx context.Context, a *app) error {
	scope, err := isa95.ParseScope(c.Scope)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := toRetire(ctx, store, a.TopicPrefix, scope)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("this deletes the retained topics of %s", scope)
	if n := len(r.Cleared); n > 0 {
		what = fmt.Sprintf("this clears %d job orders of %s, with results that an MES may not have taken, and deletes its retained topics", n, scope)
	}
	if !c.JSON {
		for _, topic := range r.Topics {
			printf(a.err, "%v\n", topic)
		}
	}
	if err := a.confirm(c.Yes, what); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := a.clearAll(ctx, scope, r.Cleared); err != nil {
		return err
	}
	switch err := store.RetireSoon(ctx, scope); {
	case errors.Is(err, jobstore.ErrScopeInUse):
		return inUse(scope)
	case err != nil && !errors.Is(err, jobstore.ErrNotFound): // it has just retired by itself
		return err
	}
	if err := untilRetired(ctx, store, scope); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, r)
	}
	_, err = printf(a.out, "%s retired: %d job orders cleared, %d retained topics deleted\n", scope, len(r.Cleared), len(r.Topics))
	return err
}

// toRetire lists what goes with a station.
func toRetire(ctx context.Context, store *jobstore.Store, topicPrefix string, scope isa95.Scope) (*retired, error) {
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return nil, &exitError{exitNoAnswer, err}
	}
	if !slices.Contains(scopes, scope) {
		return nil, &exitError{exitFailed, fmt.Errorf("no scope %s: it has retired, or never had a job order; takt job list", scope)}
	}
	orders, err := store.List(ctx, scope)
	if err != nil {
		return nil, err
	}
	r := &retired{Scope: string(scope), Cleared: []string{}}
	topic := func(level string) { r.Topics = append(r.Topics, topicPrefix+"/"+string(scope)+"/"+level) }
	for _, o := range orders {
		id := o.JobOrder.JobOrderID
		if !o.State.Clearable() {
			return nil, &exitError{exitRefused, fmt.Errorf("%s has job orders that are not over: %s is %s; end it first, with takt job abort or cancel", scope, id, o.State)}
		}
		r.Cleared = append(r.Cleared, id)
		topic("order/" + id)
		topic("result/" + id)
	}
	topic("state-index")
	return r, nil
}

// clearAll clears job orders as an MES would. One that another program clears meanwhile is none the worse.
func (a *app) clearAll(ctx context.Context, scope isa95.Scope, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	client, hangUp, err := a.dialMES(ctx, "takt-cli-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	for _, id := range ids {
		status, err := client.Call(ctx, mes.Call{Method: isa95.Clear, Scope: scope, JobOrderID: isa95.JobOrderID(id)})
		var refused *mes.RefusedError
		switch {
		case errors.As(err, &refused) && status&(isa95.UnknownJobOrder|isa95.InvalidStatus) == 0:
			return &exitError{exitRefused, fmt.Errorf("clear %s: %w", id, err)}
		case err != nil && refused == nil:
			return &exitError{exitNoAnswer, fmt.Errorf("clear %s: %w; is `takt serve` running, with this topic prefix?", id, err)}
		}
	}
	return nil
}

func inUse(scope isa95.Scope) error {
	return &exitError{exitRefused, fmt.Errorf("%s got a job order meanwhile: takt job list --scope %s", scope, scope)}
}

// untilRetired waits until the publisher has retired a scope.
func untilRetired(ctx context.Context, store *jobstore.Store, scope isa95.Scope) error {
	for {
		idle, err := store.IdleScopes(ctx)
		scopes, err2 := store.Scopes(ctx)
		_, waits := idle[scope]
		switch active := slices.Contains(scopes, scope); {
		case err != nil || err2 != nil: // Redis is away for a moment
		case !active:
			return nil
		case !waits:
			return inUse(scope)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return &exitError{exitNoAnswer, fmt.Errorf("%s has not retired yet; it does when a publisher runs: takt serve --roles publisher", scope)}
		}
	}
}
