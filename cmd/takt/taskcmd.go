package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/task"
)

type taskCmd struct {
	List    taskListCmd    `cmd:"" looks:"" help:"List tasks that wait, run, are delayed, blocked or dead."`
	Show    taskShowCmd    `cmd:"" looks:"" help:"Show one task: state, arguments, history, result."`
	Submit  taskSubmitCmd  `cmd:"" help:"Submit a task by its name, with JSON arguments."`
	Run     taskRunCmd     `cmd:"" help:"Be a worker that runs a command for each task."`
	Retry   taskRetryCmd   `cmd:"" help:"Run a delayed or dead task now."`
	Cancel  taskCancelCmd  `cmd:"" help:"End tasks that wait, and break off tasks that run."`
	Dead    taskDeadCmd    `cmd:"" help:"Dead letters: list, show, requeue, delete."`
	Pause   taskPauseCmd   `cmd:"" help:"Pause a queue or a type of task, or bound a queue's rate."`
	Resume  taskResumeCmd  `cmd:"" help:"Resume what is paused."`
	Drain   taskDrainCmd   `cmd:"" looks:"" help:"Wait until a queue is empty."`
	Purge   taskPurgeCmd   `cmd:"" help:"Cancel all tasks that wait in a queue."`
	Config  taskConfigCmd  `cmd:"" help:"Limits, retries, timeouts and schedules of task types at run time."`
	Stats   taskStatsCmd   `cmd:"" looks:"" help:"Show queues, workers and counters."`
	Workers taskWorkersCmd `cmd:"" looks:"" help:"List workers: what they have handlers for, and what runs."`
	Watch   taskWatchCmd   `cmd:"" looks:"" help:"Follow tasks as they end."`
	Group   taskGroupCmd   `cmd:"" looks:"" help:"Show or cancel a group of tasks."`
	Check   taskCheckCmd   `cmd:"" looks:"" help:"List broken invariants of the stored tasks."`
}

type taskListCmd struct {
	State string `help:"Only this state: waiting, running, delayed, blocked or dead." enum:",waiting,running,delayed,blocked,dead" default:""`
	Queue queue  `help:"Only this queue, for example normal:medium." placeholder:"PRIORITY:SIZE"`
	Name  string `help:"Only tasks of this type."`
	Limit int    `help:"At most so many; 0 = all." must:"be 0 (all) or more" default:"100"`
	JSON  bool   `name:"json" help:"One JSON object per task."`
}

func (c *taskListCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	l := a.list(c.JSON, "STATE", "NAME", "TASK", "ATTEMPT", "AGE", "DETAIL")
	n := 0
	for one, err := range client.All(ctx, task.Filter{State: task.State(c.State), Queue: task.Queue(c.Queue), Name: c.Name}) {
		if err != nil {
			return err
		}
		if n++; c.Limit > 0 && n > c.Limit {
			defer a.moreThan(c.Limit)
			break
		}
		l.add(one, one.State, one.Name, one.Ref, one.Attempt, age(one.Enqueued), detail(&one))
	}
	return l.flush()
}

// moreThan says on standard error that a list is not whole.
func (a *app) moreThan(limit int) { printf(a.err, "takt: more than %d, see --limit\n", limit) }

func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return time.Since(since).Round(time.Second).String()
}

// detail is what matters most of a task in its state.
func detail(t *task.Task) string {
	switch {
	case t.Error != nil:
		return oneLine(t.Error.Error(), 80)
	case t.State == task.StateRunning:
		return "on " + t.Worker
	case !t.Due.IsZero():
		return "due " + instant(t.Due)
	case len(t.History) > 0:
		return "failed: " + oneLine(t.History[len(t.History)-1].Error, 70)
	}
	return ""
}

func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

type taskShowCmd struct {
	Task string `arg:"" help:"Task id, or QUEUE/ENTRY/ID as other commands print it, which is found at once."`
	JSON bool   `name:"json" help:"One JSON object."`
}

func (c *taskShowCmd) Run(ctx context.Context, a *app) error {
	ref, err := task.ParseRef(c.Task)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		var t shownTask
		var err error
		if t.Task, err = client.Find(ctx, ref); err == nil {
			t.Why, err = client.Why(ctx, &t.Task)
		}
		return show(a, err, c.JSON, &t, a.showTask)
	})
}

