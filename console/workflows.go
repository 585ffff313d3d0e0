package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

var workflowPages = []page{
	{"/workflows", "workflows", 0, (*Console).workflowList, &Workflows{}, "id name state queue attribute after"},
	{"/workflows/schedules", "schedules", 0, (*Console).workflowSchedules, &Schedules{}, ""},
	{"/workflows/{id}", "workflow", 0, (*Console).workflow, &OneWorkflow{}, "execution"},
}

var workflowActions = []action{
	{"/workflows/{id}/signal", "workflow.signal", Operator, nil, onInstance("The signal is in its inbox.", sendSignal)},
	{"/workflows/{id}/pause", "workflow.pause", Operator, nil, onNamed("id", "It is paused: a task that runs is completed, what comes then waits.", (*workflow.Client).Pause)},
	{"/workflows/{id}/resume", "workflow.resume", Operator, nil, onNamed("id", "It may run again.", (*workflow.Client).Resume)},
	{"/workflows/{id}/cancel", "workflow.cancel", Operator, askID("Cancel %s?", "It is asked to end; its code decides how. This cannot be taken back."), onInstance("It is asked to end.", cancelInstance)},
	{"/workflows/{id}/terminate", "workflow.terminate", Admin, askID("Terminate %s?", "It ends at once and its code has no say in it: nothing is compensated, and what its activities do now is lost. This cannot be taken back."), onInstance("It is terminated.", terminateInstance)},
	{"/workflows/{id}/remove", "workflow.remove", Admin, askID("Remove %s?", "The execution is deleted with its history. This cannot be taken back."), onInstance("It is removed, with its history.", removeInstance)},
	{"/workflows/queues/pause", "workflow.queue.pause", Operator, nil, onNamed("queue", "No worker takes anything more from queue %s.", (*workflow.Client).PauseQueue)},
	{"/workflows/queues/resume", "workflow.queue.resume", Operator, nil, onNamed("queue", "Workers take from queue %s again.", (*workflow.Client).ResumeQueue)},
	{"/workflows/schedules/pause", "workflow.schedule.pause", Operator, nil, onNamed("schedule", "Schedule %s is paused: slots that pass are dropped.", (*workflow.Client).PauseSchedule)},
	{"/workflows/schedules/resume", "workflow.schedule.resume", Operator, nil, onNamed("schedule", "Schedule %s goes on with its next slot.", (*workflow.Client).ResumeSchedule)},
	{"/workflows/schedules/run", "workflow.schedule.run", Operator, nil, onNamed("schedule", "What schedule %s starts was started.", runWorkflowSchedule)},
}

// instancePath is the page of an execution; of the newest one of its instance if it names none.
func instancePath(i workflow.Instance) string {
	path := below("/workflows", i.ID)
	if i.Execution == "" {
		return path
	}
	return path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "execution=" + url.QueryEscape(i.Execution)
}

// noWorkflow says what an error of package workflow means for a page or an action.
func noWorkflow(err error) error {
	switch {
	case is[*workflow.NameError](err), is[*workflow.EventError](err):
		return refusal(err)
	case errors.Is(err, workflow.ErrNotFound):
		return &problem{http.StatusNotFound, "Not there", err.Error() + ". It was never started, it has ended, or it was removed. The list has those that are there."}
	case errors.Is(err, workflow.ErrNotFinished), errors.Is(err, workflow.ErrExists):
		return &problem{http.StatusConflict, "Refused", err.Error()}
	}
	return away(err)
}

// Workflows is a page of the executions of workflows, the newest first, with what all of them together do.
type Workflows struct {
	*Frame
	Filter    map[string]string `json:"filter"` // query parameters that are given, but for after
	Counts    workflow.Stats    `json:"counts"`
	Paused    []string          `json:"paused_queues"`
	Instances []OneInstance     `json:"instances"`
	Looked    int               `json:"looked_at"`       // executions that were compared with the filter
	More      string            `json:"after,omitempty"` // parameter of the next page; "" = this is the last

	After  string                `json:"-"` // parameter of this page
	Queues []workflow.QueueStats `json:"-"` // at most queuesShown
}

