package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Place is where a workflow task or an activity is; "" for a task that does not exist, for there is nothing to do.
type Place string

const (
	Waiting Place = "waiting" // in its queue, for a worker
	Running Place = "running" // with a worker
	Held    Place = "held"    // by its queue, which is paused
)

// Detail is an execution and what is going on in it. Of one that has ended only Info and Now are set.
type Detail struct {
	Info
	Now         time.Time      `json:"now,omitzero"`          // by the server's clock, when this was so
	Pending     int64          `json:"pending_events"`        // that its code has not handled
	Paused      bool           `json:"paused"`                // by Pause, or because its task killed worker after worker
	QueuePaused bool           `json:"queue_paused"`          // that of the instance
	AtGate      bool           `json:"at_gate"`               // it waits at Info.Gate, before its first task
	Task        Place          `json:"task,omitempty"`        // "" = none: it waits for activities, timers, signals or other instances
	TaskWorker  string         `json:"task_worker,omitempty"` // that runs the task
	Activities  []OpenActivity `json:"activities,omitempty"`  // that have no result yet, by Ref; at most 1000 of them
	Timers      []OpenTimer    `json:"timers,omitempty"`      // that have not fired, the next first; at most 1000 of them
	ManyOpen    int64          `json:"activities_open"`       // how many activities there are, also beyond 1000
	ManyTimers  int64          `json:"timers_open"`           // how many timers there are, also beyond 1000
}

// OpenActivity is an activity without a result.
type OpenActivity struct {
	Ref        int64  `json:"ref"`
	Queue      string `json:"queue"`
	Place      Place  `json:"place"`
	Worker     string `json:"worker,omitempty"` // that runs it
	Deliveries int64  `json:"deliveries"`       // how many workers got it
	Event      Event  `json:"event"`            // as it was scheduled
}

// OpenTimer is a timer that has not fired.
type OpenTimer struct {
	Ref   int64     `json:"ref"`
	At    time.Time `json:"at"` // by the server's clock
	Event Event     `json:"event"`
}

const detailMost = 1000

// Detail looks at an execution; with Execution "" at the newest one of that instance, active or ended. It changes nothing and takes one round trip. ErrNotFound: there is none, or
// it was removed.
func (c *Client) Detail(ctx context.Context, i Instance) (Detail, error) {
	if err := i.checkOrActive("Detail instance"); err != nil {
		return Detail{}, err
	}
	s := c.of(i.ID)
	reply, err := detailScript.Run(ctx, c.rdb, []string{s.keys.Run(i.ID), s.keys.Last(i.ID)}, s.base, i.ID, i.Execution, strconv.Itoa(detailMost)).ToArray()
	if err != nil {
		return Detail{}, fmt.Errorf("workflow: detail of %s: %w", i.ID, err)
	}
	if len(reply) == 1 {
		return Detail{}, fmt.Errorf("%w: %s", ErrNotFound, nameOf(i))
	}
	d, err := decodeDetail(reply)
	if err != nil {
		return Detail{}, fmt.Errorf("workflow: detail of %s: %w", i.ID, err)
	}
	return d, nil
}

// Standing is what an execution does or waits for, in words; "" if it has ended.
func (d *Detail) Standing() string {
	switch {
	case d.State != Active:
		return ""
	case d.AtGate && d.Paused:
		return "waits at its gate, and is paused"
	case d.AtGate:
		return "waits at its gate for its turn"
	case d.Task == Running && d.Paused:
		return "its task runs on " + d.TaskWorker + ", then it is paused"
	case d.Task == Running:
		return "its task runs on " + d.TaskWorker
	case d.Paused:
		return "paused"
	case d.Task == Held:
		return "its task is held, the queue is paused"
	case d.Task == Waiting:
		return "its task waits for a worker of queue " + d.Queue
	case d.ManyOpen+d.ManyTimers == 0:
		return "waits for a signal, or another instance"
	}
	return fmt.Sprintf("waits: open activities %d, timers %d", d.ManyOpen, d.ManyTimers)
}

// nameOf is an instance for messages: without a colon where the newest is meant.
func nameOf(i Instance) string {
	if i.Execution == "" {
		return i.ID
	}
	return i.String()
}

