package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// started is the first event of a workflow as go-workflows writes it.
func started(i workflow.Instance, name string, input string) workflow.Start {
	return workflow.Start{Instance: i, Queue: "main", Name: name, Attributes: map[string]string{"line": "7"}, Event: event("WorkflowExecutionStarted", 0, `{"name":"`+name+`","inputs":["`+encoded(input)+`"]}`)}
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var events int64

func event(kind string, ref int64, data string) workflow.Event {
	events++
	return workflow.Event{ID: fmt.Sprintf("e-%d", events), Type: kind, Ref: ref, Time: time.Now(), Data: json.RawMessage(data)}
}

// worker settles the workflow tasks of a queue for a test.
func (p *plant) worker() *workflow.Worker {
	p.Helper()
	w, err := p.flows.NewWorker(workflow.WorkerOptions{Name: "w-1"})
	testenv.Must(p, err)
	testenv.Run(p, w.Run)
	return w
}

// complete takes the next workflow task and completes it with new history behind its events.
func (p *plant) complete(w *workflow.Worker, change func(task *workflow.WorkflowTask, cp *workflow.Checkpoint)) {
	p.Helper()
	task, err := w.WorkflowTask(testenv.Within(p), []string{"main"})
	testenv.Must(p, err)
	cp := workflow.Checkpoint{State: workflow.Active, Executed: slices.Clone(task.Events)}
	change(task, &cp)
	for n := range cp.Executed {
		cp.Executed[n].Sequence = task.LastSequence + int64(n) + 1
	}
	testenv.Must(p, task.Complete(p.Context(), cp))
}

// An execution has a timeline of its activities, timers, signals and children, a history with decoded values, what it waits for, and links to those that it started.
func TestWorkflow(t *testing.T) {
	p := newPlant(t)
	w := p.worker()
	const evil = `</text><script>alert(1)</script>`
	parent, child := workflow.Instance{ID: "order/17", Execution: "x-1"}, workflow.Instance{ID: "label " + evil, Execution: "x-2"}
	testenv.Must(t, p.flows.Start(t.Context(), started(parent, "Deliver", `{"order":17}`)))
	p.complete(w, func(_ *workflow.WorkflowTask, cp *workflow.Checkpoint) {
		pay := event("ActivityScheduled", 1, `{"name":"Pay","inputs":["`+encoded(`"`+evil+`"`)+`"]}`)
		due := event("TimerScheduled", 2, `{"name":"patience","at":"2030-01-02T03:04:05Z"}`)
		fire, at := event(workflow.EventTimerFired, 2, `{"name":"patience"}`), time.Now().Add(time.Hour)
		fire.VisibleAt = &at
		begun := event(workflow.EventSubScheduled, 3, "")
		data, err := json.Marshal(map[string]any{"name": "Label", "sub_workflow_instance": map[string]string{"instance_id": child.ID, "execution_id": child.Execution}})
		testenv.Must(t, err)
		begun.Data = data
		start := started(child, "Label", "1")
		start.Instance.Parent, start.Instance.ParentEvent = &parent, 3
		cp.Executed = append(cp.Executed, pay, due, begun)
		cp.Activities = []workflow.Activity{{Event: pay}}
		cp.Timers = []workflow.Event{fire}
		cp.Messages = []workflow.Message{{To: start.Instance, Start: &start}}
	})
	page := instancePath(parent)
	body := p.get(page, http.StatusOK)
	for _, want := range []string{
		`class="chip active">active`, "waits: open activities 1, timers 1", "due at 20", "order/17", "line=7", "&lt;script&gt;alert(1)", `class="bar-active"`, "activity Pay", "timer patience", "child Label",
		`href="` + strings.ReplaceAll(instancePath(child), "&", "&amp;") + `"`, "ActivityScheduled", `{&#34;order&#34;:17}`, `action="/workflows/-/signal"`, `action="/workflows/-/pause"`, `action="/workflows/-/cancel"`, "waiting in queue main",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the instance lacks %s", want)
		}
	}
	if strings.Contains(body, "<script>") || strings.Contains(body, "/-/terminate") || strings.Contains(body, "/-/remove") {
		t.Error("the page has markup of a payload, or a button for an admin")
	}
	if body := p.get(instancePath(child), http.StatusOK); !strings.Contains(body, `href="/workflows/order%2F17?execution=x-1"`) || !strings.Contains(body, "its task waits for a worker of queue main") {
		t.Error("the child does not name its parent, or what it waits for")
	}

	// A signal is delivered once, however often its button is pressed. The page follows.
	changes := p.stream(p.eventsOf(body), "")
	signal := url.Values{"id": {parent.ID}, "name": {"paid"}, "arg": {`{"sum":7}`}, "key": {"k-1"}, "back": {page}}
	for range 2 {
		if body := p.act("/workflows/-/signal", signal, http.StatusSeeOther); !strings.Contains(body, "The signal is in its inbox.") {
			t.Error("the page does not say what was done")
		}
	}
	testenv.Take(t, "the page is told of the signal", changes)
	for field, bad := range map[string]string{"name": "", "arg": "{", "id": ""} {
		form := url.Values{"id": {parent.ID}, "name": {"paid"}, "arg": {"1"}}
		form.Set(field, bad)
		if body := p.act("/workflows/-/signal", form, http.StatusBadRequest); !strings.Contains(body, "must") {
			t.Errorf("%s %q: no rule:\n%s", field, bad, body)
		}
	}
	p.complete(w, func(task *workflow.WorkflowTask, cp *workflow.Checkpoint) { // of the child
		if task.ID != child.ID {
			t.Errorf("a task of %s", task.ID)
		}
	})
	p.complete(w, func(task *workflow.WorkflowTask, cp *workflow.Checkpoint) {
		if len(task.Events) != 1 || task.Events[0].Type != workflow.EventSignal {
			t.Errorf("%+v", task.Events)
		}
	})
	activity, err := w.ActivityTask(testenv.Within(t), []string{"main"})
	testenv.Must(t, err)
	testenv.Must(t, activity.Complete(t.Context(), event("ActivityCompleted", 1, `{"result":"`+encoded(`"receipt 4"`)+`"}`)))
	p.complete(w, func(_ *workflow.WorkflowTask, cp *workflow.Checkpoint) {
		cp.State, cp.Outcome = workflow.Finished, workflow.Completed
		cp.Executed = append(cp.Executed, event("WorkflowExecutionFinished", 0, `{"result":"`+encoded(`"delivered"`)+`"}`))
	})
	var one OneWorkflow
	p.json("/api/v1"+page, &one)
	var spans []string
	for _, s := range one.Timeline {
		spans = append(spans, s.Kind+" "+s.Name+" "+s.State)
	}
	if got := strings.Join(spans, ", "); got != "activity Pay done, timer patience canceled, child Label canceled, signal paid done" {
		t.Errorf("timeline: %s", got)
	}
	if one.Waits != "" || one.Detail.Outcome != workflow.Completed || len(one.Last) != 7 || len(one.Children) != 1 || one.Children[0].ID != child.ID {
		t.Errorf("%+v", one)
	}
	body = p.get(page, http.StatusOK)
	for _, want := range []string{"&#34;receipt 4&#34;", "&#34;delivered&#34;", `{&#34;sum&#34;:7}`, `class="chip done">completed`, `class="bar-done"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the ended instance lacks %s", want)
		}
	}
	signal.Set("key", "k-2")
	p.act("/workflows/-/signal", signal, http.StatusNotFound)
	p.act("/workflows/-/remove", url.Values{"id": {parent.ID}, "execution": {"x-1"}, "sure": {"yes"}}, http.StatusForbidden)
	p.get("/workflows/order%2F17?execution=x-9", http.StatusNotFound)
}

// Instances and queues are paused and resumed, instances are canceled after a question; schedules are paused, resumed and run, and show their next slots.
func TestWorkflowActions(t *testing.T) {
	p := newPlant(t)
	for _, id := range []string{"schedules", "queues", "..", "-"} { // names of pages, and of no path
		testenv.Must(t, p.flows.Start(t.Context(), started(workflow.Instance{ID: id, Execution: "x"}, "Deliver", "1")))
		form := func() url.Values {
			return url.Values{"id": {id}, "execution": {"x"}, "back": {instancePath(workflow.Instance{ID: id, Execution: "x"})}}
		}
		if body := p.act("/workflows/-/pause", form(), http.StatusSeeOther); !strings.Contains(body, `action="/workflows/-/resume"`) || !strings.Contains(body, `<strong>paused</strong>`) {
			t.Errorf("%s: not paused", id)
		}
		if body := p.act("/workflows/-/resume", form(), http.StatusSeeOther); !strings.Contains(body, `action="/workflows/-/pause"`) {
			t.Errorf("%s: not resumed", id)
		}
		d, err := p.flows.Detail(t.Context(), workflow.Instance{ID: id})
		testenv.Must(t, err)
		if body := p.act("/workflows/-/cancel", form(), http.StatusOK); !strings.Contains(body, "Cancel "+id+"?") {
			t.Errorf("%s: no question", id)
		}
		sure := form()
		sure.Set("sure", "yes")
		p.act("/workflows/-/cancel", sure, http.StatusSeeOther)
		p.act("/workflows/-/terminate", sure, http.StatusForbidden)
		if now, err := p.flows.Detail(t.Context(), workflow.Instance{ID: id}); err != nil || now.Pending != d.Pending+1 || now.State != workflow.Active {
			t.Errorf("%s: %+v %v", id, now, err)
		}
		if id != "-" {
			continue
		}
		at, execution := map[string]string{"id": "-"}, url.Values{"id": {"-"}, "execution": {"x"}, "reason": {"a fire"}}
		p.asAdmin("workflow.terminate", at, execution)
		if body := p.get(instancePath(workflow.Instance{ID: id}), http.StatusOK); !strings.Contains(body, "a fire") || !strings.Contains(body, `class="chip waits">terminated`) {
			t.Error("the page does not say that it was terminated, and why")
		}
		p.asAdmin("workflow.remove", at, execution)
		p.get(instancePath(workflow.Instance{ID: id}), http.StatusNotFound)
		testenv.Must(t, p.flows.Start(t.Context(), started(workflow.Instance{ID: id, Execution: "y"}, "Deliver", "1")))
	}
	if body := p.act("/workflows/queues/pause", url.Values{"queue": {"main"}}, http.StatusSeeOther); !strings.Contains(body, `class="chip waits">paused`) || !strings.Contains(body, `<td class="right">4</td>`) {
		t.Error("the queue is not shown as paused with what it holds back")
	}
	if body := p.act("/workflows/queues/resume", url.Values{"queue": {"main"}}, http.StatusSeeOther); !strings.Contains(body, `class="chip active">open`) {
		t.Error("the queue is not shown as open")
	}
	p.act("/workflows/queues/pause", url.Values{}, http.StatusBadRequest)

	testenv.Must(t, p.flows.PutSchedule(t.Context(), workflow.Schedule{Name: "nightly", Rule: "cron 0 3 * * *", Start: started(workflow.Instance{}, "Report", "1")}))
	var all Schedules
	p.json("/api/v1/workflows/schedules", &all)
	if s := all.Schedules[0]; s.Standing() != "active" || len(s.Slots) != slotsShown || !s.Slots[0].Equal(s.Next) || s.Slots[1].Sub(s.Slots[0]) != 24*time.Hour {
		t.Errorf("%+v", s)
	}
	if body := p.act("/workflows/schedules/run", url.Values{"schedule": {"nightly"}}, http.StatusSeeOther); !strings.Contains(body, "was started") {
		t.Error("the page does not say that it was started")
	}
	if list, err := p.flows.List(t.Context(), workflow.Filter{Name: "Report"}); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if body := p.act("/workflows/schedules/pause", url.Values{"schedule": {"nightly"}}, http.StatusSeeOther); !strings.Contains(body, `action="/workflows/schedules/resume"`) {
		t.Error("not paused")
	}
	p.act("/workflows/schedules/resume", url.Values{"schedule": {"nightly"}}, http.StatusSeeOther)
	p.act("/workflows/schedules/resume", url.Values{"schedule": {"weekly"}}, http.StatusNotFound)
}

// At 2,000 instances, 100 schedules and a history of 2,000 events with large values a page takes at most 20 commands and 60 kB; a filter that fits few says how far it looked and goes on there.
func TestManyWorkflows(t *testing.T) {
	p := newPlant(t)
	const instances, writers = 2000, 16
	var wait sync.WaitGroup
	var failed sync.Map
	base := started(workflow.Instance{}, "Deliver", "1")
	for n := range writers {
		wait.Go(func() {
			for i := n; i < instances; i += writers {
				s := base
				s.Instance, s.Event.ID = workflow.Instance{ID: fmt.Sprintf("order-%05d", i), Execution: "x"}, fmt.Sprintf("start-%d", i)
				s.Event.Time = time.Unix(1_700_000_000+int64(i), 0)
				s.Queue = fmt.Sprintf("queue-%d", i%30)
				if i == 0 {
					s.Name = "Rare"
				}
				if err := p.flows.Start(context.Background(), s); err != nil {
					failed.Store(i, err)
				}
			}
		})
	}
	wait.Wait()
	failed.Range(func(i, err any) bool { t.Fatal(i, err); return false })
	for i := range 100 {
		testenv.Must(t, p.flows.PutSchedule(t.Context(), workflow.Schedule{Name: fmt.Sprintf("s-%03d", i), Rule: "every 24h", Start: base}))
	}
	long := workflow.Instance{ID: "long", Execution: "x"}
	testenv.Must(t, p.flows.Start(t.Context(), started(long, "Long", "1")))
	p.complete(p.worker(), func(_ *workflow.WorkflowTask, cp *workflow.Checkpoint) {
		for i := range int64(1000) {
			cp.Executed = append(cp.Executed, event("ActivityScheduled", i+1, `{"name":"Pay `+strings.Repeat("<b>", 30)+`"}`), event("ActivityCompleted", i+1, `{"result":"`+encoded(`"`+strings.Repeat("<b>", 1000)+`"`)+`"}`))
		}
	})
	p.get("/workflows", http.StatusOK) // the client is open
	for _, path := range []string{"/workflows", "/workflows?name=Rare", "/workflows?state=active&queue=queue-3", "/workflows/schedules", "/workflows/schedules?page=2", instancePath(long), "/workflows/order-00007", "/workflows?id=order-00007&attribute=line%3D7"} {
		p.sent()
		body := p.get(path, http.StatusOK)
		if sent := p.sent(); len(sent) > 20 {
			t.Errorf("%s takes %d commands: %v", path, len(sent), sent)
		}
		if len(body) > 60_000 || strings.Contains(body, "<b>") {
			t.Errorf("%s has %d bytes, or markup of a payload", path, len(body))
		}
	}
	looked, found, pages := 0, 0, 0
	for path := "/workflows?name=Rare"; ; pages++ {
		var page Workflows
		p.json("/api/v1"+path, &page)
		looked, found = looked+page.Looked, found+len(page.Instances)
		if page.More == "" {
			break
		}
		page.Filter = map[string]string{"name": "Rare"}
		path = page.Link("after", page.More)
	}
	if looked != instances+1 || found != 1 || pages != 2 {
		t.Errorf("%d found, %d looked at, %d further pages", found, looked, pages)
	}
	for query, want := range map[string]int{"state=lost": 400, "attribute=line": 400, "after=x": 400, "after=gone:x": 404, "state=failed": 200} {
		p.get("/workflows?"+query, want)
	}
}
