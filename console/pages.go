package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/internal/users"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// page is one address: what it shows, read by data, in HTML by the template of its name and in JSON as it is.
type page struct {
	pattern string // of ServeMux
	name    string // of the template
	role    Role   // that it takes to look at it; 0 = Viewer
	data    func(c *Console, ctx context.Context, r *http.Request) (shown, error)
	shows   shown  // of the type that data returns
	query   string // names of its parameters, each after a space
}

// api is the address of the page in JSON, below apiPath.
func (p page) api() string {
	if p.pattern == "/{$}" {
		return "/overview"
	}
	return p.pattern
}

// apiPath is before the addresses of the pages in JSON.
const apiPath = "/api/v1"

// pages are those of all parts.
func pages() []page {
	return slices.Concat(orderPages, stationPages, taskPages, boardPages, workflowPages, systemPages, auditPages)
}

var orderPages = []page{
	{"/{$}", "overview", 0, (*Console).overview, &Overview{}, ""},
	{"/orders", "orders", 0, (*Console).orders, &Orders{}, "scope state id waits sort page"},
	{"/runs", "runs", 0, (*Console).runs, &Runs{}, "scope"},
	{"/orders/{id}", "order", 0, (*Console).order, &OneOrder{}, ""},
	{"/orders/{id}/{method}", "method", Operator, (*Console).method, &MethodPage{}, ""},
}

// shown is what a page shows.
type shown interface{ frame() *Frame }

// Frame is what every page has.
type Frame struct {
	Servers []Health  `json:"servers"`
	Now     time.Time `json:"now"`
	AsOf    time.Time `json:"as_of,omitzero"` // of the list of orders
	Notice  string    `json:"notice,omitempty"`
	Query   string    `json:"query,omitempty"` // that was looked for

	Title, Nav string  `json:"-"`
	Version    string  `json:"-"`
	Events     string  `json:"-"` // address of the event stream; "" = the page does not change
	Ticks      bool    `json:"-"` // what it shows goes on with time
	Visitor    Visitor `json:"-"`
	polls      string  // address of the event stream of a page that is polled, without what it had
	Result     *Result `json:"-"` // of the action that led here
}

// May tells whether the visitor has a role, by its name, or one above it.
func (f *Frame) May(role string) bool {
	return f.Visitor.Role >= users.RoleOf(role)
}

func (f *Frame) frame() *Frame { return f }

// Entry is one of the navigation.
type Entry struct{ Name, Href string }

// Entries are the pages that are not reached from another one.
func (f *Frame) Entries() []Entry {
	all := []Entry{{"Overview", "/"}, {"Orders", "/orders"}, {"Runs", "/runs"}, {"Stations", "/stations"}, {"Recipes", "/recipes"}, {"Tasks", "/tasks"}, {"Boards", "/boards"}, {"Workflows", "/workflows"}, {"System", "/system"}}
	if f.Visitor.Role == Admin || f.Visitor.Alone() {
		all = append(all, Entry{"Audit", "/audit"})
	}
	return all
}

// Down are the servers that do not answer.
func (f *Frame) Down() (down []Health) {
	for _, h := range f.Servers {
		if !h.Up {
			down = append(down, h)
		}
	}
	return down
}

func (c *Console) newFrame(title, nav string) *Frame {
	f := &Frame{
		Servers: []Health{c.book.redis.show("Redis", c.o.Redis), c.broker.show("Broker", c.o.Broker)},
		Now:     time.Now().UTC(), Title: title, Nav: nav, Version: c.o.Version,
	}
	if why := c.unrecorded.Load(); why != nil {
		f.Notice = "What is done here is not recorded: " + *why
	}
	return f
}

// problem is an answer that is not the page.
type problem struct {
	status int
	Title  string
	Text   string
}

func (p *problem) Error() string { return p.Text }

// elsewhere is an answer that leads to another address.
type elsewhere string

