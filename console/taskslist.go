package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/taktworks/takt/task"
)

// TaskList is a part of a list of tasks, or of dead letters.
type TaskList struct {
	*Frame
	State   string            `json:"state,omitempty"` // of the filter, as the next
	Queue   string            `json:"queue,omitempty"`
	Type    string            `json:"type,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Tasks   []task.Task       `json:"tasks,omitempty"` // without arguments of more than valueShown bytes, as the next
	Letters []task.DeadLetter `json:"letters,omitempty"`
	Total   int64             `json:"total,omitempty"` // dead letters, whatever the filter
	cursor
}

func (c *Console) newList(title string, r *http.Request) *TaskList {
	q := r.URL.Query()
	return &TaskList{Frame: c.newFrame(title, "Tasks"), State: q.Get("state"), Queue: q.Get("queue"), Type: q.Get("type"), Reason: q.Get("error"), cursor: cursorOf(r, "after", "state", "queue", "type", "error")}
}

func (c *Console) taskList(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	o := c.newList("List of tasks", r)
	o.Ticks = true // it may read thousands of messages: not each second
	list, err := client.List(ctx, task.Filter{State: task.State(o.State), Queue: task.Queue(o.Queue), Name: o.Type, Limit: tasksShown, After: r.FormValue("after")})
	o.Tasks, o.Next = list.Tasks, list.Next
	for i := range o.Tasks {
		lighten(&o.Tasks[i])
	}
	return o, err
}

// lighten leaves out what a list does not show and may be large.
func lighten(t *task.Task) {
	if len(t.Args)+len(t.Kwargs)+len(t.Raw) > valueShown {
		t.Args, t.Kwargs, t.Raw = nil, nil, ""
	}
}

// States are those of a list, to choose from; Queues those of the built-in sizes.
func (o *TaskList) States() []task.State {
	return []task.State{task.StateWaiting, task.StateRunning, task.StateDelayed, task.StateBlocked, task.StateDead}
}
func (o *TaskList) Queues() (all []string) {
	for _, p := range task.Priorities() {
		for _, size := range task.Sizes() {
			all = append(all, fmt.Sprintf("%s:%s", p, size))
		}
	}
	return all
}

// All is the address of the question whether to requeue or delete all that the filter means.
func (o *TaskList) All(what string) string { return o.Path + "/all/" + what + query(o.filter) }

func deadFilter(q url.Values) task.DeadFilter {
	return task.DeadFilter{Name: q.Get("type"), Reason: q.Get("error"), Queue: task.Queue(q.Get("queue"))}
}

func (c *Console) deadList(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	o := c.newList("Dead letters", r)
	o.polled(r)
	f := deadFilter(r.URL.Query())
	f.After, f.Limit = r.FormValue("after"), lettersShown
	list, err := client.DeadLetters().List(ctx, f)
	if err != nil {
		return nil, err
	}
	o.Letters, o.Next = list.Letters, list.Next
	o.Total, err = client.DeadLetters().Count(ctx)
	for i := range o.Letters {
		lighten(&o.Letters[i].Task)
	}
	return o, err
}

// askDead is the question before all letters of a filter are requeued or deleted: it says how many there are.
func (c *Console) askDead(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	l := c.newList("All dead letters", r)
	f := deadFilter(r.URL.Query())
	f.Limit = 500
	list, err := client.DeadLetters().List(ctx, f)
	if err != nil {
		return nil, err
	}
	text := "Dead letters that get another life, with fresh attempts: "
	if path.Base(r.URL.Path) == "delete" {
		text = "Dead letters that are deleted for good, with their arguments and errors: "
	}
	if list.Next != "" {
		text += "at least "
	}
	text += fmt.Sprint(len(list.Letters))
	for _, name := range []string{"type", "error", "queue"} {
		if l.filter.Has(name) {
			text += fmt.Sprintf(", %s %s", name, clipped(l.filter.Get(name), nameShown))
		}
	}
	return &AskPage{Frame: l.Frame, Question: "Do this to all of them?", Text: text + ".", Action: r.URL.Path, Form: l.filter, Back: "/tasks/dead"}, nil
}

// allDead does something with all letters of a filter.
func allDead(text string, do func(context.Context, task.DeadLetters, task.DeadFilter) (int, error)) func(*Console, context.Context, *http.Request) (*Result, error) {
	return onTasks(func(_ *Console, ctx context.Context, client *task.Client, r *http.Request) (*Result, error) {
		if r.PostForm.Get("sure") != "yes" {
			return nil, fmt.Errorf("sure is %q: must be yes, for this concerns all dead letters of the filter", clipped(r.PostForm.Get("sure"), nameShown))
		}
		n, err := do(ctx, client.DeadLetters(), deadFilter(r.PostForm))
		if err != nil && n > 0 {
			return partly(objectOf(r), "/tasks/dead", n, err), nil
		}
		return done(objectOf(r), "/tasks/dead", text, n), err
	})
}

func requeueTask(client *task.Client, ctx context.Context, id string) error {
	_, err := client.DeadLetters().Requeue(ctx, id)
	return err
}

func deleteLetter(client *task.Client, ctx context.Context, id string) error {
	n, err := client.DeadLetters().Delete(ctx, id)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: no dead letter of %s", task.ErrNotFound, id)
	}
	return err
}