// shownTask is a task and why it does not run.
type shownTask struct {
	task.Task
	Why []task.Reason `json:"why,omitempty"`
}

func (a *app) showTask(t *shownTask) error {
	out := newFields(a.out)
	out.field("task", t.Ref.String())
	out.field("name", t.Name)
	out.field("state", string(t.State))
	for _, r := range t.Why {
		out.field("why", r.Text+" "+r.Next)
	}
	out.field("worker", t.Worker)
	out.field("attempt", t.Attempt)
	out.field("deliveries", t.Deliveries)
	out.field("arguments", string(t.Args))
	out.field("keyword arguments", string(t.Kwargs))
	out.field("group", t.Group)
	out.field("parent", t.Parent)
	out.field("unique key", t.Unique)
	for _, m := range t.Life() {
		text := m.Text
		if m.Error != "" {
			text += ": " + oneLine(m.Error, 200)
		}
		out.field(m.At.Local().Format(time.RFC3339Nano), text)
	}
	if t.Error != nil {
		out.field("error", oneLine(t.Error.Error(), 500))
	}
	out.field("result", string(t.Result))
	out.field("raw", t.Raw)
	if err := out.flush(); err != nil || t.Error == nil || t.Error.Traceback == "" {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\n%s\n", shownLines(t.Error.Traceback))
	return err
}

type taskSubmitCmd struct {
	Name     string            `arg:"" help:"Name of the task's type."`
	Args     string            `arg:"" optional:"" help:"The argument as JSON: an object with the members of a struct, {\"To\": ...}, or one value; an array is the list of arguments, which types with task.Positional() take." default:"[]"`
	Priority string            `help:"realtime, normal or background." default:"normal" enum:"realtime,normal,background"`
	Size     string            `help:"small, medium, large, or the name of a pool." default:"medium"`
	In       time.Duration     `help:"Start no earlier than so long from now." placeholder:"DURATION"`
	At       time.Time         `help:"Start no earlier than this time, RFC 3339." placeholder:"TIME"`
	Key      string            `help:"Idempotency key: under one key there is one task."`
	ID       string            `name:"id" help:"Id of the task; a second submission with it is answered with the first."`
	Unique   string            `help:"Refuse if a task with this unique key has not ended."`
	Label    map[string]string `help:"Labels, name=value." mapsep:","`
	Keep     time.Duration     `help:"How long the result is kept; 0 = as the worker's type says." placeholder:"DURATION"`
	Deadline time.Time         `help:"The task is dead if it has not ended then, RFC 3339." placeholder:"TIME"`
	Wait     bool              `short:"w" help:"Wait for the result, print it, and fail if the task does."`
	replicasFlags
	JSON bool `name:"json" help:"One JSON object."`
}

func (c *taskSubmitCmd) options() (opts []task.SubmitOption) {
	for _, o := range []struct {
		given  bool
		option task.SubmitOption
	}{
		{c.In > 0, task.In(c.In)},
		{!c.At.IsZero(), task.At(c.At)},
		{c.Key != "", task.Key(c.Key)},
		{c.ID != "", task.ID(c.ID)},
		{c.Unique != "", task.UniqueKey(c.Unique, 0)},
		{len(c.Label) > 0, task.WithLabels(c.Label)},
		{c.Keep > 0, task.Keep(c.Keep)},
		{c.Keep == 0 && c.Wait, task.Keep(time.Hour)},
		{!c.Deadline.IsZero(), task.Deadline(c.Deadline)},
	} {
		if o.given {
			opts = append(opts, o.option)
		}
	}
	return opts
}

// again is the flag under which the same submission is the same task.
func (c *taskSubmitCmd) again() string {
	if c.Key != "" {
		return "--key " + c.Key
	}
	return "--id " + c.ID
}

func (c *taskSubmitCmd) Run(ctx context.Context, a *app) error {
	if c.Key != "" && c.ID != "" || c.In != 0 && !c.At.IsZero() || c.In < 0 || c.Keep < 0 {
		return &exitError{exitUsage, errors.New("--key and --id, --in and --at exclude each other, and --in and --keep are no negative times")}
	}
	a.replicas = c.replicasFlags
	typ, err := task.DefineJSON(c.Name, task.Priority(c.Priority), task.Size(c.Size))
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if (c.RedisWait > 0 || c.RedisWaitDisk) && c.Key == "" && c.ID == "" {
		c.ID = uuid.NewString() // so that it can be repeated
	}
	if !json.Valid([]byte(c.Args)) {
		return &exitError{exitUsage, fmt.Errorf("arguments %q: no JSON; text needs its quotes: '\"text\"'", oneLine(c.Args, 60))}
	}
	traces, err := a.traces(ctx, "", a.log)
	if err != nil {
		return err
	}
	defer traces.Close()
	return with(ctx, a.openTasks, func(client *task.Client) error {
		span, end := traces.Start(fromEnvironment(ctx), "task.submit "+c.Name, trace.WithSpanKind(trace.SpanKindProducer))
		ref, existing, err := typ.Submit(span, client, json.RawMessage(c.Args), c.options()...)
		end(err)
		if is[*task.ReplicasError](err) {
			return &exitError{exitNoAnswer, fmt.Errorf("%w: repeat the command with %s, then it is one task", err, c.again())}
		}
		if err != nil {
			return err
		}
		if !c.Wait {
			return a.say(c.JSON, struct {
				task.Ref
				Existing bool `json:"existing"`
			}{ref, existing}, "%v\n", ref)
		}
		r, err := client.AwaitJSON(ctx, ref.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printJSON(a.out, struct {
				task.Ref
				Value json.RawMessage `json:"value,omitempty"`
				Error *task.Error     `json:"error,omitempty"`
				Took  float64         `json:"took_ms"`
			}{ref, r.Value, r.Err, r.Duration.Seconds() * 1000})
		} else if r.Err == nil {
			_, err = fmt.Fprintln(a.out, string(r.Value))
		}
		if r.Err != nil {
			return &exitError{exitFailed, errors.Join(r.Err, err)}
		}
		return err
	})
}

type taskRetryCmd struct {
	Tasks []string `arg:"" name:"task" help:"Task ids, or QUEUE/ENTRY/ID."`
	JSON  bool     `name:"json" help:"One JSON object per task: id and outcome, due or requeued."`
}

func (c *taskRetryCmd) Run(ctx context.Context, a *app) error {
	return a.eachTask(ctx, c.Tasks, c.JSON, func(client *task.Client, ref task.Ref) (string, error) {
		t, err := client.Find(ctx, ref)
		if err != nil {
			return "", err
		}
		if t.State == task.StateDead {
			_, err := client.DeadLetters().Requeue(ctx, t.ID)
			return "requeued", err
		}
		return "due", client.RunNow(ctx, t.Ref)
	})
}

type taskCancelCmd struct {
	Tasks []string `arg:"" name:"task" help:"Task ids, or QUEUE/ENTRY/ID."`
	JSON  bool     `name:"json" help:"One JSON object per task: id and outcome, cancelled, told (its worker ends it) or ended (too late)."`
}

func (c *taskCancelCmd) Run(ctx context.Context, a *app) error {
	return a.eachTask(ctx, c.Tasks, c.JSON, func(client *task.Client, ref task.Ref) (string, error) {
		outcome, err := client.Cancel(ctx, ref)
		return string(outcome), err
	})
}

// changed is what was done to one thing, as JSON.
type changed struct {
	ID      string `json:"id,omitempty"`   // of a task
	Name    string `json:"name,omitempty"` // of a schedule
	Outcome string `json:"outcome"`
}

// eachTask does something with each task that is named, prints what was done, and goes on after an error.
func (a *app) eachTask(ctx context.Context, tasks []string, asJSON bool, do func(*task.Client, task.Ref) (string, error)) error {
	refs := make([]task.Ref, len(tasks))
	for i, text := range tasks {
		var err error
		if refs[i], err = task.ParseRef(text); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		var errs []error
		for i, ref := range refs {
			done, err := do(client, ref)
			if err != nil {
				err = fmt.Errorf("%s: %w", tasks[i], err)
			} else {
				err = a.say(asJSON, changed{ID: ref.ID, Outcome: done}, "%s: %s\n", tasks[i], done)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}
