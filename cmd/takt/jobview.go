package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// What looks at job orders reads Redis; what changes them goes over MQTT (jobsend.go).

type jobListCmd struct {
	Scope string `help:"Only this scope." short:"s" scope:""`
	State string `help:"Only orders in this state, or in one of its substates: Running, AllowedToStart, Ended_Completed and so on." placeholder:"STATE"`
	Limit int    `help:"At most so many; 0 = all." must:"be 0 (all) or more" default:"0"`
	JSON  bool   `name:"json" help:"One JSON object per job order."`
}

// shows says whether the list is to have orders in a state.
func (c *jobListCmd) shows(state string) bool {
	return c.State == "" || state == c.State || strings.HasPrefix(state, c.State+"_")
}

func (c *jobListCmd) check(*app) error {
	known := isa95.States()
	if c.State == "" || slices.ContainsFunc(known, func(s isa95.State) bool { return c.shows(s.String()) }) {
		return nil
	}
	names := make([]string, len(known))
	for i, s := range known {
		names[i] = s.String()
	}
	return fmt.Errorf("--state is %q: must be of %s, or the first part of one", c.State, strings.Join(names, ", "))
}

// scopeOf is the station of --scope.
func scopeOf(text string) (isa95.Scope, error) {
	scope, err := isa95.ParseScope(text)
	if err != nil {
		return "", &exitError{exitUsage, fmt.Errorf("--scope: %w", err)}
	}
	return scope, nil
}

// jobLine is one job order of a list.
type jobLine struct {
	Scope     string `json:"scope"`
	ID        string `json:"id"`
	State     string `json:"state"`
	Priority  int    `json:"priority"`
	Recipe    string `json:"work_master,omitempty"`
	StartTime string `json:"start_time,omitempty"`

	Reason   jobstore.WhyKind `json:"reason"` // the first of takt job why
	WaitsFor string           `json:"waits_for"`
}

func (c *jobListCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return &exitError{exitNoAnswer, err}
	}
	if c.Scope != "" {
		scopes = []isa95.Scope{isa95.Scope(c.Scope)}
	}
	l := a.list(c.JSON, "SCOPE", "JOB ORDER", "STATE", "PRIORITY", "WORK MASTER", "START", "WAITS FOR")
	listed := 0
	for _, scope := range scopes {
		orders, err := store.ListWhy(ctx, scope, a.TopicPrefix)
		if err != nil {
			return err
		}
		for _, o := range orders {
			if !c.shows(o.State.String()) {
				continue
			}
			if listed++; c.Limit > 0 && listed > c.Limit {
				break
			}
			first := o.Why.Reasons[0]
			line := jobLine{string(scope), o.JobOrder.JobOrderID, o.State.String(), o.JobOrder.PriorityOr0(), string(o.WorkMaster()), o.JobOrder.StartTime, first.Kind, first.Short}
			l.add(line, line.Scope, line.ID, line.State, line.Priority, line.Recipe, shownTime(line.StartTime), line.WaitsFor)
		}
	}
	return l.flush()
}

type jobShowCmd struct {
	ID   string `arg:"" help:"Job order id."`
	JSON bool   `name:"json" help:"One JSON object with order, state, execution and response."`
}

func (c *jobShowCmd) Run(ctx context.Context, a *app) error {
	id, err := isa95.ParseJobOrderID(c.ID)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		snap, err := store.Load(ctx, jobstore.Query{JobOrderID: id, Response: true})
		if err != nil {
			return err
		}
		if snap.Job == nil {
			return noJobOrder(id)
		}
		used, err := recipeOf(ctx, store, snap)
		if err != nil {
			return err
		}
		if c.JSON {
			return c.printJSON(a, snap, used)
		}
		return c.print(a, snap, used)
	})
}

func noJobOrder(id isa95.JobOrderID) error {
	return &exitError{exitFailed, fmt.Errorf("no job order %q is stored; see takt job list", id)}
}

// usedRecipe is the recipe that an order runs or ran; before its start, the one that its station would run now.
type usedRecipe struct {
	WorkMaster isa95.WorkMasterID `json:"work_master"`
	Version    string             `json:"version,omitempty"`
	SHA256     string             `json:"sha256,omitempty"`
	Foreign    bool               `json:"foreign,omitempty"` // no recipe of Takt: the station's own program runs it
}

func (r *usedRecipe) String() string {
	text := string(r.WorkMaster)
	if r.Version != "" {
		text += ", version " + r.Version
	}
	if r.SHA256 != "" {
		text += fmt.Sprintf(", SHA-256 %.12s", r.SHA256)
	}
	return text
}

// recipe is the recipe for a cell of a table.
func (r *usedRecipe) recipe() string {
	if r.Foreign {
		return "runs at the station"
	}
	return fmt.Sprintf("%.12s", r.SHA256)
}

// recipeIn is the recipe of a work master.
func recipeIn(w *isa95.WorkMaster) *usedRecipe {
	used := &usedRecipe{WorkMaster: isa95.WorkMasterID(w.ID)}
	if len(w.Data) == 0 {
		return used
	}
	used.SHA256, used.Foreign = jobstore.Hash(w.Data), w.DataSchema != recipe.SchemaURI
	if r, _ := recipe.Decode(w.Data); r != nil && !used.Foreign {
		used.Version = r.Version
	}
	return used
}