func (e elsewhere) Error() string { return "see " + string(e) }

// away says what an error of Redis means for a page.
func away(err error) error {
	if jobstore.Waits(err) || errors.Is(err, context.DeadlineExceeded) {
		reason, denied := jobstore.Reason(err), jobstore.Waits(err) && !jobstore.Away(err)
		p := &problem{http.StatusServiceUnavailable, "Redis does not answer", "What this page shows is in Redis, which does not answer: " + reason + ". The page comes back by itself once it does."}
		if denied {
			p.Title, p.Text = "Redis denies it", "What this page shows is in Redis, and cannot be read: "+reason+"."
		}
		return &trouble{p, reason, denied}
	}
	return err
}

// trouble is a problem of Redis.
type trouble struct {
	*problem
	reason string
	denied bool // it refused, so nothing was done
}

func (t *trouble) Unwrap() error { return t.problem }

// needStore is the store, or the page that says there is none.
func (c *Console) needStore() (*jobstore.Store, error) {
	if store := c.store.get(); store != nil {
		return store, nil
	}
	return nil, &problem{http.StatusServiceUnavailable, "Redis does not answer", "What this page shows is in Redis, which has not answered since the console started. The page comes back by itself once it does."}
}

func (c *Console) serve(p page, api bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readWithin)
		defer cancel()
		data, err := c.read(ctx, p, r)
		var there elsewhere
		switch {
		case errors.As(err, &there):
			http.Redirect(w, r, string(there), http.StatusSeeOther)
		case err != nil:
			c.fail(w, r, err)
		case api:
			writeJSON(w, http.StatusOK, data)
		default:
			f := data.frame()
			if f.polls != "" {
				f.Events = f.polls + "&after=" + digest(data)
			}
			f.Visitor, f.Result = visitorOf(ctx), c.results.get(r.FormValue("result"))
			c.render(w, http.StatusOK, p.name, data)
		}
	})
}

// read is what a page shows to its visitor.
func (c *Console) read(ctx context.Context, p page, r *http.Request) (shown, error) {
	if who := visitorOf(ctx); who.Role < max(p.role, Viewer) && !(p.name == "audit" && who.Alone()) {
		return nil, &problem{http.StatusForbidden, "Not allowed", fmt.Sprintf("This page takes the role %s; yours is %s.", max(p.role, Viewer), who.Role)}
	}
	return p.data(c, ctx, r)
}

// polled has a page follow what it shows, by a look once a second for all browsers that show the same.
func (f *Frame) polled(r *http.Request) {
	q := r.URL.Query()
	q.Del("result")
	f.polls = "/events?page=" + url.QueryEscape(strings.TrimPrefix(r.URL.EscapedPath(), apiPath)+strings.TrimSuffix("?"+q.Encode(), "?"))
}

func writeJSON(w http.ResponseWriter, status int, data any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(data) // the client has gone
}

// Failure is a problem for programs.
type Failure struct {
	Error string `json:"error"`
}

// fail answers with a problem, in the form that was asked for.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		c.o.Log.Warn("a page of the console cannot be shown", "path", r.URL.Path, "err", err)
		p = &problem{http.StatusInternalServerError, "This page cannot be shown", telemetry.Hide(err.Error()) + "; takt check lists what cannot be read"}
	}
	if strings.HasPrefix(r.URL.Path, apiPath) {
		writeJSON(w, p.status, Failure{p.Text})
		return
	}
	f := c.newFrame(p.Title, "")
	_, all, _ := c.book.now()
	f.Visitor = visitorOf(r.Context())
	switch {
	case f.Visitor.Role == 0:
		f.Servers, f.Notice = nil, ""
	case r.Method == http.MethodGet:
		f.Result = c.results.get(r.FormValue("result"))
		f.Events = "/events?after=" + url.QueryEscape(all)
	}
	c.render(w, p.status, "problem", struct {
		*Frame
		Text string
	}{f, p.Text})
}