// OneInstance is an execution for lists and pages.
type OneInstance struct{ workflow.Info }

// Standing is how it stands, in a word.
func (i OneInstance) Standing() string {
	return strings.ReplaceAll(cmp.Or(string(i.Outcome), string(i.State)), "_", " ")
}

// Tone is the class of the color of its standing.
func (i OneInstance) Tone() string {
	return cmp.Or(map[string]string{"active": "active", "completed": "done", "failed": "failed", "canceled": "waits", "terminated": "waits"}[i.Standing()], "calm")
}

// Path is its page.
func (i OneInstance) Path() string { return instancePath(i.Instance) }

// Took is how long it has taken until a time, or took until its end.
func (i OneInstance) Took(now time.Time) string {
	if i.Ended != nil {
		return lasted(i.Created, *i.Ended)
	}
	return ago(i.Created, now)
}

// AttributeLine has those to search for.
func (i OneInstance) AttributeLine() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(i.Attributes)) {
		all = append(all, name+"="+i.Attributes[name])
	}
	return strings.Join(all, ", ")
}

// Bounds of a page of executions: JSON has all queues.
const (
	lookedAt    = 1000 // executions that it compares with its filter: 1,000 documents are eight commands
	queuesShown = 30
)

func (c *Console) workflowList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Workflows{Frame: c.newFrame("Workflows", "Workflows"), Filter: map[string]string{}, Paused: []string{}, Instances: []OneInstance{}, After: r.FormValue("after")}
	for _, name := range []string{"id", "name", "state", "queue", "attribute"} {
		if value := r.FormValue(name); value != "" {
			o.Filter[name] = value
		}
	}
	match, from, err := o.read()
	if err != nil {
		return nil, err
	}
	client, err := c.workflows.get(ctx)
	if err != nil {
		return nil, err
	}
	o.polled(r)
	if o.Counts, err = client.Stats(ctx); err != nil {
		return nil, away(err)
	}
	paused, err := client.PausedQueues(ctx)
	if err != nil {
		return nil, away(err)
	}
	o.Paused = append(o.Paused, paused...)
	queues := o.Counts.Queues(paused)
	o.Queues = queues[:min(len(queues), queuesShown)]
	var last workflow.Instance
	for i, err := range client.All(ctx, from) {
		if err != nil {
			return nil, noWorkflow(err)
		}
		if o.Looked == lookedAt || len(o.Instances) == perPage {
			o.More = last.String()
			break
		}
		o.Looked++
		last = i.Instance
		if match.Match(i) {
			o.Instances = append(o.Instances, OneInstance{i})
		}
	}
	return o, nil
}

// read is the filter in the words of package workflow: what has to match, and where the page begins.
func (o *Workflows) read() (match, from workflow.Filter, err error) {
	bad := func(field, rule string) (workflow.Filter, workflow.Filter, error) {
		return match, from, refusal(fmt.Errorf("%s is %q: must be %s", field, cmp.Or(o.Filter[field], o.After), rule))
	}
	match = workflow.Filter{ID: o.Filter["id"], Name: o.Filter["name"], Queue: o.Filter["queue"]}
	switch state := o.Filter["state"]; state {
	case "":
	case string(workflow.Active), string(workflow.ContinuedAsNew):
		match.State = workflow.State(state)
	case string(workflow.Completed), string(workflow.Failed), string(workflow.Canceled), string(workflow.Terminated):
		match.Outcome = workflow.Outcome(state)
	default:
		return bad("state", "active, completed, failed, canceled, terminated or continued_as_new")
	}
	if attribute := o.Filter["attribute"]; attribute != "" {
		name, value, ok := strings.Cut(attribute, "=")
		if !ok {
			return bad("attribute", "NAME=VALUE")
		}
		match.Attributes = map[string]string{name: value}
	}
	if match.State == workflow.Active {
		from.State = workflow.Active
	}
	if o.After != "" {
		if from.After = workflow.ParseInstance(o.After); from.After.ID == "" || from.After.Execution == "" {
			return bad("after", "ID:EXECUTION")
		}
	}
	return match, from, nil
}

