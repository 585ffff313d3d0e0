package sfc

import (
	"strings"
	"unique"

	"github.com/taktworks/takt/internal/recent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// routes remembers where commands and job orders belong. It copies what it is given, which are pieces of documents and
// messages, and keeps the texts that many routes share once.
type routes[K ~string] struct{ recent *recent.Cache[K, shared] }

// shared is a jobstore.Route.
type shared struct {
	job           isa95.JobOrderID
	scope, recipe unique.Handle[string]
	token         recipe.Token
	method        isa95.Method
	cancel        *recipe.Command
	since         int64
	sequence      int64
}

// sharedBytes is about what one route takes beside its texts: its places in two maps of which one is half full, and the
// headers of the texts.
const sharedBytes = 192

func newRoutes[K ~string](budget int) *routes[K] { return &routes[K]{recent.New[K, shared](budget)} }

func (r *routes[K]) get(key K) (jobstore.Route, bool) {
	s, ok := r.recent.Get(key)
	if !ok {
		return jobstore.Route{}, false
	}
	return jobstore.Route{JobOrderID: s.job, Scope: isa95.Scope(s.scope.Value()), Recipe: s.recipe.Value(), Token: s.token, Method: s.method, Cancel: s.cancel, Since: s.since, Sequence: s.sequence}, true
}

func (r *routes[K]) put(key K, route jobstore.Route) {
	r.recent.Put(K(strings.Clone(string(key))), shared{
		job:   isa95.JobOrderID(strings.Clone(string(route.JobOrderID))),
		scope: unique.Make(string(route.Scope)), recipe: unique.Make(route.Recipe),
		token: recipe.Token(strings.Clone(string(route.Token))), method: isa95.Method(strings.Clone(string(route.Method))), cancel: route.Cancel, since: route.Since, sequence: route.Sequence,
	}, sharedBytes+len(key)+len(route.JobOrderID)+len(route.Token))
}

func (r *routes[K]) drop(key K) { r.recent.Drop(key) }
