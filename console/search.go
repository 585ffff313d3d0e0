package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Search is what has the id that was looked for, or it as a part of its own.
type Search struct {
	*Frame
	Found []Hit `json:"found"`
	More  int   `json:"more"` // job orders, and stations and work masters of theirs, with the query as a part, that are left out

	Further []Hit `json:"-"` // where else it may be, which is not looked at
}

// Hit is one thing that was found.
type Hit struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Exact bool   `json:"exact"`
	Note  string `json:"note,omitempty"`
	Href  string `json:"-"`
}

const (
	maxQuery  = 512
	hitsShown = 50 // by part of the id
)

// search looks for an id where ids lead to: in memory, and by at most 20 commands of Redis.
func (c *Console) search(ctx context.Context, r *http.Request) (shown, error) {
	o := &Search{Frame: c.newFrame("Search", ""), Found: []Hit{}}
	o.Query = strings.TrimSpace(r.FormValue("q"))
	switch {
	case len(o.Query) > maxQuery:
		return nil, &problem{http.StatusBadRequest, "Too long", "An id that is looked for must be at most 512 bytes long."}
	case o.Query == "":
		return o, nil
	}
	for _, look := range []func(context.Context, *Search) error{c.searchOrders, c.searchTasks, c.searchWorkflows, c.searchBoards} {
		o.note(look(ctx, o))
	}
	exact := slices.DeleteFunc(slices.Clone(o.Found), func(h Hit) bool { return !h.Exact })
	if len(exact) == 1 && !strings.HasPrefix(r.URL.Path, apiPath) {
		return nil, elsewhere(exact[0].Href)
	}
	return o, nil
}

func (o *Search) add(kind, id, href, note string) {
	o.Found = append(o.Found, Hit{Kind: kind, ID: id, Exact: true, Note: note, Href: href})
}

// searchOrders looks among job orders, stations, work masters and dead letters.
func (c *Console) searchOrders(ctx context.Context, o *Search) error {
	orders := c.book.glance().orders
	inBook := slices.ContainsFunc(orders, func(one Order) bool { return one.ID == o.Query })
	if inBook {
		o.add("Job order", o.Query, orderPath(o.Query), "")
	}
	store, err := c.needStore()
	if err == nil {
		named, failed := store.Named(ctx, o.Query)
		if err = failed; named.Order && !inBook {
			o.add("Job order", o.Query, orderPath(o.Query), "in EndState")
		}
		if named.Scope {
			o.add("Station", o.Query, "/stations/"+url.PathEscape(o.Query), "")
		}
		if named.WorkMaster {
			o.add("Work master", o.Query, "/recipes/"+url.PathEscape(o.Query), "")
		}
		for _, stream := range named.Dead {
			o.add("Dead letter", o.Query, deadPath(stream)+"&id="+url.QueryEscape(o.Query), "in "+stream)
		}
	}
	part := func(kind, id, note, href string) {
		switch {
		case id == o.Query || !strings.Contains(strings.ToLower(id), strings.ToLower(o.Query)):
		case len(o.Found) >= hitsShown:
			o.More++
		default:
			o.Found = append(o.Found, Hit{Kind: kind, ID: id, Note: note, Href: href})
		}
	}
	seen := make(map[[2]string]bool)
	once := func(kind, id, href string) {
		if of := [2]string{kind, id}; !seen[of] {
			seen[of] = true
			part(kind, id, "", href+url.PathEscape(id))
		}
	}
	for _, one := range orders {
		once("Station", string(one.Scope), "/stations/")
		once("Work master", one.WorkMaster, "/recipes/")
	}
	for _, one := range orders {
		part("Job order", one.ID, one.State, orderPath(one.ID))
	}
	return err
}

// searchTasks looks among tasks, their groups and schedules.
func (c *Console) searchTasks(ctx context.Context, o *Search) error {
	if c.tasks.open == nil {
		return nil
	}
	client, err := c.tasks.get(ctx)
	if err != nil {
		return err
	}
	named, err := client.Named(ctx, o.Query)
	href := "/tasks/one?ref=" + url.QueryEscape(o.Query)
	if named.Task {
		o.add("Task", o.Query, href, "")
	} else if _, bad := task.ParseRef(o.Query); bad == nil {
		o.Further = append(o.Further, Hit{Kind: "Task", Note: "among the tasks that wait and run", Href: href})
	}
	if named.Group {
		o.add("Group of tasks", o.Query, "/tasks/group?id="+url.QueryEscape(o.Query), "")
	}
	if named.Schedule {
		o.add("Schedule", o.Query, "/tasks/schedules", "")
	}
	return err
}

// searchWorkflows looks for an instance.
func (c *Console) searchWorkflows(ctx context.Context, o *Search) error {
	if c.workflows.open == nil || workflow.CheckID(o.Query) != nil {
		return nil
	}
	client, err := c.workflows.get(ctx)
	if err != nil {
		return err
	}
	info, err := client.Info(ctx, workflow.Instance{ID: o.Query})
	switch {
	case errors.Is(err, workflow.ErrNotFound):
		return nil
	case err == nil:
		o.add("Workflow instance", o.Query, "/workflows/"+url.PathEscape(o.Query), info.Name)
	}
	return err
}

// searchBoards looks for a posting on each board, if the query may be the id of one.
func (c *Console) searchBoards(ctx context.Context, o *Search) error {
	if _, err := uuid.Parse(o.Query); err != nil {
		return nil
	}
	var failed error
	for _, b := range c.o.Boards {
		href := "/boards/" + url.PathEscape(b.Name) + "/" + url.PathEscape(o.Query)
		one, err := c.boards[b.Name].get(ctx)
		if err == nil {
			_, err = one.At(ctx, o.Query)
		}
		switch {
		case err == nil:
			o.add("Posting", o.Query, href, "on board "+b.Name)
		case errors.Is(err, board.ErrNotFound):
			o.Further = append(o.Further, Hit{Kind: "Posting", Note: "in the listing of board " + b.Name, Href: href})
		default:
			failed = err
		}
	}
	return failed
}
