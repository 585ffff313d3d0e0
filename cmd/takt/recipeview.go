package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// storedRecipe is one recipe under the id of a work master, for programs.
type storedRecipe struct {
	WorkMaster isa95.WorkMasterID `json:"work_master"`
	Version    string             `json:"version,omitempty"`
	SHA256     string             `json:"sha256"`
	Scopes     []isa95.Scope      `json:"scopes"` // that run it now; none: only orders that began with it
	Orders     []recipeOrder      `json:"orders"` // not ended
	Recipe     json.RawMessage    `json:"recipe,omitempty"`
}

// recipeOrder is a job order that runs a recipe, or would if it began now.
type recipeOrder struct {
	Scope isa95.Scope `json:"scope"`
	ID    string      `json:"id"`
	State string      `json:"state"`
}

// storedRecipes are the recipes under ids, of all work masters if there are none, by id. With an error they are those that could be read.
func storedRecipes(ctx context.Context, store *jobstore.Store, ids ...isa95.WorkMasterID) ([]*storedRecipe, error) {
	held, unreadable := store.WorkMasters(ctx, ids...)
	if unreadable != nil && held == nil {
		return nil, unreadable
	}
	type key struct {
		id  isa95.WorkMasterID
		sha string
	}
	all, runs := make(map[key]*storedRecipe), make(map[isa95.Scope]map[isa95.WorkMasterID]*storedRecipe)
	add := func(id isa95.WorkMasterID, sha string, text []byte) *storedRecipe {
		r := all[key{id, sha}]
		if r == nil {
			r = &storedRecipe{WorkMaster: id, SHA256: sha, Scopes: []isa95.Scope{}, Orders: []recipeOrder{}, Recipe: text}
			if decoded, _ := recipe.Decode(text); decoded != nil {
				r.Version = decoded.Version
			}
			all[key{id, sha}] = r
		}
		return r
	}
	for _, h := range held {
		if h.DataSchema != recipe.SchemaURI {
			continue
		}
		r := add(isa95.WorkMasterID(h.ID), h.SHA256, h.Data)
		for _, scope := range h.Scopes {
			if runs[scope] == nil {
				runs[scope] = make(map[isa95.WorkMasterID]*storedRecipe)
			}
			runs[scope][r.WorkMaster] = r
			r.Scopes = append(r.Scopes, scope)
		}
	}
	err := eachOrder(ctx, store, func(o jobstore.StoredOrder, x *recipe.Execution) error {
		r := runs[o.Scope][o.WorkMaster()]
		if x != nil { // it goes on as it began
			id := isa95.WorkMasterID(x.WorkMasterID)
			if len(ids) > 0 && !slices.Contains(ids, id) {
				return nil
			}
			if r = all[key{id, x.Recipe}]; r == nil {
				found, err := store.Load(ctx, jobstore.Query{Recipe: x.Recipe})
				if err != nil {
					return err
				}
				r = add(id, x.Recipe, found.RecipeText)
			}
		}
		if r != nil {
			r.Orders = append(r.Orders, recipeOrder{o.Scope, o.JobOrder.JobOrderID, o.State.String()})
		}
		return nil
	})
	byID := func(a, b *storedRecipe) int {
		return cmp.Or(cmp.Compare(a.WorkMaster, b.WorkMaster), slices.Compare(a.Scopes, b.Scopes), cmp.Compare(a.SHA256, b.SHA256))
	}
	return slices.SortedFunc(maps.Values(all), byID), errors.Join(unreadable, err)
}

// eachOrder calls do for the job orders that are not ended, each with its execution if a recipe runs it.
func eachOrder(ctx context.Context, store *jobstore.Store, do func(jobstore.StoredOrder, *recipe.Execution) error) error {
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(scopes, 100) {
		orders, err := store.List(ctx, some...)
		if err != nil {
			return err
		}
		orders = slices.DeleteFunc(orders, func(o jobstore.StoredOrder) bool { return o.State.Clearable() })
		var begun []isa95.JobOrderID
		for _, o := range orders {
			if o.State.Top == isa95.Running || o.State.Top == isa95.Interrupted {
				begun = append(begun, isa95.JobOrderID(o.JobOrder.JobOrderID))
			}
		}
		executions, err := store.Executions(ctx, begun)
		if err != nil {
			return err
		}
		for _, o := range orders {
			if err := do(o, executions[isa95.JobOrderID(o.JobOrder.JobOrderID)]); err != nil {
				return err
			}
		}
	}
	return nil
}

