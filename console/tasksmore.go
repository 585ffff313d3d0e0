package console

import (
	"context"
	"net/http"
	"time"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// Group is a group of tasks, with a part of its children.
type Group struct {
	*Frame
	Group    task.GroupInfo `json:"group"`    // without Expires
	Callback string         `json:"callback"` // id of the task that follows, and of the one that follows a failure
	Failure  string         `json:"failure"`
	Children []task.Child   `json:"children"`
	pager                   // of the children
}

func (c *Console) taskGroup(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const children = 50
	id := r.FormValue("id")
	pages, err := pagerOf(r, "id")
	if err != nil {
		return nil, err
	}
	info, err := client.Group(ctx, id)
	if err != nil {
		return nil, err
	}
	info.Expires = time.Time{} // by this process's clock: it differs from look to look
	g := task.Group{ID: id}
	o := &Group{Frame: c.newFrame("Group "+clipped(id, nameShown), "Tasks"), Group: info, Callback: g.CallbackID(), Failure: g.FailureID(), pager: pages}
	o.polled(r)
	from, _ := o.turn(info.Children, children)
	if o.Children, err = client.GroupChildren(ctx, id, from, children); err != nil {
		return nil, err
	}
	return o, nil
}

// Over tells whether all children have ended.
func (o *Group) Over() bool { return o.Group.Remaining == 0 && o.Group.Submitted == o.Group.Children }

// TaskSchedules are a part of the schedules.
type TaskSchedules struct {
	*Frame
	Leader    string         `json:"leader,omitempty"` // scheduler that submits what is due; "" = none
	Term      int64          `json:"term,omitempty"`   // number of its election
	Schedules []ScheduleLine `json:"schedules"`
	pager
}

// ScheduleLine is a schedule with its next slots in its time zone.
type ScheduleLine struct {
	task.ScheduleInfo
	Slots []time.Time `json:"next_slots,omitempty"` // at most taskSlotsShown
}

// taskSlotsShown is how many next slots of a schedule are worked out.
const taskSlotsShown = 5

func (c *Console) schedules(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const lines = 20
	o := &TaskSchedules{Frame: c.newFrame("Schedules", "Tasks"), Schedules: []ScheduleLine{}}
	o.polled(r)
	var err error
	if o.pager, err = pagerOf(r); err != nil {
		return nil, err
	}
	all, err := client.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	if o.Leader, o.Term, err = client.SchedulerLeader(ctx); err != nil {
		return nil, err
	}
	from, to := o.turn(len(all), lines)
	for _, s := range all[from:to] {
		o.Schedules = append(o.Schedules, ScheduleLine{s, s.Upcoming(taskSlotsShown)})
	}
	return o, nil
}

func runSchedule(client *task.Client, ctx context.Context, name string) error {
	_, err := client.RunScheduleNow(ctx, name)
	return err
}

// Locks are the locks and limiters among a part of the keys of the server.
type Locks struct {
	*Frame
	Match string `json:"match,omitempty"`
	Locks []Lock `json:"locks"`
	Cut   bool   `json:"cut,omitempty"` // there may be more locks among these keys
	cursor
}

// Lock is a lock or a limiter.
type Lock struct {
	lock.Info
	Until time.Time `json:"until,omitzero"` // when the last lease ends unless it is renewed; zero = never
}

func (c *Console) locks(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const locks = 60
	o := &Locks{Frame: c.newFrame("Locks", "Tasks"), Match: r.FormValue("match"), Locks: []Lock{}, cursor: cursorOf(r, "after", "match")}
	o.Ticks = true // it looks at many keys: not each second
	infos, next, err := client.Locker().ListPage(ctx, o.Match, r.FormValue("after"), locks)
	o.Next, o.Cut = next, len(infos) == locks
	for _, info := range infos {
		l := Lock{Info: info}
		if info.ExpiresIn > 0 {
			l.Until = o.Now.Add(info.ExpiresIn).Truncate(time.Millisecond)
		}
		o.Locks = append(o.Locks, l)
	}
	return o, err
}
