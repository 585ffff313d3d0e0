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

	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/workflow"
)

var workflowPages = []page{
	{"/workflows", "workflows", 0, (*Console).workflowList, &Workflows{}, "id name state queue attribute after"},
	{"/workflows/schedules", "schedules", 0, (*Console).workflowSchedules, &Schedules{}, ""},
	{"/workflows/{id}", "workflow", 0, (*Console).workflow, &OneWorkflow{}, "execution"},
}

var workflowActions = []action{
	{"/workflows/{id}/signal", "workflow.signal", Operator, nil, onInstance("The signal is in its inbox.", sendSignal)},
	{"/workflows/{id}/pause", "workflow.pause", Operator, nil, onInstance("It is paused: a task that runs is completed, what comes then waits.", func(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
		return c.Pause(ctx, i.ID)
	})},
	{"/workflows/{id}/resume", "workflow.resume", Operator, nil, onInstance("It may run again.", func(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
		return c.Resume(ctx, i.ID)
	})},
	{"/workflows/{id}/cancel", "workflow.cancel", Operator, askInstance("Cancel", "It is asked to end; its code decides how. This cannot be taken back."), onInstance("It is asked to end.", cancelInstance)},
	{"/workflows/{id}/terminate", "workflow.terminate", Admin, askInstance("Terminate", "It ends at once and its code has no say in it: nothing is compensated, and what its activities do now is lost. This cannot be taken back."), onInstance("It is terminated.", func(ctx context.Context, c *workflow.Client, i workflow.Instance, form url.Values) error {
		return c.Terminate(ctx, i, cmp.Or(limited(form.Get("reason"), 1024), "terminated in the console"))
	})},
	{"/workflows/{id}/remove", "workflow.remove", Admin, askInstance("Remove", "The execution is deleted with its history. This cannot be taken back."), onInstance("It is removed, with its history.", func(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
		return c.Remove(ctx, i)
	})},
	{"/workflows/queues/pause", "workflow.queue.pause", Operator, nil, onNamed("queue", "No worker takes anything more from queue %s.", (*workflow.Client).PauseQueue)},
	{"/workflows/queues/resume", "workflow.queue.resume", Operator, nil, onNamed("queue", "Workers take from queue %s again.", (*workflow.Client).ResumeQueue)},
	{"/workflows/schedules/pause", "workflow.schedule.pause", Operator, nil, onNamed("schedule", "Schedule %s is paused: slots that pass are dropped.", (*workflow.Client).PauseSchedule)},
	{"/workflows/schedules/resume", "workflow.schedule.resume", Operator, nil, onNamed("schedule", "Schedule %s goes on with its next slot.", (*workflow.Client).ResumeSchedule)},
	{"/workflows/schedules/run", "workflow.schedule.run", Operator, nil, onNamed("schedule", "What schedule %s starts was started.", func(c *workflow.Client, ctx context.Context, name string) error {
		_, err := c.RunSchedule(ctx, name)
		return err
	})},
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
	_, badName := errors.AsType[*workflow.NameError](err)
	_, badEvent := errors.AsType[*workflow.EventError](err)
	switch {
	case badName || badEvent:
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
	Filter    InstanceFilter `json:"filter"`
	Counts    workflow.Stats `json:"counts"`
	Paused    []string       `json:"paused_queues"`
	Instances []OneInstance  `json:"instances"`
	Looked    int            `json:"looked_at"`       // executions that were compared with the filter
	More      string         `json:"after,omitempty"` // parameter of the next page; "" = this is the last

	Queues []Queue `json:"-"`
}

// InstanceFilter says which executions are listed: query parameters of these names.
type InstanceFilter struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`      // of the workflow
	State     string `json:"state,omitempty"`     // active, continued_as_new, or an outcome
	Queue     string `json:"queue,omitempty"`     //
	Attribute string `json:"attribute,omitempty"` // NAME=VALUE
	After     string `json:"after,omitempty"`     // ID:EXECUTION of the last one of the page before
}

// Queue is a queue of workflow tasks and activities.
type Queue struct {
	Name                        string
	Workflows, Activities, Held int64
	Paused                      bool
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
		now = *i.Ended
	}
	return ago(i.Created, now)
}

// Label and Kind are what a list calls the instance and its workflow.
func (i OneInstance) Label() string { return brief(i.ID, 64) }
func (i OneInstance) Kind() string  { return brief(i.Name, 64) }

// AttributeLine has those to search for.
func (i OneInstance) AttributeLine() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(i.Attributes)) {
		all = append(all, name+"="+i.Attributes[name])
	}
	return brief(strings.Join(all, ", "), 80)
}

// lookedAt is how many executions one page compares with its filter: 1,000 documents are eight commands.
const lookedAt = 1000

func (c *Console) workflowList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Workflows{Frame: c.newFrame("Workflows", "Workflows"), Paused: []string{}, Instances: []OneInstance{}}
	o.Filter = InstanceFilter{r.FormValue("id"), r.FormValue("name"), r.FormValue("state"), r.FormValue("queue"), r.FormValue("attribute"), r.FormValue("after")}
	match, from, err := o.Filter.read()
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
	o.Queues = queuesOf(&o.Counts, o.Paused)
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

// read is a filter in the words of package workflow: what has to match, and where the page begins.
func (f *InstanceFilter) read() (match, from workflow.Filter, err error) {
	match = workflow.Filter{ID: f.ID, Name: f.Name, Queue: f.Queue}
	switch f.State {
	case "":
	case string(workflow.Active), string(workflow.ContinuedAsNew):
		match.State = workflow.State(f.State)
	case string(workflow.Completed), string(workflow.Failed), string(workflow.Canceled), string(workflow.Terminated):
		match.Outcome = workflow.Outcome(f.State)
	default:
		return match, from, &problem{http.StatusBadRequest, "No such state", fmt.Sprintf("state is %q: must be active, completed, failed, canceled, terminated or continued_as_new", f.State)}
	}
	if f.Attribute != "" {
		name, value, ok := strings.Cut(f.Attribute, "=")
		if !ok {
			return match, from, &problem{http.StatusBadRequest, "No attribute", fmt.Sprintf("attribute is %q: must be NAME=VALUE", f.Attribute)}
		}
		match.Attributes = map[string]string{name: value}
	}
	if match.State == workflow.Active {
		from.State = workflow.Active
	}
	if f.After != "" {
		at := strings.LastIndexByte(f.After, ':')
		if at < 1 {
			return match, from, &problem{http.StatusBadRequest, "No such execution", fmt.Sprintf("after is %q: must be ID:EXECUTION", f.After)}
		}
		from.After = workflow.Instance{ID: f.After[:at], Execution: f.After[at+1:]}
	}
	return match, from, nil
}

// queuesShown is how many queues the page lists; JSON has all.
const queuesShown = 30

func queuesOf(st *workflow.Stats, paused []string) (all []Queue) {
	names := make(map[string]bool)
	for _, of := range []map[string]int64{st.Workflows, st.Activities, st.Held} {
		for name := range of {
			names[name] = true
		}
	}
	for _, name := range paused {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, Queue{name, st.Workflows[name], st.Activities[name], st.Held[name], slices.Contains(paused, name)})
	}
	return all[:min(len(all), queuesShown)]
}

// States are those that the filter knows.
func (*Workflows) States() []string {
	return []string{"active", "completed", "failed", "canceled", "terminated", "continued_as_new"}
}

// Filtered tells whether the filter leaves executions out.
func (o *Workflows) Filtered() bool {
	f := o.Filter
	f.After = ""
	return f != (InstanceFilter{})
}

// Link is the address of the list with another filter: a name and a value.
func (o *Workflows) Link(name, value string) string {
	q := url.Values{"id": {o.Filter.ID}, "name": {o.Filter.Name}, "state": {o.Filter.State}, "queue": {o.Filter.Queue}, "attribute": {o.Filter.Attribute}}
	q.Set(name, value)
	return "/workflows" + query(q)
}

// OneWorkflow is all that is known of one execution.
type OneWorkflow struct {
	*Frame
	OneInstance `json:"-"`
	Detail      struct {
		workflow.Detail
		Now *time.Time `json:"now,omitempty"` // in the place of that of Detail, which is another one at each look
	} `json:"execution"`
	Waits    string           `json:"waits_for,omitempty"`
	Children []OneInstance    `json:"children"` // the last ones, as far as they are still kept
	Next     string           `json:"continued_as,omitempty"`
	Timeline []Span           `json:"timeline"`      // of these events
	Earlier  int64            `json:"events_before"` // that are not in History
	History  []workflow.Event `json:"history"`       // the last ones
	Drawn    template.HTML    `json:"-"`             //
	Left     int              `json:"-"`             // spans that are not drawn
	Past     []Happened       `json:"-"`             // the newest first
	Key      string           `json:"-"`             // of the next signal
	Metadata string           `json:"-"`             //
	Came     string           `json:"-"`             // of it: the result, or the error
}

// Bounds of what the page of an execution reads and shows.
const (
	eventsRead  = 400
	eventsShown = 50
	openShown   = 50
)

func (c *Console) workflow(ctx context.Context, r *http.Request) (shown, error) {
	client, err := c.workflows.get(ctx)
	if err != nil {
		return nil, err
	}
	o := &OneWorkflow{Frame: c.newFrame(idOf(r), "Workflows"), Key: rand.Text(), Children: []OneInstance{}, History: []workflow.Event{}, Timeline: []Span{}}
	if o.Detail.Detail, err = client.Detail(ctx, workflow.Instance{ID: idOf(r), Execution: r.FormValue("execution")}); err != nil {
		return nil, noWorkflow(err)
	}
	d := &o.Detail.Detail
	o.OneInstance = OneInstance{d.Info}
	o.Waits = d.Standing()
	if text := string(d.Metadata); text != "{}" {
		o.Metadata = cut(text)
	}
	o.Earlier = max(0, d.LastSequence-eventsRead)
	history, err := client.History(ctx, d.Instance, o.Earlier)
	if err != nil {
		return nil, noWorkflow(err)
	}
	o.History = append(o.History, history...)
	children := workflow.Children(history)
	if infos, err := client.Infos(ctx, children[max(0, len(children)-openShown):]); err == nil {
		for _, i := range infos {
			o.Children = append(o.Children, OneInstance{i})
		}
	} else {
		o.note(err)
	}
	spans := append(o.Timeline, spansOf(history, &d.Info)...)
	o.Timeline = spans
	o.Drawn, o.Left = drawSpans(spans, &d.Info, d.Now)
	o.Past = pastOf(history)
	if len(o.Past) > 0 && d.State == workflow.Finished {
		o.Came = o.Past[0].Text
	}
	if d.State == workflow.ContinuedAsNew {
		for _, e := range history {
			o.Next = cmp.Or(readData(&e).Continued, o.Next)
		}
	}
	o.polled(r)
	o.Ticks = d.State == workflow.Active
	return o, nil
}

// Active tells whether it has not ended.
func (o *OneWorkflow) Active() bool { return o.State == workflow.Active }

// Open are the open activities and timers that the page shows.
func (o *OneWorkflow) Open() (all []Happened) {
	for _, a := range o.Detail.Activities[:min(len(o.Detail.Activities), openShown)] {
		h := happened(&a.Event)
		h.Ref, h.Place = a.Ref, fmt.Sprintf("%s in queue %s", a.Place, a.Queue)
		if a.Worker != "" {
			h.Place = "runs on " + a.Worker
		}
		all = append(all, h)
	}
	for _, t := range o.Detail.Timers[:min(len(o.Detail.Timers), openShown)] {
		h := happened(&t.Event)
		h.Ref, h.Place, h.Text = t.Ref, "due at "+t.At.UTC().Format("2006-01-02 15:04:05"), ""
		all = append(all, h)
	}
	return all
}

// Executions is the list of the executions of the same instance.
func (o *OneWorkflow) Executions() string { return "/workflows?id=" + url.QueryEscape(o.ID) }

// ParentPath is the page of the execution that started this one; "" if none did.
func (o *OneWorkflow) ParentPath() string {
	if o.Parent == nil {
		return ""
	}
	return instancePath(*o.Parent)
}

// NextPath is the page of the execution that took over.
func (o *OneWorkflow) NextPath() string {
	return instancePath(workflow.Instance{ID: o.ID, Execution: o.Next})
}

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

// Refused is why the last start was refused, cut.
func (s *OneSchedule) Refused() string { return brief(s.LastError, 300) }

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

func askInstance(verb, text string) func(*http.Request) (string, string) {
	return func(r *http.Request) (string, string) { return verb + " " + brief(idOf(r), 200) + "?", text }
}

// sendSignal gives an instance a signal as programs with the usual converter wait for it.
func sendSignal(ctx context.Context, c *workflow.Client, i workflow.Instance, form url.Values) error {
	name, arg := form.Get("name"), cmp.Or(strings.TrimSpace(form.Get("arg")), "null")
	switch {
	case name == "" || len(name) > 128:
		return refusal(fmt.Errorf("name has %d bytes: must be the name of the signal, 1 to 128 bytes", len(name)))
	case !json.Valid([]byte(arg)):
		return refusal(fmt.Errorf("arg is %q: must be JSON; text needs its quotes", brief(arg, 100)))
	}
	data, err := json.Marshal(workflow.SignalData{Name: name, Arg: []byte(arg)})
	if err != nil {
		return err
	}
	return c.Signal(ctx, i.ID, workflow.Event{ID: cmp.Or(limited(form.Get("key"), 128), rand.Text()), Type: workflow.EventSignal, Time: time.Now(), Data: data})
}

func cancelInstance(ctx context.Context, c *workflow.Client, i workflow.Instance, _ url.Values) error {
	return c.Cancel(ctx, i, workflow.Event{ID: rand.Text(), Type: workflow.EventCanceled, Time: time.Now(), Data: json.RawMessage("{}")})
}

// onInstance changes the execution that a request names.
func onInstance(said string, change func(context.Context, *workflow.Client, workflow.Instance, url.Values) error) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		client, err := c.workflows.get(ctx)
		if err != nil {
			return nil, err
		}
		i := workflow.Instance{ID: idOf(r), Execution: r.PostForm.Get("execution")}
		if err := change(ctx, client, i, r.PostForm); err != nil {
			return nil, unknown(noWorkflow(err))
		}
		back := localPath(r.PostForm.Get("back"))
		if back == "/" {
			back = instancePath(i)
		}
		return done(i.ID, back, "%s", said), nil
	}
}

// onNamed changes the queue or schedule that the field of a form names.
func onNamed(field, said string, change func(*workflow.Client, context.Context, string) error) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		client, err := c.workflows.get(ctx)
		if err != nil {
			return nil, err
		}
		name := r.PostForm.Get(field)
		if err := change(client, ctx, name); err != nil {
			return nil, unknown(noWorkflow(err))
		}
		back := "/workflows"
		if field == "schedule" {
			back += "/schedules"
		}
		return done(name, back, said, name), nil
	}
}

// limited is a text of at most so many bytes.
func limited(text string, bytes int) string {
	if len(text) > bytes {
		return shorten(text, bytes)
	}
	return text
}

// unknown says of an action that it may have been carried out although Redis did not say so.
func unknown(err error) error {
	if p, ok := errors.AsType[*problem](err); ok && p.status == http.StatusServiceUnavailable || jobstore.Waits(err) {
		return &problem{http.StatusServiceUnavailable, "Redis does not answer", "Whether it was done is unknown, for Redis did not answer. Look at it again once Redis does, and repeat it then."}
	}
	return err
}
