package sampling

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Sample is what was found at one minute. What is absent was 0.
type Sample struct {
	Time time.Time `json:"-"` // by the server's clock
	By   string    `json:"by"`

	Orders  map[string]int64   `json:"orders,omitempty"`     // by top state
	Waiting time.Duration      `json:"waiting_ns,omitempty"` // how long the order has been in its state that is longest in one in which it neither runs nor is over
	Oldest  string             `json:"oldest,omitempty"`     // its id
	Ended   int64              `json:"ended,omitempty"`      // orders that ended since the sample before
	Aborted int64              `json:"aborted,omitempty"`    // orders that were aborted since then, by an MES or because their recipe failed
	Missed  bool               `json:"missed,omitempty"`     // more changed than the stream of changes keeps: Ended and Aborted are too low
	Last    string             `json:"last,omitempty"`       // change that was counted last
	Backlog map[string]Backlog `json:"backlog,omitempty"`    // by stream

	Instances int64         `json:"instances,omitempty"`
	Engines   int64         `json:"engines,omitempty"`
	Recipes   int64         `json:"recipes,omitempty"`
	TimerLate time.Duration `json:"timer_late_ns,omitempty"`
	Dead      Letters       `json:"dead,omitzero"`

	Tasks     Tasks     `json:"tasks,omitzero"`
	Workflows Workflows `json:"workflows,omitzero"`

	// Unread says what could not be read, by part: "tasks", "workflows".
	Unread map[string]string `json:"unread,omitempty"`
}

// Backlog is what a stream has that is not done with.
type Backlog struct {
	Entries int64         `json:"entries,omitempty"`   // of changes at most jobstore.MaxLag
	Oldest  time.Duration `json:"oldest_ns,omitempty"` // age of the oldest, 0 = there is none
}

// Letters are the dead letters of each part.
type Letters struct {
	Orders    int64 `json:"orders,omitempty"`
	Tasks     int64 `json:"tasks,omitempty"`
	Workflows int64 `json:"workflows,omitempty"`
}

// Sum is that of all parts.
func (l Letters) Sum() int64 { return l.Orders + l.Tasks + l.Workflows }

// Tasks are figures of tasks.
type Tasks struct {
	Waiting  map[task.Queue]int64 `json:"waiting,omitempty"` // by queue, those with any
	Running  map[task.Queue]int64 `json:"running,omitempty"`
	Delayed  int64                `json:"delayed,omitempty"`
	Blocked  int64                `json:"blocked,omitempty"`   // of the delayed: by a lock
	Oldest   time.Duration        `json:"oldest_ns,omitempty"` // age of the oldest task in any queue
	Unserved bool                 `json:"unserved,omitempty"`
	Workers  int64                `json:"workers,omitempty"`
	Done     int64                `json:"done,omitempty"` // since the counters were made, as the next
	Failed   int64                `json:"failed,omitempty"`
	Late     time.Duration        `json:"late_ns,omitempty"`          // how long the first delayed task is overdue
	Schedule time.Duration        `json:"schedule_late_ns,omitempty"` // how long the first slot of a schedule is overdue
}

// Sum adds up the queues.
func Sum(of map[task.Queue]int64) (sum int64) {
	for _, n := range of {
		sum += n
	}
	return sum
}

// Workflows are figures of workflow instances.
type Workflows struct {
	Active     int64            `json:"active,omitempty"`
	Tasks      int64            `json:"tasks,omitempty"`      // workflow tasks that wait or run
	Activities int64            `json:"activities,omitempty"` // the same of activities
	Timers     int64            `json:"timers,omitempty"`     // that have not fired
	TimerLate  time.Duration    `json:"timer_late_ns,omitempty"`
	Ended      map[string]int64 `json:"ended,omitempty"` // since the counters were made, by how they ended
}