// Link is the address of the list with another filter: a name and a value.
func (o *Workflows) Link(name, value string) string {
	q := url.Values{name: {value}}
	for name, value := range o.Filter {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	return "/workflows" + query(q)
}

// OneWorkflow is all that is known of one execution.
type OneWorkflow struct {
	*Frame
	OneInstance `json:"-"`
	*workflowhistory.History
	Children []OneInstance `json:"children"` // the last ones, as far as they are still kept

	Drawn template.HTML           `json:"-"` // the timeline
	Left  bool                    `json:"-"` // something of it is not drawn
	Past  []workflowhistory.Entry `json:"-"` // the newest first
	Key   string                  `json:"-"` // of the next signal
}

// Bounds of what the page of an execution reads and shows.
const (
	eventsRead    = 400
	eventsShown   = 50
	childrenShown = 50 // and open activities, and timers
	spansDrawn    = 50
	nameBrief     = 48 // bytes of a name in the timeline
)

func (c *Console) workflow(ctx context.Context, r *http.Request) (shown, error) {
	client, err := c.workflows.get(ctx)
	if err != nil {
		return nil, err
	}
	h, err := workflowhistory.Read(ctx, client, workflow.Instance{ID: idOf(r), Execution: r.FormValue("execution")}, eventsRead)
	if err != nil {
		return nil, noWorkflow(err)
	}
	o := &OneWorkflow{Frame: c.newFrame(idOf(r), "Workflows"), OneInstance: OneInstance{h.Detail.Info}, History: h, Children: []OneInstance{}, Key: rand.Text()}
	children := workflow.Children(h.Last)
	infos, err := client.Infos(ctx, children[max(0, len(children)-childrenShown):])
	o.note(err)
	for _, i := range infos {
		o.Children = append(o.Children, OneInstance{i})
	}
	bars := h.Bars(spansDrawn, instancePath)
	for i := range bars {
		bars[i].Lane, bars[i].Name = clipped(bars[i].Lane, nameBrief), clipped(bars[i].Name, nameBrief)
	}
	o.Drawn = template.HTML(chart.GanttFragment(bars, "")) // package chart escapes all texts
	o.Left = len(h.Timeline) > spansDrawn || h.Earlier > 0
	o.Past = slices.Clone(h.Lines[max(0, len(h.Lines)-eventsShown):])
	slices.Reverse(o.Past)
	h.Detail.Now = time.Time{} // it is another one at each look
	o.polled(r)
	o.Ticks = o.Active()
	return o, nil
}

// Active tells whether it has not ended.
func (o *OneWorkflow) Active() bool { return o.State == workflow.Active }

// Executions is the list of the executions of the same instance.
func (o *OneWorkflow) Executions() string { return "/workflows?id=" + url.QueryEscape(o.ID) }

// Schedules are those that start workflows.
type Schedules struct {
	*Frame
	pager
	Schedules []OneSchedule `json:"schedules"`
}

// OneSchedule is a schedule and its next slots.
type OneSchedule struct {
	workflow.Schedule
	Slots []time.Time `json:"slots"`
}

// Tone is the class of the color of its standing.
func (s *OneSchedule) Tone() string {
	return map[string]string{"broken": "failed", "refused": "failed", "paused": "waits", "active": "active", "starting": "active", "finished": "calm"}[s.Standing()]
}

// LastPath is the page of what it started last; "" if it started nothing.
func (s *OneSchedule) LastPath() string {
	if s.Started.IsZero() {
		return ""
	}
	return instancePath(workflow.Instance{ID: s.Instance(s.Started).ID})
}

const slotsShown = 3

func (c *Console) workflowSchedules(ctx context.Context, r *http.Request) (shown, error) {
	o := &Schedules{Frame: c.newFrame("Schedules of workflows", "Workflows"), Schedules: []OneSchedule{}}
	var err error
	if o.pager, err = pagerOf(r); err != nil {
		return nil, err
	}
	client, err := c.workflows.get(ctx)
	if err != nil {
		return nil, err
	}
	all, err := client.Schedules(ctx)
	if err != nil {
		return nil, away(err)
	}
	o.polled(r)
	for _, s := range pageOf(&o.pager, all) {
		o.Schedules = append(o.Schedules, OneSchedule{s, s.Upcoming(slotsShown)})
	}
	return o, nil
}

// sendSignal gives an instance a signal as programs with the usual converter wait for it.
func sendSignal(ctx context.Context, c *workflow.Client, i workflow.Instance, form url.Values) error {
	name, key, arg := form.Get("name"), cmp.Or(form.Get("key"), rand.Text()), cmp.Or(strings.TrimSpace(form.Get("arg")), "null")
	switch {
	case name == "" || len(name) > 128:
		return refusal(fmt.Errorf("name has %d bytes: must be the name of the signal, 1 to 128 bytes", len(name)))
	case len(key) > 128:
		return refusal(fmt.Errorf("key has %d bytes: must be at most 128", len(key)))
	case !json.Valid([]byte(arg)):
		return refusal(fmt.Errorf("arg is %q: must be JSON; text needs its quotes", clipped(arg, 100)))
	}
	return c.Signal(ctx, i.ID, workflow.SignalEvent(key, name, []byte(arg)))
}

func cancelInstance(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
	return c.Cancel(ctx, i, workflow.CancelEvent(rand.Text()))
}

func terminateInstance(ctx context.Context, c *workflow.Client, i workflow.Instance, form url.Values) error {
	reason := cmp.Or(form.Get("reason"), "terminated in the console")
	if len(reason) > 1024 {
		return refusal(fmt.Errorf("reason has %d bytes: must be at most 1024", len(reason)))
	}
	return c.Terminate(ctx, i, reason)
}

func removeInstance(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
	return c.Remove(ctx, i)
}

func runWorkflowSchedule(c *workflow.Client, ctx context.Context, name string) error {
	_, err := c.RunSchedule(ctx, name)
	return err
}

// onInstance changes the execution that a request names.
func onInstance(said string, change func(context.Context, *workflow.Client, workflow.Instance, url.Values) error) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		i := workflow.Instance{ID: idOf(r), Execution: r.PostForm.Get("execution")}
		return c.changeWorkflows(ctx, r, i.ID, instancePath(i), said, func(client *workflow.Client) error { return change(ctx, client, i, r.PostForm) })
	}
}