// decodeDetail reads the reply of detail.lua.
func decodeDetail(reply []rueidis.RedisMessage) (d Detail, err error) {
	if len(reply) != 14 {
		return d, fmt.Errorf("detail.lua replied %d parts", len(reply))
	}
	r := reader{reply, &err}
	doc := r.text(1)
	if err != nil {
		return d, err
	}
	if d.Info, err = decodeInfo(doc); err != nil {
		return d, err
	}
	d.Now, d.Pending = time.UnixMilli(parseInt(r.text(2))), r.number(4)
	d.Paused, d.AtGate, d.QueuePaused = r.text(5) == "1", r.text(6) != "", r.text(7) == "1"
	d.Task, d.TaskWorker, d.ManyOpen, d.ManyTimers = Place(r.text(8)), r.text(9), r.number(10), r.number(12)
	for _, a := range r.list(11) {
		o := OpenActivity{Ref: parseInt(a.text(0)), Queue: a.text(1), Place: Place(a.text(2)), Worker: a.text(3), Deliveries: a.number(4)}
		if text := a.text(5); text != "" && err == nil {
			o.Event, err = decodeEvent(text)
		}
		d.Activities = append(d.Activities, o)
	}
	for _, t := range r.list(13) {
		due := OpenTimer{Ref: parseInt(t.text(0)), At: time.UnixMilli(parseInt(t.text(1)))}
		if text := t.text(2); err == nil {
			due.Event, err = decodeEvent(text)
		}
		d.Timers = append(d.Timers, due)
	}
	slices.SortFunc(d.Activities, func(a, b OpenActivity) int { return cmp.Compare(a.Ref, b.Ref) })
	slices.SortFunc(d.Timers, func(a, b OpenTimer) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Ref, b.Ref)) })
	return d, err
}

// reader reads parts of a reply and keeps the first error.
type reader struct {
	parts []rueidis.RedisMessage
	err   *error
}

func (r reader) part(i int) *rueidis.RedisMessage {
	if i >= len(r.parts) {
		*r.err = cmp.Or(*r.err, fmt.Errorf("%d parts where %d are needed", len(r.parts), i+1))
		return &rueidis.RedisMessage{}
	}
	return &r.parts[i]
}

func (r reader) text(i int) string {
	s, err := r.part(i).ToString()
	*r.err = cmp.Or(*r.err, err)
	return s
}

func (r reader) number(i int) int64 {
	n, err := r.part(i).AsInt64()
	*r.err = cmp.Or(*r.err, err)
	return n
}

func (r reader) list(i int) (out []reader) {
	all, err := r.part(i).ToArray()
	*r.err = cmp.Or(*r.err, err)
	for _, m := range all {
		parts, err := m.ToArray()
		*r.err = cmp.Or(*r.err, err)
		out = append(out, reader{parts, r.err})
	}
	return out
}

// EventSubScheduled is the type of an event of go-workflows, with which an instance starts another.
const EventSubScheduled = "SubWorkflowScheduled"

// Children are the executions that a history says were started by it, as go-workflows writes it. Other libraries may write it in another way; then there are none.
func Children(history []Event) (all []Instance) {
	for _, e := range history {
		var data struct {
			Instance struct {
				ID        string `json:"instance_id"`
				Execution string `json:"execution_id"`
			} `json:"sub_workflow_instance"`
		}
		if e.Type == EventSubScheduled && json.Unmarshal(e.Data, &data) == nil && data.Instance.ID != "" {
			all = append(all, Instance{ID: data.Instance.ID, Execution: data.Instance.Execution, ParentEvent: e.Ref})
		}
	}
	return all
}

// CountEnded is how many executions ended before a time and are still kept: those that RemoveEnded would remove.
func (c *Client) CountEnded(ctx context.Context, before time.Time) (total int64, err error) {
	for _, s := range c.shards {
		n, err := c.rdb.Do(ctx, c.rdb.B().Zcount().Key(s.keys.Ended()).Min("-inf").Max("("+unixMilli(before)).Build()).AsInt64()
		if err != nil {
			return 0, fmt.Errorf("workflow: count: %w", err)
		}
		total += n
	}
	return total, nil
}

// PausedQueues are the names of the queues that are paused, sorted. They are paused on every shard, unless PauseQueue or ResumeQueue failed in between.
func (c *Client) PausedQueues(ctx context.Context) ([]string, error) {
	var all []string
	for _, s := range c.shards {
		names, err := c.rdb.Do(ctx, c.rdb.B().Smembers().Key(s.keys.Paused()).Build()).AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("workflow: paused queues: %w", err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// CheckID returns a *NameError unless id can be that of an instance.
func CheckID(id string) error { return checkName("instance", id) }

// CheckQueue returns a *NameError unless name can be that of a queue.
func CheckQueue(name string) error { return checkQueue("queue", name) }
