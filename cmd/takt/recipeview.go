package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// storedRecipe is one recipe under the id of a work master, for programs. Its orders are those that are not ended.
type storedRecipe struct {
	*jobstore.UsedRecipe
	Recipe json.RawMessage `json:"recipe,omitempty"`
}

// storedRecipes are the recipes of Takt under ids, of all work masters if there are none, by id. With an error they are those that could be read.
func storedRecipes(ctx context.Context, store *jobstore.Store, ids ...isa95.WorkMasterID) ([]*storedRecipe, error) {
	orders, unread := recipeOrders(ctx, store)
	if len(ids) == 0 {
		var err error
		if ids, err = store.WorkMasterIDs(ctx); err != nil {
			return nil, err
		}
	} else {
		orders = slices.DeleteFunc(orders, func(o jobstore.RecipeOrder) bool { return !slices.Contains(ids, o.WorkMaster) })
	}
	delivered, unreadable := store.Delivered(ctx, "", ids...)
	if unreadable = errors.Join(unread, unreadable); delivered == nil && unreadable != nil {
		return nil, unreadable
	}
	used := jobstore.UsedRecipes(delivered, orders)
	unreadable = errors.Join(unreadable, store.ReadRecipes(ctx, used...))
	var all []*storedRecipe
	for _, u := range used {
		if u.Text != nil || u.Content == "" {
			all = append(all, &storedRecipe{u, u.Text})
		}
	}
	return all, unreadable
}

// recipeOrders are the job orders that are not ended.
func recipeOrders(ctx context.Context, store *jobstore.Store) (all []jobstore.RecipeOrder, err error) {
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(scopes, 100) {
		orders, err := store.List(ctx, some...)
		if err != nil {
			return nil, err
		}
		orders = slices.DeleteFunc(orders, func(o jobstore.StoredOrder) bool { return o.State.Clearable() })
		var page []jobstore.RecipeOrder
		for _, o := range orders {
			page = append(page, jobstore.RecipeOrder{Scope: o.Scope, ID: o.JobOrder.JobOrderID, State: o.State.String(), WorkMaster: o.WorkMaster()})
		}
		page, _, err = store.Begun(ctx, page, len(page))
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
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
	if r.Steps > 0 {
		printf(a.out, "  steps: %d, transitions: %d, actions: %d\n", r.Steps, r.Transitions, r.Actions)
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
