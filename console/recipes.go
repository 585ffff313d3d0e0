package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Recipes is a page of the list of work masters.
type Recipes struct {
	*Frame
	Names
	WorkMasters []ListedMaster `json:"work_masters"`
}

// ListedMaster is a work master with the recipes that stations run under it: the newest first, at most versionsListed.
type ListedMaster struct {
	ID       isa95.WorkMasterID     `json:"id"`
	Orders   int                    `json:"orders"` // that name it and are not over
	Versions []*jobstore.UsedRecipe `json:"versions"`
	More     int                    `json:"more,omitempty"` // versions that are left out
}

const versionsListed = 3

func (c *Console) recipeList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Recipes{Frame: c.newFrame("Recipes", "Recipes"), WorkMasters: []ListedMaster{}}
	o.polled(r)
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	ids, err := store.WorkMasterIDs(ctx)
	if err != nil {
		return nil, away(err)
	}
	orders := make(map[isa95.WorkMasterID]int)
	for _, one := range c.book.glance().orders {
		if id := isa95.WorkMasterID(one.WorkMaster); id != "" && !one.state.Clearable() {
			orders[id]++
			if begun(one) { // perhaps no station has it any more
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	if o.Names, ids, err = findNames(r, slices.Compact(ids)); err != nil {
		return nil, err
	}
	delivered, err := store.Delivered(ctx, "", ids...)
	if delivered == nil {
		return nil, away(err)
	}
	o.note(err)
	of, shows := make(map[isa95.WorkMasterID]int), []*jobstore.UsedRecipe{}
	for _, u := range jobstore.UsedRecipes(delivered, nil) {
		if of[u.WorkMaster]++; of[u.WorkMaster] <= versionsListed {
			shows = append(shows, u)
		}
	}
	o.note(c.recipes.Learn(ctx, store, shows))
	for _, id := range ids {
		versions := slices.DeleteFunc(slices.Clone(shows), func(u *jobstore.UsedRecipe) bool { return u.WorkMaster != id })
		o.WorkMasters = append(o.WorkMasters, ListedMaster{id, orders[id], versions, max(0, of[id]-versionsListed)})
	}
	return o, nil
}

// begun tells whether an order has a run.
func begun(o Order) bool { return o.state.Top == isa95.Running || o.state.Top == isa95.Interrupted }

// OneRecipe is a work master with its recipes: those that stations run, and those that orders which are not over began with.
type OneRecipe struct {
	*Frame
	ID          isa95.WorkMasterID     `json:"id"`
	Versions    []*jobstore.UsedRecipe `json:"versions"`       // the newest first, those beyond versionsShown without what is in them
	Chosen      string                 `json:"chosen"`         // SHA-256 of the version that the rest is of
	With        string                 `json:"with,omitempty"` // of the one that it is compared with
	Findings    []recipe.Finding       `json:"findings"`
	Differences []recipe.Difference    `json:"differences"` // from With to Chosen
	Recipe      json.RawMessage        `json:"recipe,omitempty"`

	Shown   *jobstore.UsedRecipe `json:"-"`
	Chart   template.HTML        `json:"-"`
	NoChart string               `json:"-"` // why there is none
}

// Bounds of what the page of a recipe reads and draws.
const (
	versionsShown = 20
	runsLooked    = 500 // orders in execution
	chartParts    = 300 // steps, transitions and actions
)

func (c *Console) oneRecipe(ctx context.Context, r *http.Request) (shown, error) {
	id, err := isa95.ParseWorkMasterID(r.PathValue("workmaster"))
	if err != nil {
		return nil, &problem{http.StatusNotFound, "No such work master", err.Error()}
	}
	o := &OneRecipe{Frame: c.newFrame(string(id), "Recipes"), ID: id, Findings: []recipe.Finding{}, Differences: []recipe.Difference{}}
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	delivered, err := store.Delivered(ctx, "", id)
	if delivered == nil {
		return nil, away(err)
	}
	o.note(err)
	o.Versions = jobstore.UsedRecipes(delivered, c.ordersOf(ctx, store, o))
	o.note(c.recipes.Learn(ctx, store, o.Versions[:min(len(o.Versions), versionsShown)]))
	if len(o.Versions) == 0 {
		return nil, &problem{http.StatusNotFound, "No such work master", "No station has a work master " + string(id) + ", and no order in execution began with it. The list of recipes has those that are there."}
	}
	find := func(name string, otherwise int) (int, error) {
		sha := r.FormValue(name)
		if sha == "" {
			return otherwise, nil
		}
		i := slices.IndexFunc(o.Versions, func(v *jobstore.UsedRecipe) bool { return strings.HasPrefix(v.SHA256, sha) })
		if i < 0 {
			return 0, &problem{http.StatusNotFound, "No such version", fmt.Sprintf("%s is %.64q: no station and no order runs a recipe with this SHA-256 under %s any more.", name, sha, id)}
		}
		return i, nil
	}
	chosen, err := find("sha", 0)
	if err != nil {
		return nil, err
	}
	with := chosen + 1 // the one before it
	if with == len(o.Versions) {
		with = max(0, chosen-1)
	}
	if with, err = find("with", with); err != nil {
		return nil, err
	}
	o.Shown = o.Versions[chosen]
	o.note(c.describe(ctx, store, o, o.Versions[with]))
	return o, nil
}

// ordersOf are the orders of a work master that are not over, with the recipes that they began with.
func (c *Console) ordersOf(ctx context.Context, store *jobstore.Store, o *OneRecipe) (orders []jobstore.RecipeOrder) {
	for _, one := range c.book.glance().orders {
		if one.WorkMaster == string(o.ID) && !one.state.Clearable() {
			orders = append(orders, jobstore.RecipeOrder{Scope: one.Scope, ID: one.ID, State: one.State, WorkMaster: o.ID})
		}
	}
	orders, passed, err := store.Begun(ctx, orders, runsLooked)
	o.note(err)
	if passed > 0 {
		o.note(fmt.Errorf("orders are those not begun and the first %d in execution; %d more in execution were not looked at", runsLooked, passed))
	}
	return orders
}

// describe checks and draws the recipe that is shown, and compares it with another one.
func (c *Console) describe(ctx context.Context, store *jobstore.Store, o *OneRecipe, with *jobstore.UsedRecipe) error {
	u := o.Shown
	err := store.ReadRecipes(ctx, u, with)
	o.Chosen = u.SHA256
	if json.Valid(u.Text) { // else another program wrote it
		o.Recipe = u.Text
	}
	after, _ := recipe.Decode(u.Text)
	if before, _ := recipe.Decode(with.Text); before != nil && after != nil && with != u {
		o.With = with.SHA256
		o.Differences = append(o.Differences, recipe.Compare(before, after)...)
	}
	if u.Text == nil {
		o.NoChart = "The work master has no recipe of Takt: a program of the station runs it."
		if !u.Read {
			o.NoChart = "The recipe cannot be read."
		}
		return err
	}
	o.Findings = append(o.Findings, recipe.Check(u.Text, recipe.Options{AllowUnknown: true})...)
	switch _, wrong := recipe.Compile(u.Text); {
	case wrong != nil:
		o.NoChart = "The recipe cannot run, so it is not drawn. Its findings say why."
	case u.Steps+u.Transitions+u.Actions > chartParts:
		o.NoChart = "The chart is too large for a page. On your machine: takt recipe show " + string(o.ID) + " -o recipe.json, then takt recipe draw recipe.json -o chart.svg"
	default:
		o.Chart = template.HTML(chart.New(after).Fragment(chart.Options{Title: "Recipe of " + string(o.ID)})) // package chart escapes all texts
	}
	return err
}

func recipePath(id string) string { return "/recipes/" + url.PathEscape(id) }