// Overview is whether the plant is fine.
type Overview struct {
	*Frame
	State   State        `json:"state"`
	Engines []string     `json:"engines"`
	Counts  []StateCount `json:"counts"` // of top states, in the order of the machine
	Total   int          `json:"total"`
	Waiting []Order      `json:"waiting"` // that are not over and have been in their state longest
	Changes []Change     `json:"changes"`
}

// StateCount is how many orders are in a state.
type StateCount struct {
	State  string `json:"state"`
	Orders int    `json:"orders"`
}

// waitingShown is how many waiting orders the overview shows.
const waitingShown = 10

func (c *Console) overview(ctx context.Context, _ *http.Request) (shown, error) {
	o := &Overview{Frame: c.newFrame("Overview", "Overview")}
	g := c.look(o.Frame)
	o.State = c.state(o.Frame)
	o.Total, o.Changes = len(g.orders), g.changes
	o.Counts = counts(g.orders)
	for _, one := range g.orders {
		full := len(o.Waiting) == waitingShown
		if one.state.Clearable() || full && !one.Since.Before(o.Waiting[waitingShown-1].Since) {
			continue
		}
		at, _ := slices.BinarySearchFunc(o.Waiting, one, func(a, b Order) int { return cmp.Or(a.Since.Compare(b.Since), -1) }) // behind those of the same time
		o.Waiting = slices.Insert(o.Waiting, at, one)
		o.Waiting = o.Waiting[:min(len(o.Waiting), waitingShown)]
	}
	if store := c.store.get(); store != nil && c.book.redis.show("", "").Up {
		var err error
		if o.Engines, err = store.Engines(ctx); err == nil {
			err = c.reasons(ctx, store, o.Waiting)
		}
		o.note(err)
	}
	return o, nil
}

// look is the book for a page that follows it.
func (c *Console) look(f *Frame) glance {
	_, all, _ := c.book.now() // before the look: a change between is an event, not a loss
	g := c.book.glance()
	f.Events, f.AsOf = "/events?after="+url.QueryEscape(all), g.read.UTC()
	if g.read.IsZero() {
		f.AsOf = time.Time{}
	}
	f.Notice = strings.Trim(f.Notice+"; "+g.unread, "; ")
	return g
}

// note says on the page that a part of it could not be read.
func (f *Frame) note(err error) {
	if err != nil {
		f.Notice = strings.TrimPrefix(f.Notice+"; ", "; ") + cell(away(err).Error())
	}
}

func counts(orders []Order) []StateCount {
	of := make(map[string]int)
	for _, o := range orders {
		of[o.state.Top]++
	}
	var all []StateCount
	for _, top := range tops() {
		all = append(all, StateCount{top, of[top]})
	}
	return all
}

// tops are the top states that orders of a list can be in.
func tops() (all []string) {
	for _, s := range isa95.States() {
		if s.Top != "" && !s.IsEnd() && !slices.Contains(all, s.Top) {
			all = append(all, s.Top)
		}
	}
	return all
}

