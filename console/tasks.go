package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

var taskPages = []page{
	{"/tasks", "tasks", 0, onTasks((*Console).tasksPage), &Tasks{}, "page"},
	{"/tasks/list", "tasklist", 0, onTasks((*Console).taskList), &TaskList{}, "state queue type after"},
	{"/tasks/one", "task", 0, onTasks((*Console).taskOne), &OneTask{}, "ref"},
	{"/tasks/dead", "dead", 0, onTasks((*Console).deadList), &TaskList{}, "type error queue after"},
	{"/tasks/dead/all/requeue", "ask", Admin, onTasks((*Console).askDead), &AskPage{}, ""},
	{"/tasks/dead/all/delete", "ask", Admin, onTasks((*Console).askDead), &AskPage{}, ""},
	{"/tasks/group", "group", 0, onTasks((*Console).taskGroup), &Group{}, "id"},
	{"/tasks/schedules", "taskschedules", 0, onTasks((*Console).schedules), &TaskSchedules{}, ""},
	{"/tasks/locks", "locks", 0, onTasks((*Console).locks), &Locks{}, "match after"},
}

var taskActions = []action{
	{"/tasks/queues/pause", "task.pause", Operator, nil, steer("queue", "/tasks", "Queue %s is paused: what runs goes on, nothing more of it begins.", (*task.Client).PauseQueue)},
	{"/tasks/queues/resume", "task.resume", Operator, nil, steer("queue", "/tasks", "Queue %s is resumed.", (*task.Client).ResumeQueue)},
	{"/tasks/queues/rate", "task.rate", Operator, nil, onTasks((*Console).setRate)},
	{"/tasks/queues/purge", "task.purge", Admin, asked("queue", "Purge the queue?", "All tasks that wait in queue %s now end as cancelled; those that run go on. Pause the queue before, so that no worker takes one meanwhile."), onTasks((*Console).purge)},
	{"/tasks/types/pause", "task.pausetype", Operator, nil, steer("name", "/tasks", "Type %s is paused: its tasks are delayed until it is resumed.", (*task.Client).PauseType)},
	{"/tasks/types/resume", "task.resumetype", Operator, nil, steer("name", "/tasks", "Type %s is resumed: what was delayed runs within a minute.", (*task.Client).ResumeType)},
	{"/tasks/one/run", "task.run", Operator, nil, steer("ref", "/tasks", "Task %s is due now.", runTask)},
	{"/tasks/one/cancel", "task.cancel", Operator, asked("ref", "Cancel the task?", "Task %s ends as cancelled. If it runs, its worker breaks it off; what it has done so far stays done."), onTasks((*Console).cancelTask)},
	{"/tasks/one/requeue", "task.requeue", Operator, nil, steer("ref", "/tasks/dead", "Task %s was requeued.", requeueTask)},
	{"/tasks/one/delete", "task.delete", Operator, asked("ref", "Delete the dead letter?", "The dead letter of task %s is deleted for good, with its arguments and errors."), steer("ref", "/tasks/dead", "The dead letter of task %s was deleted.", deleteLetter)},
	{"/tasks/dead/all/requeue", "task.requeueall", Admin, nil, allDead("%d dead letters were requeued.", task.RequeueAll)},
	{"/tasks/dead/all/delete", "task.deleteall", Admin, nil, allDead("%d dead letters were deleted.", task.DeleteAll)},
	{"/tasks/group/cancel", "task.cancelgroup", Operator, asked("id", "Cancel the group?", "All children of group %s that have not ended are cancelled: those that run are broken off. What follows is up to the policy of the group."), steer("id", "/tasks", "The children of group %s that have not ended are cancelled.", (*task.Client).CancelGroup)},
	{"/tasks/schedules/pause", "schedule.pause", Operator, nil, steer("name", "/tasks/schedules", "Schedule %s is paused: it does not fire until it is resumed.", (*task.Client).PauseSchedule)},
	{"/tasks/schedules/resume", "schedule.resume", Operator, nil, steer("name", "/tasks/schedules", "Schedule %s is resumed, from its next slot on.", (*task.Client).ResumeSchedule)},
	{"/tasks/schedules/run", "schedule.run", Operator, nil, steer("name", "/tasks/schedules", "Schedule %s submits a task now, or as soon as a scheduler runs.", runSchedule)},
}

