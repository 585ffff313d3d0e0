package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

type mesCmd struct {
	Follow mesFollowCmd `cmd:"" help:"Print results as they come, across outages, and clear the orders."`
}

type mesFollowCmd struct {
	Scope  []string `short:"s" help:"Only these stations; all if not given."`
	Memory string   `type:"path" help:"What is remembered between runs, held by one process at a time; mes-memory.json in the data folder if not given." placeholder:"FILE"`
	Keep   bool     `help:"Do not send Clear: only look."`
	Count  int      `help:"End when so many results are printed and their orders cleared; the others wait for the next run. 0 = never." must:"be 0 (never) or more" default:"0"`
	JSON   bool     `name:"json" help:"One JSON object per result."`
}

// followed is one result, for programs.
type followed struct {
	Scope    isa95.Scope       `json:"scope"`
	Response isa95.JobResponse `json:"response"`
}

func (c *mesFollowCmd) Run(ctx context.Context, a *app) error {
	scopes := make([]isa95.Scope, len(c.Scope))
	for i, s := range c.Scope {
		var err error
		if scopes[i], err = scopeOf(s); err != nil {
			return err
		}
	}
	file := c.Memory
	if file == "" {
		if err := os.MkdirAll(a.Data, 0o700); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		file = a.dataFile("mes-memory.json")
	}
	memory, err := mes.OpenMemory(file)
	if err != nil {
		return fmt.Errorf("--memory: %w", err)
	}
	defer memory.Close()
	client, hangUp, err := a.dialMES(ctx, "takt-mes-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	a.log.Info("mes: following results", "scopes", scopes, "memory", file, "clear", !c.Keep) // no scopes: all
	_, err = client.Follow(ctx, scopes, mes.FollowOptions{
		Memory: memory, Clear: !c.Keep, Count: c.Count,
		OnResult: func(_ context.Context, scope isa95.Scope, r isa95.JobResponse) error { return c.print(a, scope, r) },
		OnGap: func(g mes.Gap) {
			if g.Before != 0 {
				a.log.Info("changes were missed", "scope", g.Scope, "seq_before", g.Before, "seq_after", g.After)
			}
		},
		OnTrouble: func(scope isa95.Scope, id isa95.JobOrderID, err error, again time.Duration) {
			a.log.Warn("not done yet", "scope", scope, "job_order", id, "err", err, "again_in", again)
		},
	})
	return err
}

func (c *mesFollowCmd) print(a *app, scope isa95.Scope, r isa95.JobResponse) error {
	if c.JSON {
		text, err := isa95.Marshal(followed{scope, r})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s\n", text)
		return err
	}
	state, err := isa95.ParseState(r.JobState)
	if err != nil {
		return err
	}
	if _, err := printf(a.out, "%s  %-12s %-16s %s\n", state, scope, r.JobOrderID, shownSpan(r.StartTime, r.EndTime)); err != nil {
		return err
	}
	for _, p := range r.JobResponseData {
		if _, err := printf(a.out, "    %s = %s\n", p.ID, p.Value); err != nil {
			return err
		}
	}
	return nil
}