// recipeOf finds the recipe of an order, nil if it has none.
func recipeOf(ctx context.Context, store *jobstore.Store, snap *jobstore.Snapshot) (*usedRecipe, error) {
	var text []byte
	used := &usedRecipe{WorkMaster: snap.Job.WorkMaster()}
	switch x := snap.Execution; {
	case x != nil:
		found, err := store.Load(ctx, jobstore.Query{Recipe: x.Recipe})
		if err != nil {
			return nil, err
		}
		text, used.WorkMaster, used.SHA256 = found.RecipeText, isa95.WorkMasterID(x.WorkMasterID), x.Recipe
	case used.WorkMaster == "":
		return nil, nil
	default:
		found, err := store.Load(ctx, jobstore.Query{Scope: snap.Job.Scope, WorkMaster: used.WorkMaster})
		if err != nil {
			return nil, err
		}
		if found.WorkMaster != nil {
			return recipeIn(found.WorkMaster), nil
		}
	}
	if r, _ := recipe.Decode(text); r != nil {
		used.Version = r.Version
	}
	return used, nil
}

func (c *jobShowCmd) printJSON(a *app, snap *jobstore.Snapshot, used *usedRecipe) error {
	all := struct {
		Scope     isa95.Scope        `json:"scope"`
		State     string             `json:"state"`
		JobOrder  *isa95.JobOrder    `json:"job_order"`
		Recipe    *usedRecipe        `json:"recipe,omitempty"`
		Execution json.RawMessage    `json:"execution,omitempty"`
		Response  *isa95.JobResponse `json:"response,omitempty"`
	}{Scope: snap.Job.Scope, State: snap.Job.State.String(), JobOrder: snap.Job.JobOrder, Recipe: used, Response: snap.Response}
	if snap.Execution != nil {
		all.Execution = snap.Execution.Encode()
	}
	return printJSON(a.out, all)
}

func (c *jobShowCmd) print(a *app, snap *jobstore.Snapshot, used *usedRecipe) error {
	o := snap.Job.JobOrder
	printf(a.out, "%s  %s  at %s, priority %d\n", o.JobOrderID, snap.Job.State, snap.Job.Scope, o.PriorityOr0())
	if snap.Job.State.IsEnd() {
		fmt.Fprintln(a.out, "  cleared or canceled: only its documents are left, for --end-state-retention of takt serve; the id can be used again")
	}
	for _, p := range o.JobOrderParameters {
		printf(a.out, "  parameter %s = %s\n", p.ID, p.Value)
	}
	switch s := snap.Job.Station; {
	case s.Refused != "":
		printf(a.out, "\nits station refuses it: %s\n", s.Refused)
	case s.Started != "":
		printf(a.out, "\nits station runs it since %s\n", s.Started)
	case s.Start != "":
		fmt.Fprintln(a.out, "\nits station was asked to start it, and has not said Run")
	}
	if x := snap.Execution; x != nil {
		printf(a.out, "\nrecipe of %s, at %s %v", used, x.CurrentStep, x.ActiveSteps)
		if x.Paused {
			fmt.Fprint(a.out, ", paused")
		}
		if x.Error != "" {
			printf(a.out, ", failed: %s", x.Error)
		}
		fmt.Fprintln(a.out)
		t := newTable(a.out, "  ACTION", "STATE", "ITERATION", "ATTEMPT", "RESULT")
		for _, e := range x.Actions {
			result := string(e.Result)
			if e.Error != "" {
				result = e.Error
			}
			t.row("  "+e.Name, e.State, e.Iteration, e.Attempt, result)
		}
		if err := t.flush(); err != nil {
			return err
		}
		for _, e := range x.Actions {
			if e.Parameters != nil {
				printf(a.out, "  %s is under way with %s\n", e.Name, e.Parameters)
			}
		}
		for _, e := range x.Cancels {
			printf(a.out, "  %s of attempt %d of %s: %s, %s%s\n", e.TypeID, e.Attempt, e.Action, e.State, e.Result, e.Error)
		}
	} else if used != nil && used.Foreign {
		printf(a.out, "\nits station runs it: work master %s has no recipe of Takt, by its dataschema\n", used)
	} else if used != nil {
		printf(a.out, "\nwould run the recipe of %s\n", used)
	}
	if r := snap.Response; r != nil {
		printf(a.out, "\nresponse %s, %s\n", r.JobResponseID, shownSpan(r.StartTime, r.EndTime))
		for _, p := range r.JobResponseData {
			printf(a.out, "  %s = %s\n", p.ID, p.Value)
		}
	}
	return nil
}

type jobWatchCmd struct {
	Scope string `help:"Only this scope." short:"s" scope:""`
	JSON  bool   `name:"json" help:"One JSON object per change."`
	Count int    `help:"End after so many changes; 0 = never." default:"0"`
}

func (c *jobWatchCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	scope := isa95.Scope(c.Scope)
	after, err := store.LastChange(ctx, scope)
	if err != nil {
		return &exitError{exitNoAnswer, err}
	}
	for seen := 0; ; {
		changes, err := store.Watch(ctx, scope, after, time.Second)
		switch {
		case ctx.Err() != nil:
			return nil
		case jobstore.Away(err):
			a.log.Warn("Redis does not answer", "err", err)
			lifecycle.Sleep(ctx, time.Second)
			continue
		case err != nil:
			return err
		}
		for _, change := range changes {
			after = change.ID
			if err := c.print(a, change); err != nil {
				return err
			}
			if seen++; seen == c.Count {
				return nil
			}
		}
	}
}

func (c *jobWatchCmd) print(a *app, change jobstore.ChangeEntry) error {
	v := map[string]string{"id": change.ID, "change_type": change.Type, "job_order_id": string(change.JobOrderID), "scope": string(change.Scope), "ts": change.Time}
	return a.say(c.JSON, v, "%s  %-14s %-16s %s\n", shownTime(change.Time), change.Type, change.Scope, change.JobOrderID)
}