// onTasks is a page or an action on the client of tasks. What the packages say of an error is shown.
func onTasks[T any](do func(*Console, context.Context, *task.Client, *http.Request) (T, error)) func(*Console, context.Context, *http.Request) (T, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (result T, err error) {
		client, err := c.tasks.get(ctx)
		if err == nil {
			result, err = do(c, ctx, client, r)
		}
		if err == nil || is[*problem](err) || is[*problem](away(err)) {
			return result, away(err)
		}
		p := &problem{http.StatusBadRequest, "Refused", clipped(err.Error(), valueShown) + ". Nothing more was done."}
		if errors.Is(err, task.ErrNotFound) || errors.Is(err, task.ErrNoSchedule) || errors.Is(err, lock.ErrNoLock) {
			p.status, p.Title = http.StatusNotFound, "It is not there"
		} else if is[*task.StateError](err) || is[*task.DuplicateError](err) || errors.Is(err, task.ErrUnreadable) {
			p.status, p.Title = http.StatusConflict, "Not possible now"
		}
		return result, p
	}
}

func is[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

// steer is an action on the one thing that a field of the form names; text says that it was done.
func steer[S ~string](field, back, text string, do func(*task.Client, context.Context, S) error) func(*Console, context.Context, *http.Request) (*Result, error) {
	return onTasks(func(_ *Console, ctx context.Context, client *task.Client, r *http.Request) (*Result, error) {
		name := r.PostForm.Get(field)
		if err := do(client, ctx, S(name)); err != nil {
			return nil, err
		}
		return done(name, localPath(cmp.Or(r.PostForm.Get("back"), back)), text, clipped(name, nameShown)), nil
	})
}

// asked is the question before an action on what a field of the form names.
func asked(field, question, text string) func(*http.Request) (string, string) {
	return func(r *http.Request) (string, string) {
		return question, fmt.Sprintf(text, clipped(r.PostForm.Get(field), errorShown))
	}
}

// Tasks are the queues, types and workers.
type Tasks struct {
	*Frame
	Queues  []TaskQueue       `json:"queues"`
	Waiting int64             `json:"waiting"`
	Running int64             `json:"running"`
	Delayed int64             `json:"delayed"` // the blocked included
	Blocked int64             `json:"blocked"`
	NextDue time.Time         `json:"next_due,omitzero"`
	Dead    int64             `json:"dead"`
	Types   []task.TypeInfo   `json:"types"`
	Workers []task.WorkerInfo `json:"workers"` // without Seen

	ShownTypes []task.TypeInfo `json:"-"` // those of this page of them

	pager // of the types
}

// TaskQueue is a queue: Oldest is when its oldest task came into it.
type TaskQueue struct {
	task.QueueStats
	Oldest time.Time `json:"oldest,omitzero"`
}

// Bounds of what the pages of tasks show; JSON has all but further pages of lists.
const (
	taskQueuesShown = 24
	typesShown      = 40
	taskRunsShown   = 25
	tasksShown      = 40
	lettersShown    = 25
	nameShown       = 80  // bytes of an id or a name
	errorShown      = 300 // bytes of an error
)

func (c *Console) tasksPage(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	o := &Tasks{Frame: c.newFrame("Tasks", "Tasks")}
	o.polled(r)
	var err error
	if o.pager, err = pagerOf(r); err != nil {
		return nil, err
	}
	s, err := client.Stats(ctx)
	if err != nil {
		return nil, err
	}
	if o.Workers, err = client.Workers(ctx); err != nil {
		return nil, err
	}
	config, err := client.Config(ctx)
	if is[*problem](away(err)) {
		return nil, err
	} else if err != nil {
		o.Notice = err.Error() // it cannot be read
	}
	o.Delayed, o.Blocked, o.NextDue, o.Dead = s.Delayed, s.Blocked, s.NextDue, s.Dead
	for _, q := range s.Queues {
		one := TaskQueue{QueueStats: q}
		if q.Oldest > 0 {
			one.Oldest = s.At.Add(-q.Oldest).UTC().Truncate(time.Millisecond)
			one.QueueStats.Oldest = 0 // an age changes while nothing happens
		}
		o.Waiting, o.Running = o.Waiting+q.Waiting, o.Running+q.Running
		o.Queues = append(o.Queues, one)
	}
	o.Types = task.Types(&s, o.Workers, config)
	for i := range o.Workers {
		o.Workers[i].Seen = time.Time{} // it changes while nothing happens
	}
	from, to := o.turn(len(o.Types), typesShown)
	o.ShownTypes = o.Types[from:to]
	return o, nil
}

// ShownQueues leaves out idle queues if there are too many.
func (o *Tasks) ShownQueues() []TaskQueue {
	if len(o.Queues) <= taskQueuesShown {
		return o.Queues
	}
	busy := slices.DeleteFunc(slices.Clone(o.Queues), func(q TaskQueue) bool { return q.Waiting+q.Running == 0 && !q.Paused && q.Rate == 0 })
	return busy[:min(len(busy), taskQueuesShown)]
}

// Runs are those that run longest.
func (o *Tasks) Runs() (all []workerRun) {
	for _, w := range o.Workers {
		for _, run := range w.Running {
			all = append(all, workerRun{run, w.ID})
		}
	}
	slices.SortStableFunc(all, func(a, b workerRun) int { return a.Started.Compare(b.Started) })
	return all[:min(len(all), taskRunsShown)]
}

type workerRun struct {
	task.RunInfo
	Worker string
}

// taskPath is the page of a task, by its id or reference, groupPath that of a group.
func taskPath(ref string) string { return "/tasks/one?ref=" + url.QueryEscape(ref) }
func groupPath(id string) string { return "/tasks/group?id=" + url.QueryEscape(id) }

// clipped is a text cut to bytes, for a table.
func clipped(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return shorten(text, bytes) + "…"
}

// taskTone is the class of the color of a state.
func taskTone(s task.State) string {
	switch s {
	case task.StateRunning:
		return "active"
	case task.StateDone:
		return "done"
	case task.StateDead:
		return "failed"
	case task.StateBlocked:
		return "waits"
	}
	return "calm"
}

func (c *Console) setRate(ctx context.Context, client *task.Client, r *http.Request) (*Result, error) {
	q, text := r.PostForm.Get("queue"), strings.TrimSpace(r.PostForm.Get("rate"))
	rate, err := strconv.ParseFloat(cmp.Or(text, "0"), 64)
	if err != nil {
		return nil, fmt.Errorf("rate is %q: must be tasks per second, as a number; 0 or nothing for no bound", clipped(text, nameShown))
	}
	if err := client.SetRate(ctx, task.Queue(q), rate); err != nil {
		return nil, err
	}
	if rate == 0 {
		return done(q, "/tasks", "Tasks of queue %s begin without a bound.", q), nil
	}
	return done(q, "/tasks", "At most %g tasks of queue %s begin in a second.", rate, q), nil
}

func (c *Console) purge(ctx context.Context, client *task.Client, r *http.Request) (*Result, error) {
	q := task.Queue(r.PostForm.Get("queue"))
	n, err := client.Purge(ctx, q, q)
	if err != nil && n > 0 {
		return partly(string(q), "/tasks", n, err), nil
	}
	return done(string(q), "/tasks", "%d waiting tasks of queue %s were cancelled.", n, q), err
}