// onNamed changes the instance, queue or schedule that the field of a form names.
func onNamed(field, said string, change func(*workflow.Client, context.Context, string) error) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		name, back := r.PostForm.Get(field), "/workflows"
		switch field {
		case "id":
			name = idOf(r)
			back = below(back, name)
		case "schedule":
			back += "/schedules"
		}
		return c.changeWorkflows(ctx, r, name, back, said, func(client *workflow.Client) error { return change(client, ctx, name) })
	}
}

// changeWorkflows makes a change and says so, with the name of what it concerns in the place of %s.
func (c *Console) changeWorkflows(ctx context.Context, r *http.Request, name, back, said string, change func(*workflow.Client) error) (*Result, error) {
	client, err := c.workflows.get(ctx)
	if err != nil {
		return nil, err
	}
	if err := noWorkflow(change(client)); err != nil {
		return nil, unknown(err)
	}
	return done(name, localPath(cmp.Or(r.PostForm.Get("back"), back)), "%s", strings.ReplaceAll(said, "%s", name)), nil
}

// unknown says of an action that it may have been carried out although Redis did not say so.
func unknown(err error) error {
	if p, ok := errors.AsType[*problem](err); ok && p.status == http.StatusServiceUnavailable || jobstore.Waits(err) {
		return &problem{http.StatusServiceUnavailable, "Redis does not answer", "Whether it was done is unknown, for Redis did not answer. Look at it again once Redis does, and repeat it then."}
	}
	return err
}
