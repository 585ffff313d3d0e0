package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

var stationPages = []page{
	{"/stations", "stations", 0, (*Console).stationList, &Stations{}, "id page"},
	{"/stations/{scope}", "station", 0, (*Console).oneStation, &OneStation{}, ""},
	{"/recipes", "recipes", 0, (*Console).recipeList, &Recipes{}, "id page"},
	{"/recipes/{workmaster}", "recipe", 0, (*Console).oneRecipe, &OneRecipe{}, "sha with"},
}

// Names is a page of a list that is found by a part of a name.
type Names struct {
	pager
	Find string `json:"id,omitempty"`
}

func findNames[T ~string](r *http.Request, all []T) (n Names, some []T, err error) {
	n.Find = r.FormValue("id")
	if n.pager, err = pagerOf(r, "id"); err != nil {
		return n, nil, err
	}
	all = slices.DeleteFunc(all, func(name T) bool { return !strings.Contains(string(name), n.Find) })
	return n, pageOf(&n.pager, all), nil
}

// Stations is a page of the list of stations.
type Stations struct {
	*Frame
	Names
	Stations []Station `json:"stations"`
}

// Station is one in a list.
type Station struct {
	jobstore.StationInfo
	Counts []StateCount `json:"counts"` // of top states that orders are in
}

// stationsOf has the stations of scopes, with what they have beside it.
func (c *Console) stationsOf(ctx context.Context, store *jobstore.Store, active map[isa95.Scope]bool, scopes []isa95.Scope, kinds ...isa95.ConfigKind) ([]Station, map[isa95.Scope]*jobstore.Contents, error) {
	contents, err := store.Contents(ctx, scopes, kinds...)
	if err != nil {
		return nil, nil, away(err)
	}
	orders, all := make(map[isa95.Scope][]Order), []Station{}
	for _, o := range c.book.glance().orders {
		if contents[o.Scope] != nil {
			orders[o.Scope] = append(orders[o.Scope], o)
		}
	}
	for _, scope := range scopes {
		s := Station{StationInfo: contents[scope].Station(scope, active[scope])}
		s.Counts = slices.DeleteFunc(counts(orders[scope]), func(n StateCount) bool { return n.Orders == 0 })
		all = append(all, s)
	}
	return all, contents, nil
}

func (c *Console) stationList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Stations{Frame: c.newFrame("Stations", "Stations")}
	o.polled(r)
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	active, err := store.Stations(ctx)
	if err != nil {
		return nil, away(err)
	}
	var scopes []isa95.Scope
	if o.Names, scopes, err = findNames(r, slices.Sorted(maps.Keys(active))); err != nil {
		return nil, err
	}
	o.Stations, _, err = c.stationsOf(ctx, store, active, scopes, isa95.ConfigWorkMaster)
	return o, err
}

// OneStation is all that is known of one station.
type OneStation struct {
	*Frame
	Names // of the work masters
	Station
	Resources []Resources            `json:"resources"` // by kind
	Recipes   []*jobstore.UsedRecipe `json:"recipes"`   // that it runs, under a page of its work masters
}

// Resources are those of one kind that a station has.
type Resources struct {
	Kind isa95.ConfigKind `json:"kind"`
	IDs  []string         `json:"ids"`
}

func (c *Console) oneStation(ctx context.Context, r *http.Request) (shown, error) {
	scope, err := isa95.ParseScope(r.PathValue("scope"))
	if err != nil {
		return nil, &problem{http.StatusNotFound, "No such station", err.Error()}
	}
	o := &OneStation{Frame: c.newFrame(string(scope), "Stations"), Resources: []Resources{}}
	o.polled(r)
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	active, err := store.Stations(ctx)
	if err != nil {
		return nil, away(err)
	}
	if _, known := active[scope]; !known {
		return nil, &problem{http.StatusNotFound, "No such station", "No station " + string(scope) + " has a configuration or job orders. The list of stations has those that are there."}
	}
	all, contents, err := c.stationsOf(ctx, store, active, []isa95.Scope{scope}, isa95.ConfigKinds()...)
	if err != nil {
		return nil, err
	}
	o.Station = all[0]
	for _, kind := range isa95.ConfigKinds() {
		if ids := contents[scope].IDs[kind]; kind != isa95.ConfigWorkMaster && len(ids) > 0 {
			o.Resources = append(o.Resources, Resources{kind, ids})
		}
	}
	var masters []isa95.WorkMasterID
	for _, id := range o.WorkMasters {
		masters = append(masters, isa95.WorkMasterID(id))
	}
	if o.Names, masters, err = findNames(r, masters); err != nil {
		return nil, err
	}
	delivered, err := store.Delivered(ctx, scope, masters...)
	if delivered == nil {
		return nil, away(err)
	}
	o.note(err)
	o.Recipes = jobstore.UsedRecipes(delivered, nil)
	o.note(c.recipes.Learn(ctx, store, o.Recipes))
	return o, nil
}

func stationPath(scope isa95.Scope) string { return "/stations/" + url.PathEscape(string(scope)) }