// reasons fills in what the orders wait for.
func (c *Console) reasons(ctx context.Context, store *jobstore.Store, orders []Order) error {
	if len(orders) == 0 {
		return nil
	}
	ids := make([]string, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	listed, err := store.WhyOf(ctx, c.o.TopicPrefix, ids...)
	for _, l := range listed {
		if i := slices.IndexFunc(orders, func(o Order) bool { return o.ID == l.JobOrder.JobOrderID }); i >= 0 {
			orders[i] = orderOf(&l.StoredOrder)
			orders[i].Reason, orders[i].WaitsFor = l.Why.Reasons[0].Kind, l.Why.Reasons[0].Short
		}
	}
	return err
}

// Orders is a page of the list of orders.
type Orders struct {
	*Frame
	pager
	Filter   Filter   `json:"filter"`
	Unlooked int      `json:"unlooked,omitempty"` // orders that may wait for what the filter names and were not looked at
	Scopes   []string `json:"scopes"`
	States   []string `json:"states"`
	Orders   []Order  `json:"orders"`
}

// Filter says which orders are listed, and how: query parameters of these names.
type Filter struct {
	Scope string `json:"scope,omitempty"`
	State string `json:"state,omitempty"` // with its substates
	ID    string `json:"id,omitempty"`    // a part of the id or the work master
	Waits string `json:"waits,omitempty"` // a kind of waits
	Sort  string `json:"sort,omitempty"`  // a name of sorts; "" = priority
}

// perPage is how many orders a page shows.
const perPage = 50

// sorts are the orders of a list, beside that of the priority.
var sorts = map[string]func(a, b Order) int{
	"id":    func(a, b Order) int { return strings.Compare(a.ID, b.ID) },
	"scope": func(a, b Order) int { return strings.Compare(string(a.Scope), string(b.Scope)) },
	"state": func(a, b Order) int { return strings.Compare(a.State, b.State) },
	"since": func(a, b Order) int { return a.Since.Compare(b.Since) },
}

func (c *Console) orders(ctx context.Context, r *http.Request) (shown, error) {
	o := &Orders{Frame: c.newFrame("Orders", "Orders"), Filter: Filter{r.FormValue("scope"), r.FormValue("state"), r.FormValue("id"), r.FormValue("waits"), r.FormValue("sort")}}
	var (
		within isa95.State
		err    error
	)
	if o.Filter.State != "" {
		if within, err = isa95.ParseStateText(o.Filter.State); err != nil {
			return nil, &problem{http.StatusBadRequest, "No such state", err.Error()}
		}
	}
	if o.Filter.Sort == "priority" {
		o.Filter.Sort = ""
	}
	if o.Filter.Sort != "" && sorts[o.Filter.Sort] == nil {
		return nil, &problem{http.StatusBadRequest, "No such order", fmt.Sprintf("sort is %q: must be priority, id, scope, state or since", o.Filter.Sort)}
	}
	if o.pager, err = pagerOf(r, "scope", "state", "id", "waits", "sort"); err != nil {
		return nil, err
	}
	g := c.look(o.Frame)
	o.States = tops()
	var found []Order
	for _, one := range g.orders {
		f := o.Filter
		if (f.Scope == "" || f.Scope == string(one.Scope)) && (f.State == "" || one.state.Within(within)) && (f.ID == "" || strings.Contains(one.ID, f.ID) || strings.Contains(one.WorkMaster, f.ID)) {
			found = append(found, one)
		}
	}
	o.Scopes = scopesOf(g.orders)
	if by := sorts[o.Filter.Sort]; by != nil { // that of the priority is there already
		slices.SortStableFunc(found, by)
	}
	if o.Filter.Waits != "" {
		if found, err = c.waiting(ctx, o, found, jobstore.WhyKind(o.Filter.Waits)); err != nil {
			return nil, err
		}
	}
	o.Orders = pageOf(&o.pager, found)
	if store := c.store.get(); store != nil && c.book.redis.show("", "").Up && !slices.ContainsFunc(o.Orders, func(one Order) bool { return one.Reason != "" }) {
		o.note(c.reasons(ctx, store, o.Orders))
	}
	return o, nil
}

// scopesShown is how many scopes a form offers. Beyond it has a text field instead.
const scopesShown = 200

// scopesOf are the scopes of orders for a form, sorted; nil: too many.
func scopesOf(orders []Order) []string {
	scopes := make(map[string]bool)
	for _, o := range orders {
		scopes[string(o.Scope)] = true
	}
	if len(scopes) > scopesShown {
		return nil
	}
	return slices.Sorted(maps.Keys(scopes))
}

// Filtered tells whether the filter leaves orders out.
func (o *Orders) Filtered() bool {
	f := o.Filter
	f.Sort = ""
	return f != Filter{}
}
