package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/zones"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task"
)

// Group is a group of tasks, with a part of its children.
type Group struct {
	*Frame
	Group    task.GroupInfo    `json:"group"`    // without Expires
	Callback string            `json:"callback"` // id of the task that follows, and of the one that follows a failure
	Failure  string            `json:"failure"`
	Children []task.Child      `json:"children"`
	Workers  map[string]string `json:"workers"` // that run children, by their ids

	turned
}

func (c *Console) taskGroup(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const children = 50
	id := r.FormValue("id")
	info, err := client.Group(ctx, id)
	if err != nil {
		return nil, err
	}
	info.Expires = time.Time{} // by this process's clock: it differs from look to look
	g := task.Group{ID: id}
	o := &Group{Frame: c.newFrame("Group "+clipped(id, nameShown), "Tasks"), Group: info, Callback: g.CallbackID(), Failure: g.FailureID(), Workers: make(map[string]string)}
	o.polled(r)
	if err := o.turn(r, groupPath(id)+"&", info.Children, children); err != nil {
		return nil, err
	}
	if o.Children, err = client.GroupChildren(ctx, id, o.from, children); err != nil {
		return nil, err
	}
	workers, err := client.Workers(ctx)
	for _, w := range workers {
		for _, run := range w.Running {
			if i := slices.IndexFunc(o.Children, func(c task.Child) bool { return c.ID == run.ID && c.State == "" }); i >= 0 {
				o.Children[i].State, o.Workers[run.ID] = task.StateRunning, w.ID
			}
		}
	}
	return o, err
}

// Over tells whether all children have ended.
func (o *Group) Over() bool { return o.Group.Remaining == 0 && o.Group.Submitted == o.Group.Children }

// OuterGroup is the id of the group with the child whose place this group takes; "" = none.
func (o *Group) OuterGroup() string {
	return strings.TrimPrefix(o.Group.Outer[:max(0, strings.LastIndex(o.Group.Outer, ":"))], "_")
}

// TaskSchedules are a part of the schedules.
type TaskSchedules struct {
	*Frame
	Leader    string         `json:"leader,omitempty"` // scheduler that submits what is due; "" = none
	Term      int64          `json:"term,omitempty"`   // number of its election
	Total     int            `json:"total"`
	Schedules []ScheduleLine `json:"schedules"`

	turned
}

// ScheduleLine is a schedule with its next slots.
type ScheduleLine struct {
	task.ScheduleInfo
	Zone  string      `json:"zone"`                 // in which the slots are
	Slots []time.Time `json:"next_slots,omitempty"` // at most taskSlotsShown
}

// taskSlotsShown is how many next slots of a schedule are worked out.
const taskSlotsShown = 5

func (c *Console) schedules(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const lines = 20
	o := &TaskSchedules{Frame: c.newFrame("Schedules", "Tasks"), Schedules: []ScheduleLine{}}
	o.polled(r)
	all, err := client.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	if o.Leader, o.Term, err = client.SchedulerLeader(ctx); err != nil {
		return nil, err
	}
	o.Total = len(all)
	if err := o.turn(r, "/tasks/schedules?", len(all), lines); err != nil {
		return nil, err
	}
	for _, s := range all[o.from:o.to] {
		o.Schedules = append(o.Schedules, lineOf(s))
	}
	return o, nil
}

var zoneOf = regexp.MustCompile(`TZ(?:ID)?=([^\s;:]+)`)

// lineOf works out the next slots of a schedule.
func lineOf(s task.ScheduleInfo) ScheduleLine {
	line, zone := ScheduleLine{ScheduleInfo: s, Zone: "UTC"}, time.UTC
	if named := zoneOf.FindStringSubmatch(s.Spec); named != nil {
		if loaded, err := zones.Load(named[1]); err == nil {
			line.Zone, zone = named[1], loaded
		}
	}
	plan, err := schedule.Parse(s.Spec)
	if err != nil || s.Next.IsZero() || s.State != task.ScheduleActive || s.Paused {
		return line
	}
	plan = schedule.WithAnchor(plan, s.Anchor)
	for at, ok := s.Next, true; ok && len(line.Slots) < taskSlotsShown; at, ok = plan.Next(at) {
		line.Slots = append(line.Slots, at.In(zone))
	}
	return line
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
	Cut   bool   `json:"cut,omitempty"`  // there may be more locks among these keys
	Next  string `json:"next,omitempty"` // parameter after of the next part; "" = this is the last
	First bool   `json:"-"`
}

// Lock is a lock or a limiter.
type Lock struct {
	lock.Info
	Until time.Time `json:"until,omitzero"` // when the last lease ends unless it is renewed; zero = never
}

func (c *Console) locks(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	const locks = 60
	o := &Locks{Frame: c.newFrame("Locks", "Tasks"), Match: r.FormValue("match"), Locks: []Lock{}, First: r.FormValue("after") == ""}
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

// Link is the address of another part.
func (o *Locks) Link(after string) string {
	return "/tasks/locks?" + url.Values{"match": {o.Match}, "after": {after}}.Encode()
}