// Read returns the samples after the one with an id, "0" = all that are kept, the oldest first, and the id of the last. It waits up to wait for the first. One command. A sample that another version
// wrote otherwise is left out.
func Read(ctx context.Context, store *jobstore.Store, after string, wait time.Duration) (samples []Sample, last string, err error) {
	stored, err := store.Samples(ctx, after, wait)
	last = after
	for _, one := range stored {
		s := Sample{Time: one.Time()}
		if json.Unmarshal(one.Data, &s) == nil {
			samples = append(samples, s)
		}
		last = one.ID
	}
	return samples, last, err
}

// streams are the names of what waits, in the order of jobstore.Condition.
var streams = []string{"work", "commands", "events", "changes"}

func (s *Sample) condition(ctx context.Context, store *jobstore.Store) error {
	pace, err := store.Pace(ctx)
	if err != nil {
		return err
	}
	s.Time, s.Recipes, s.TimerLate, s.Backlog = pace.At, pace.Recipes, pace.Late, make(map[string]Backlog)
	c, err := store.Condition(ctx)
	if err != nil {
		return err
	}
	for i, in := range c.Streams {
		b := Backlog{Entries: in.Entries}
		if streams[i] == "changes" {
			b.Entries = in.Lag
		}
		if !in.Oldest.IsZero() {
			b.Oldest = max(pace.At.Sub(in.Oldest), 1)
		}
		s.Backlog[streams[i]] = b
	}
	for _, p := range c.Instances {
		if p.Alive {
			s.Instances++
			if slices.Contains(p.Roles, "engine") {
				s.Engines++
			}
		}
	}
	dead, err := store.DeadStreams(ctx)
	for _, d := range dead {
		s.Dead.Orders += d.Letters
	}
	return err
}

func (s *Sample) tasks(ctx context.Context, c *task.Client) error {
	st, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	t := Tasks{Waiting: make(map[task.Queue]int64), Running: make(map[task.Queue]int64), Delayed: st.Delayed, Blocked: st.Blocked, Workers: st.Workers}
	for _, q := range st.Queues {
		if q.Waiting > 0 {
			t.Waiting[q.Queue] = q.Waiting
		}
		if q.Running > 0 {
			t.Running[q.Queue] = q.Running
		}
		t.Oldest, t.Unserved = max(t.Oldest, q.Oldest), t.Unserved || q.Unserved
	}
	for _, ends := range st.ByQueue {
		t.Done += ends[task.Done]
		t.Failed += ends[task.Dead]
	}
	if !st.NextDue.IsZero() {
		t.Late = max(st.At.Sub(st.NextDue), 0)
	}
	schedules, err := c.Schedules(ctx)
	for _, one := range schedules {
		if one.State == task.ScheduleActive && !one.Next.IsZero() {
			t.Schedule = max(t.Schedule, st.At.Sub(one.Next))
		}
	}
	s.Tasks, s.Dead.Tasks = t, st.Dead
	return err
}

func (s *Sample) workflows(ctx context.Context, c *workflow.Client) error {
	st, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	late, dead, err := c.Overdue(ctx)
	if err != nil {
		return err
	}
	w := Workflows{Active: st.Active, Timers: st.Timers, TimerLate: late, Ended: st.Counters}
	delete(w.Ended, "started")
	for _, n := range st.Workflows {
		w.Tasks += n
	}
	for _, n := range st.Activities {
		w.Activities += n
	}
	s.Workflows, s.Dead.Workflows = w, dead
	return nil
}

// part is a client of another part, opened when it is first needed.
type part[C interface{ Close() }] struct {
	open   func(ctx context.Context) (C, error) // nil: there is none
	client C
	has    bool
}

func (p *part[C]) use(ctx context.Context, f func(context.Context, C) error) (err error) {
	if p.open == nil {
		return nil
	}
	if !p.has {
		if p.client, err = p.open(ctx); err != nil {
			return err
		}
		p.has = true
	}
	return f(ctx, p.client)
}

func (p *part[C]) close() {
	if p.has {
		p.client.Close()
		p.has = false
	}
}

// unread notes that a part could not be read.
func (s *Sample) unread(part string, err error) {
	if err != nil {
		if s.Unread == nil {
			s.Unread = make(map[string]string)
		}
		s.Unread[part] = fmt.Sprintf("%.200s", err)
	}
}