type recipeListCmd struct {
	JSON bool `name:"json" help:"One JSON object per recipe."`
}

func (c *recipeListCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	recipes, unreadable := storedRecipes(ctx, store)
	if len(recipes) == 0 && unreadable != nil {
		return unreadable
	}
	l := a.list(c.JSON, "WORK MASTER", "VERSION", "SHA-256", "STATIONS", "JOB ORDERS")
	for _, r := range recipes {
		r.Recipe = nil
		l.add(r, r.WorkMaster, r.Version, fmt.Sprintf("%.12s", r.SHA256), cmp.Or(few(r.Scopes), "-"), len(r.Orders))
	}
	return errors.Join(l.flush(), unreadable)
}

type recipeShowCmd struct {
	WorkMaster string `arg:"" help:"Id of a work master."`
	Scope      string `help:"The recipe that this station runs." short:"s" scope:""`
	Out        string `short:"o" help:"Write the recipe as it was delivered, without blanks between its members, to this file; - is standard output." placeholder:"FILE"`
	JSON       bool   `name:"json" help:"One JSON object per recipe, with its text."`
}

func (c *recipeShowCmd) check(*app) error {
	if c.Out == "-" && c.JSON {
		return errors.New("--json and -o -: both write to standard output, choose one")
	}
	return nil
}

func (c *recipeShowCmd) Run(ctx context.Context, a *app) error {
	id, err := isa95.ParseWorkMasterID(c.WorkMaster)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		recipes, unreadable := storedRecipes(ctx, store, id)
		if c.Scope != "" {
			recipes = slices.DeleteFunc(recipes, func(r *storedRecipe) bool { return !slices.Contains(r.Scopes, isa95.Scope(c.Scope)) })
		}
		switch {
		case len(recipes) == 0 && unreadable != nil:
			return unreadable
		case len(recipes) == 0 && c.Scope != "":
			return &exitError{exitFailed, fmt.Errorf("station %s runs no recipe of Takt under work master %q; see takt station show %s", c.Scope, id, c.Scope)}
		case len(recipes) == 0:
			return &exitError{exitFailed, fmt.Errorf("no station runs a recipe of Takt under work master %q; see takt recipe list", id)}
		case len(recipes) > 1 && c.Out != "":
			return &exitError{exitFailed, fmt.Errorf("%d recipes are in use under work master %q: choose one by --scope; see takt recipe show %[2]s", len(recipes), id)}
		case c.Out == "-":
			_, err := a.out.Write(recipes[0].Recipe)
			return errors.Join(err, unreadable)
		case c.Out != "":
			if err := os.WriteFile(c.Out, recipes[0].Recipe, 0o644); err != nil {
				return err
			}
			if !c.JSON {
				printf(a.out, "written to %s\n\n", c.Out)
			}
		}
		for _, r := range recipes {
			if err := c.print(a, r); err != nil {
				return err
			}
		}
		return unreadable
	})
}

func (c *recipeShowCmd) print(a *app, r *storedRecipe) error {
	if c.JSON {
		return printJSON(a.out, r)
	}
	printf(a.out, "%s\n", &usedRecipe{WorkMaster: r.WorkMaster, Version: r.Version, SHA256: r.SHA256})
	if decoded, _ := recipe.Decode(r.Recipe); decoded != nil {
		printf(a.out, "  steps: %d, transitions: %d, actions: %d\n", len(decoded.Steps), len(decoded.Transitions), len(decoded.Actions))
	}
	printf(a.out, "  stations that run it: %s\n", cmp.Or(few(r.Scopes), "none; its job orders began with it"))
	if len(r.Orders) == 0 {
		_, err := printf(a.out, "  no job order that is not ended uses it\n")
		return err
	}
	t := newTable(a.out, "  JOB ORDER", "SCOPE", "STATE")
	for _, o := range r.Orders {
		t.row("  "+o.ID, o.Scope, o.State)
	}
	return t.flush()
}
