package jobstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// WorkMaster is the first work master that the order names, "" if it names none: the one whose recipe it runs.
func (o *StoredOrder) WorkMaster() isa95.WorkMasterID { return WorkMasterOf(o.JobOrder) }

// WorkMasterOf is StoredOrder.WorkMaster of an order that is not stored yet.
func WorkMasterOf(o *isa95.JobOrder) isa95.WorkMasterID {
	for _, ref := range o.WorkMasterID {
		if ref.ID != "" {
			return isa95.WorkMasterID(ref.ID)
		}
	}
	return ""
}

// RecipeOrder is what the conditions and the Parameters of a recipe may see of the order: parameters that it has itself,
// by their id.
func (o *StoredOrder) RecipeOrder() recipe.Order {
	parameters := make(map[string]any, len(o.JobOrder.JobOrderParameters))
	for _, p := range o.JobOrder.JobOrderParameters {
		if p.ID != "" {
			parameters[p.ID] = p.Value
		}
	}
	return recipe.Order{
		ID: o.JobOrder.JobOrderID, Scope: string(o.Scope),
		Parameters: parameters, WorkMasterID: string(o.WorkMaster()),
	}
}

// UsedRecipe is one recipe under the id of a work master, with what uses it.
type UsedRecipe struct {
	WorkMaster isa95.WorkMasterID `json:"work_master"`
	SHA256     string             `json:"sha256"` // of its text, "" = none
	Content    string             `json:"-"`      // SHA-256 of the work master; "": only orders that began with it have the recipe
	Seq        int64              `json:"-"`      // as of DeliveredWorkMaster
	Scopes     []isa95.Scope      `json:"scopes"` // that run it now, sorted
	Orders     []RecipeOrder      `json:"orders"`

	RecipeFacts        // after ReadRecipes
	Text        []byte `json:"-"` // the same; nil: the work master has no recipe of Takt
}

// RecipeFacts are what lists say of a recipe.
type RecipeFacts struct {
	Read        bool   `json:"-"` // whatever is stored could be read
	Version     string `json:"version,omitempty"`
	Foreign     bool   `json:"foreign,omitempty"` // no recipe of Takt: a program of the station runs it
	Steps       int    `json:"steps"`
	Transitions int    `json:"transitions"`
	Actions     int    `json:"actions"`
	Errors      int    `json:"errors"` // findings of recipe.Check, which passes over unknown members: what was taken was judged then
	Warnings    int    `json:"warnings"`
}

// Begun fills in what orders in execution began with, of at most most of them; the others are left out of the orders that it returns, and counted in passed. Documents that cannot be read are
// joined to the error.
func (s *Store) Begun(ctx context.Context, orders []RecipeOrder, most int) (all []RecipeOrder, passed int, err error) {
	var runs []isa95.JobOrderID
	for _, o := range orders {
		if top, _, _ := strings.Cut(o.State, "_"); top == isa95.Running || top == isa95.Interrupted {
			if len(runs) == most {
				passed++
				continue
			}
			runs = append(runs, isa95.JobOrderID(o.ID))
		}
		all = append(all, o)
	}
	executions, err := s.Executions(ctx, runs)
	for i := range all {
		if x := executions[isa95.JobOrderID(all[i].ID)]; x != nil {
			all[i].Begun, all[i].WorkMaster = x.Recipe, isa95.WorkMasterID(x.WorkMasterID)
		}
	}
	return all, passed, err
}

func (f *RecipeFacts) learn(text []byte, foreign bool) {
	*f = RecipeFacts{Read: true, Foreign: foreign} // it may have been read before
	if len(text) == 0 {
		return
	}
	if r, _ := recipe.Decode(text); r != nil {
		f.Version, f.Steps, f.Transitions, f.Actions = r.Version, len(r.Steps), len(r.Transitions), len(r.Actions)
	}
	for _, found := range recipe.Check(text, recipe.Options{AllowUnknown: true}) {
		if found.Severity == recipe.SeverityError {
			f.Errors++
		} else {
			f.Warnings++
		}
	}
}

// RecipeOrder is a job order that runs a recipe, or would if it began now.
type RecipeOrder struct {
	Scope      isa95.Scope        `json:"scope"`
	ID         string             `json:"id"`
	State      string             `json:"state"`
	WorkMaster isa95.WorkMasterID `json:"-"`
	Begun      string             `json:"-"` // SHA-256 of the recipe that it began with, "" = it has not begun
}

// UsedRecipes joins what scopes run and what orders run: by work master, and of one the newest first. Orders of other work masters than those delivered are in it if they have begun.
func UsedRecipes(delivered []DeliveredWorkMaster, orders []RecipeOrder) []*UsedRecipe {
	type key struct{ of, name string } // a work master, and a scope or a hash
	all, runs := make(map[key]*UsedRecipe), make(map[key]*UsedRecipe)
	add := func(id isa95.WorkMasterID, sha, content string) *UsedRecipe {
		r := all[key{string(id), sha}]
		if r == nil {
			r = &UsedRecipe{WorkMaster: id, SHA256: sha, Content: content, Scopes: []isa95.Scope{}, Orders: []RecipeOrder{}}
			all[key{string(id), sha}] = r
		}
		return r
	}
	for _, d := range delivered {
		r := add(d.ID, d.SHA256, d.Content)
		r.Seq = max(r.Seq, d.Seq)
		for _, scope := range d.Scopes {
			runs[key{string(d.ID), string(scope)}] = r
			r.Scopes = append(r.Scopes, scope)
		}
	}
	for _, o := range orders {
		r := runs[key{string(o.WorkMaster), string(o.Scope)}]
		if o.Begun != "" { // it goes on as it began
			r = add(o.WorkMaster, o.Begun, "")
		}
		if r != nil {
			r.Orders = append(r.Orders, o)
		}
	}
	for _, r := range all {
		slices.Sort(r.Scopes)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *UsedRecipe) int {
		return cmp.Or(cmp.Compare(a.WorkMaster, b.WorkMaster), cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.SHA256, b.SHA256))
	})
}

// ReadRecipes reads the texts of recipes. One that cannot be read is not Read and joined to the error.
func (s *Store) ReadRecipes(ctx context.Context, used ...*UsedRecipe) (unreadable error) {
	for some := range slices.Chunk(used, perTrip) {
		var l loader
		for _, u := range some {
			key := s.keys.SfcRecipe(u.SHA256)
			if u.Content != "" {
				key = s.keys.WorkMasterContent(u.Content)
			}
			l.get(key, func(doc []byte) error {
				foreign := false
				if u.Content != "" {
					w, err := s.opt.Schemas.decodeWorkMaster(key, doc)
					if err != nil {
						unreadable = errors.Join(unreadable, err)
						return nil
					}
					if doc, foreign = w.Data, len(w.Data) > 0 && w.DataSchema != recipe.SchemaURI; foreign {
						doc = nil
					}
				}
				u.Text = doc
				u.learn(doc, foreign)
				return nil
			})
		}
		if err := l.run(ctx, s.rdb); err != nil {
			return err
		}
		for i, u := range some {
			if l.strings[i].value == nil && u.Content != "" && len(u.Scopes) > 0 {
				unreadable = errors.Join(unreadable, missingContent(l.strings[i].key, u.Scopes[0], u.WorkMaster))
			}
		}
	}
	return unreadable
}
