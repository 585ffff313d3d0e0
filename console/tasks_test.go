package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

var (
	okType   = task.Define[int, int]("cell:Weigh", task.Positional())
	badType  = task.Define[int, int]("cell:Drill", task.Positional(), task.Retry(task.NoRetry{}))
	slowType = task.Define[int, int]("cell:Rest", task.Positional(), task.Large)
	oneType  = task.Define[int, int]("cell:Vise", task.Positional(), task.Exclusive())
	textType = task.Define[string, int]("cell:Print", task.Positional())
)

// work runs a worker for the types above until the test ends; what rests does so until release is called.
func (p *plant) work(slots map[task.Size]int) (release func()) {
	p.Helper()
	gate := make(chan struct{})
	rest := func(ctx context.Context, j *task.Job[int]) (int, error) {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return j.Args, ctx.Err()
	}
	w, err := p.tasks.Worker(task.WorkerOptions{ID: "worker-1", Lease: 3 * time.Second, Concurrency: slots},
		okType.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { return 2 * j.Args, nil }),
		badType.Handle(func(context.Context, *task.Job[int]) (int, error) { return 0, errors.New("the drill <b>broke</b>") }),
		slowType.Handle(rest), oneType.Handle(rest))
	testenv.Must(p, err)
	testenv.Run(p, w.Run)
	return func() { close(gate) }
}

func send[T any](p *plant, typ *task.Type[T, int], args T, opts ...task.SubmitOption) task.Ref {
	p.Helper()
	h, err := typ.Submit(p.Context(), p.tasks, args, opts...)
	testenv.Must(p, err)
	return h.Ref
}

// one is a task as the console shows it.
func (p *plant) one(ref string) (o OneTask) {
	p.Helper()
	p.json("/api/v1"+taskPath(ref), &o)
	return o
}

func (p *plant) reaches(ref string, state task.State) {
	p.Helper()
	testenv.Eventually(p, ref+" is "+string(state), func() bool {
		status, _, body := p.request(http.MethodGet, "/api/v1"+taskPath(ref), nil, nil)
		return status == http.StatusOK && strings.Contains(body, `"state":"`+string(state)+`"`)
	})
}

// post is an action with its form, as a visitor with the role operator.
func (p *plant) post(path string, form url.Values) (status int, page string) {
	p.Helper()
	status, h, page := p.request(http.MethodPost, path, form, nil)
	if status == http.StatusSeeOther {
		return status, p.get(h.Get("Location"), http.StatusOK)
	}
	return status, page
}

// as is a request of a visitor with another role, to a page in HTML or an action in JSON.
func (p *plant) as(role Role, method, path string, form url.Values) (status int, body string) {
	p.Helper()
	mux := http.NewServeMux()
	for _, page := range pages() {
		mux.Handle("GET "+page.pattern, p.console.serve(page, false))
	}
	for _, a := range actions() {
		mux.Handle("POST "+a.pattern, p.console.act(a, true))
	}
	r := httptest.NewRequestWithContext(context.WithValue(p.Context(), visitorKey{}, Visitor{Role: role}), method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The pages of tasks show queues, types with what is set for them, workers and what runs; a task shows its life, what it was given, what came of it, and why it waits.
func TestTasks(t *testing.T) {
	p := newPlant(t)
	if body := p.get("/tasks", http.StatusOK); !strings.Contains(body, "No worker is registered") || !strings.Contains(body, "No type is known") {
		t.Error("the page of an empty system does not say what to do")
	}
	testenv.Must(t, p.tasks.SetConfig(t.Context(), task.Config{Common: map[string]task.Override{"cell:Weigh": {ConcurrencyLimit: new(4)}, "cell:Off": {Enabled: new(false)}}}))
	alone := send(p, okType, 7, task.Background)
	if why := p.one(alone.String()).Why; len(why) != 1 || why[0].Text != "No worker that lives has slots for queue background:medium." {
		t.Errorf("why it waits without a worker: %+v", why)
	}
	defer p.work(map[task.Size]int{task.Medium: 2, task.Large: 1})()
	p.reaches(alone.String(), task.StateDone)
	bad, slow, late := send(p, badType, 1), send(p, slowType, 2), send(p, okType, 3, task.In(time.Hour))
	p.reaches(bad.String(), task.StateDead)
	p.reaches(slow.String(), task.StateRunning)
	wait := send(p, slowType, 4)

	var all Tasks
	testenv.Eventually(t, "the worker says that it runs a task", func() bool {
		p.json("/api/v1/tasks", &all)
		return len(all.Workers) == 1 && len(all.Workers[0].Running) == 1
	})
	types := make(map[string]task.TypeInfo)
	for _, typ := range all.Types {
		types[typ.Name] = typ
	}
	if all.Waiting != 1 || all.Running != 1 || all.Delayed != 1 || all.Dead != 1 || len(all.Queues) != 9 || all.Workers[0].Slots[task.Medium] != 2 || !all.Workers[0].Alive ||
		types["cell:Weigh"] != (task.TypeInfo{Name: "cell:Weigh", Done: 1, Workers: 1, Limits: "4 at once"}) || types["cell:Drill"].Dead != 1 || !types["cell:Off"].Disabled {
		t.Errorf("%+v", all)
	}
	if text := p.get("/api/v1/tasks", http.StatusOK); strings.Contains(text, "oldest_ns") || strings.Contains(text, `"seen"`) {
		t.Error("the JSON has ages, so the page seems to change while nothing happens")
	}
	body := p.get("/tasks", http.StatusOK)
	for _, want := range []string{"4 at once", "not enabled", "worker-1", taskPath(slow.ID), "1 large 2 medium", "/tasks/queues/pause", "/tasks/dead?type=cell%3aDrill"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of tasks lacks %s", want)
		}
	}
	if strings.Contains(body, "/tasks/queues/purge") {
		t.Error("an operator is offered to purge")
	}
	for ref, wants := range map[string][]string{
		alone.String(): {"done", "<pre", "14"},
		bad.String():   {"dead", "the drill &lt;b&gt;broke", "attempt 1 failed", "gave up", "Requeue", "Delete…"},
		slow.String():  {"running", "attempt 1 began on worker worker-1", `class="bar-active"`, "Cancel…"},
		late.String():  {"delayed", "It is not due yet.", "Run now", "[\n  3\n]"},
		wait.String():  {"waiting", "It waits for a free slot of a worker"},
	} {
		body := p.get(taskPath(ref), http.StatusOK)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("task %s: the page lacks %s", ref, want)
			}
		}
	}
	for query, want := range map[string][]string{
		"": {slow.ID, wait.ID, late.ID, bad.ID}, "?state=running": {slow.ID}, "?state=waiting": {wait.ID}, "?queue=normal:large": {slow.ID, wait.ID}, "?type=cell:Weigh": {late.ID}, "?state=dead": {bad.ID}, "?state=blocked": nil,
	} {
		var list TaskList
		p.json("/api/v1/tasks/list"+query, &list)
		var ids []string
		for _, row := range list.Tasks {
			ids = append(ids, row.ID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Errorf("list%s: %v, want %v", query, ids, want)
		}
	}
	brief := send(p, okType, 4, task.In(time.Hour), task.Keep(0)).String()
	_, h, _ := p.request(http.MethodPost, "/tasks/one/run", url.Values{"ref": {brief}, "back": {taskPath(brief)}}, nil)
	testenv.Eventually(t, "the page of a task that left nothing says what was done and how it may have ended", func() bool {
		status, _, body := p.request(http.MethodGet, h.Get("Location"), nil, nil)
		return status == http.StatusNotFound && strings.Contains(body, "is due now") && strings.Contains(body, "ended without a trace") && strings.Contains(body, "takt task watch")
	})
	// A page is told once what it shows has changed.
	page := p.stream(p.eventsOf(p.get(taskPath(wait.String()), http.StatusOK)), "")
	p.post("/tasks/one/cancel", url.Values{"ref": {wait.String()}, "sure": {"yes"}})
	testenv.Take(t, "an event of the task", page)
}

// Buttons do what the command line does, and say so on the page that follows; what an operator may not do is refused, and so is what is not right, with its field.
func TestTaskActions(t *testing.T) {
	p := newPlant(t)
	defer p.work(map[task.Size]int{task.Medium: 1})()
	bad, late, big := send(p, badType, 1), send(p, okType, 2, task.In(time.Hour)), send(p, slowType, 3)
	p.reaches(bad.String(), task.StateDead)
	sure := func(form url.Values) url.Values { form.Set("sure", "yes"); return form }
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		shows  string
	}{
		{"/tasks/queues/pause", url.Values{"queue": {"normal:large"}}, 303, "Queue normal:large is paused"},
		{"/tasks/queues/rate", url.Values{"queue": {"normal:large"}, "rate": {"0.5"}}, 303, "At most 0.5 tasks of queue normal:large"},
		{"/tasks/queues/rate", url.Values{"queue": {"normal:large"}, "rate": {"fast"}}, 400, "must be tasks per second"},
		{"/tasks/queues/rate", url.Values{"queue": {"normal:large"}, "rate": {"-1"}}, 400, "want 0 to 1000000"},
		{"/tasks/queues/pause", url.Values{"queue": {"fast"}}, 400, "want PRIORITY:SIZE"},
		{"/tasks/queues/explode", url.Values{"queue": {"normal:large"}}, 404, "no page"},
		{"/tasks/types/pause", url.Values{"name": {"cell:Weigh"}}, 303, "Type cell:Weigh is paused"},
		{"/tasks/types/pause", url.Values{}, 400, "want 1 to"},
		{"/tasks/queues/purge", url.Values{"queue": {"normal:large"}}, 403, "takes the role admin"},
		{"/tasks/one/run", url.Values{"ref": {late.String()}}, 303, "is due now"},
		{"/tasks/one/run", url.Values{"ref": {big.String()}}, 409, "want delayed or blocked"},
		{"/tasks/one/run", url.Values{"ref": {"nowhere"}}, 404, "no such task"},
		{"/tasks/one/cancel", url.Values{"ref": {big.String()}}, 200, "Yes, do it"},
		{"/tasks/one/cancel", sure(url.Values{"ref": {big.String()}}), 303, "was cancelled"},
		{"/tasks/one/requeue", url.Values{"ref": {bad.ID}}, 303, "was requeued"},
		{"/tasks/dead/all/delete", sure(url.Values{}), 403, "takes the role admin"},
	} {
		if status, page := p.post(c.path, c.form); status != c.status || !strings.Contains(page, c.shows) {
			t.Errorf("%s %v: %d, want %d and %q:\n%.1500s", c.path, c.form, status, c.status, c.shows, page[strings.Index(page, "<main")+1:])
		}
	}
	s, err := p.tasks.Stats(t.Context())
	testenv.Must(t, err)
	for _, q := range s.Queues {
		if q.Queue == "normal:large" && (!q.Paused || q.Rate != 0.5) {
			t.Errorf("%+v", q)
		}
	}
	if body := p.get("/tasks", http.StatusOK); !strings.Contains(body, "/tasks/queues/resume") || !strings.Contains(body, "/tasks/types/resume") || !strings.Contains(body, "at most 0.5/s") {
		t.Error("the page does not show what is paused")
	}
	if why := p.one(send(p, slowType, 5).String()).Why; len(why) != 3 || why[0].Text != "Queue normal:large is paused." || why[1].Text != "No worker that lives has slots for queue normal:large." {
		t.Errorf("why it waits: %+v", why)
	}
	if status, body := p.as(Admin, "POST", "/tasks/queues/purge", sure(url.Values{"queue": {"normal:large"}})); status != 200 || !strings.Contains(body, "1 waiting tasks") {
		t.Errorf("purge: %d %s", status, body)
	}
}

// Dead letters are requeued and deleted one by one, and by an admin all that a filter means, after a question that says how many there are.
func TestDeadTasks(t *testing.T) {
	p := newPlant(t)
	defer p.work(map[task.Size]int{task.Medium: 4})()
	var ids []string
	for i := range lettersShown + 2 {
		ids = append(ids, send(p, badType, i).ID)
	}
	var list TaskList
	testenv.Eventually(t, "all are dead", func() bool {
		s, err := p.tasks.Stats(t.Context())
		return err == nil && s.Dead == int64(len(ids))
	})
	p.json("/api/v1/tasks/dead", &list)
	if len(list.Letters) != lettersShown || list.Total != int64(len(ids)) || list.Next == "" || list.Letters[0].Reason != "errors.errorString" || list.Letters[0].Error.Message != "the drill <b>broke</b>" {
		t.Errorf("%+v", list)
	}
	body := p.get("/tasks/dead", http.StatusOK)
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body)
	if next == nil || strings.Contains(body, "/tasks/dead/all") {
		t.Fatal("the first page leads to no second, or offers an operator to change all")
	}
	if body := p.get(strings.ReplaceAll(next[1], "&amp;", "&"), http.StatusOK); strings.Count(body, "<tr>") != 3 || !strings.Contains(body, `rel="first"`) {
		t.Error("the second page has not two letters")
	}
	if body := p.get("/tasks/dead?type=cell:Weigh", http.StatusOK); !strings.Contains(body, "No dead letter matches") {
		t.Error("the filter lets letters of another type through")
	}
	first := list.Letters[0].ID
	if status, page := p.post("/tasks/one/delete", url.Values{"ref": {first}}); status != 200 || !strings.Contains(page, "deleted for good") {
		t.Errorf("delete does not ask: %d", status)
	}
	if status, page := p.post("/tasks/one/delete", url.Values{"ref": {first}, "sure": {"yes"}}); status != 303 || !strings.Contains(page, "was deleted") {
		t.Errorf("delete: %d", status)
	}
	if status, page := p.post("/tasks/one/delete", url.Values{"ref": {first}, "sure": {"yes"}}); status != 404 || !strings.Contains(page, "no dead letter") {
		t.Errorf("delete again: %d", status)
	}
	filter := url.Values{"type": {"cell:Drill"}, "error": {"errors.errorString"}}
	if status, page := p.as(Admin, "GET", "/tasks/dead/all/delete?"+filter.Encode(), nil); status != 200 || !strings.Contains(page, fmt.Sprintf("errors: %d, type cell:Drill, error errors.errorString.", len(ids)-1)) || !strings.Contains(page, `name="type" value="cell:Drill"`) {
		t.Errorf("the question: %d %s", status, page)
	}
	if status, _ := p.as(Admin, "POST", "/tasks/dead/all/delete", filter); status != 400 {
		t.Errorf("all without sure: %d", status)
	}
	filter.Set("sure", "yes")
	filter.Set("reason", "for the record, no part of the filter")
	if status, body := p.as(Admin, "POST", "/tasks/dead/all/delete", filter); status != 200 || !strings.Contains(body, fmt.Sprintf("%d dead letters were deleted", len(ids)-1)) {
		t.Errorf("all: %d %s", status, body)
	}
	if body := p.get("/tasks/dead", http.StatusOK); !strings.Contains(body, "There is no dead letter") {
		t.Error("letters are left")
	}
}

// A group is a tree of its children with their states; schedules show their next slots in their zone; locks show who has them.
func TestGroupsSchedulesLocks(t *testing.T) {
	p := newPlant(t)
	release := p.work(map[task.Size]int{task.Medium: 4, task.Large: 1})
	g, err := task.Spawn(t.Context(), p.tasks, []task.Pending{okType.With(1), badType.With(2), slowType.With(3), slowType.With(4)}, okType.With(9), task.GroupID("batch/7"))
	testenv.Must(t, err)
	var group Group
	testenv.Eventually(t, "a child runs and two have ended", func() bool {
		p.json("/api/v1"+groupPath(g.ID), &group)
		return group.Group.Remaining == 2 && group.Children[2].State == task.StateRunning
	})
	if c := group.Children; c[0].State != task.StateDone || c[1].State != task.StateDead || !strings.Contains(c[1].Error, "broke") || c[1].Name != "cell:Drill" || c[2].Worker != "worker-1" || c[2].Name != "cell:Rest" || c[3].State != task.StateWaiting || c[3].Name != "cell:Rest" {
		t.Errorf("%+v", c)
	}
	body := p.get(groupPath(g.ID), http.StatusOK)
	for _, want := range []string{"2 remain", "1 of 4 done, 1 failed", "Cancel…", taskPath(g.ChildID(3)), "waiting</span>", "cell:Rest on worker-1"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the group lacks %s", want)
		}
	}
	if body := p.get(taskPath(g.ChildID(3)), http.StatusOK); !strings.Contains(body, groupPath(g.ID)) {
		t.Error("the page of a child does not lead to its group")
	}
	if status, page := p.post("/tasks/group/cancel", url.Values{"id": {g.ID}, "sure": {"yes"}, "back": {groupPath(g.ID)}}); status != 303 || !strings.Contains(page, "stopped") {
		t.Errorf("cancel: %d", status)
	}
	release()

	testenv.Must(t, p.tasks.AddSchedule(t.Context(), task.ScheduleEntry{Name: "morning/7", Task: "cell:Weigh", Spec: "cron TZ=Europe/Berlin 0 6 * * *"}))
	var schedules TaskSchedules
	p.json("/api/v1/tasks/schedules", &schedules)
	if s := schedules.Schedules[0]; s.Name != "morning/7" || schedules.Leader != "" {
		t.Errorf("%+v", schedules)
	}
	for _, c := range []struct{ what, shows string }{
		{"pause", "Schedule morning/7 is paused"}, {"resume", "is resumed, from its next slot on"}, {"run", "submits a task now, or as soon as a scheduler runs"}} {
		if status, page := p.post("/tasks/schedules/"+c.what, url.Values{"name": {"morning/7"}}); status != 303 || !strings.Contains(page, c.shows) {
			t.Errorf("%s: %d", c.what, status)
		}
	}
	if status, _ := p.post("/tasks/schedules/run", url.Values{"name": {"evening"}}); status != 404 {
		t.Errorf("run of an unknown schedule: %d", status)
	}
	p.json("/api/v1/tasks/schedules", &schedules)
	if slots := schedules.Schedules[0].Slots; len(slots) != taskSlotsShown || slots[0].Hour() != 6 || !strings.Contains(p.get("/tasks/schedules", http.StatusOK), ">Europe/Berlin<") {
		t.Errorf("slots %v", slots)
	}

	h, err := p.tasks.Locker().Try(t.Context(), []lock.Spec{lock.Mutex(lock.Object{Type: lock.Task, Key: "press"})}, lock.TryOptions{Owner: "me"})
	testenv.Must(t, err)
	var locks Locks
	p.json("/api/v1/tasks/locks?match=lock:mutex:*", &locks)
	if len(locks.Locks) != 1 || locks.Locks[0].Owners[0].Name != "me" || locks.Locks[0].Until.IsZero() || locks.Next != "" {
		t.Errorf("%+v", locks.Locks)
	}
	_, err = h.Release(t.Context())
	testenv.Must(t, err)
}

// What pages cost does not depend on how much waits: at most 20 commands of Redis and 60 kB.
func TestManyTasks(t *testing.T) {
	p := newPlant(t)
	children := make([]task.Pending, 200)
	for i := range children {
		children[i] = okType.With(i, task.Background)
	}
	g, err := task.Spawn(t.Context(), p.tasks, children, okType.With(0))
	testenv.Must(t, err)
	const waiting = 20_000
	args := make([]int, waiting)
	handles, err := okType.SubmitMany(t.Context(), p.tasks, args)
	testenv.Must(t, err)
	_, err = okType.SubmitMany(t.Context(), p.tasks, args[:500], task.In(time.Hour))
	testenv.Must(t, err)
	for i := range 60 {
		testenv.Must(t, p.tasks.AddSchedule(t.Context(), task.ScheduleEntry{Name: fmt.Sprintf("every-%d", i), Task: "cell:Weigh", Spec: "every 1h"}))
	}
	p.get("/tasks", http.StatusOK) // the server learns the scripts
	p.request(http.MethodGet, taskPath("nowhere"), nil, nil)
	p.get("/tasks/list?state=running", http.StatusOK)
	p.get(groupPath(g.ID), http.StatusOK)
	for path, status := range map[string]int{
		"/tasks": 200, "/tasks/list": 200, "/tasks/list?state=delayed": 200, "/tasks/list?type=cell:Drill": 200, "/tasks/list?state=running": 200, "/tasks/dead": 200, "/tasks/dead?type=x": 200, "/tasks/schedules?page=2": 200, "/tasks/locks": 200,
		groupPath(g.ID) + "&page=3": 200, taskPath(handles[waiting/2].Ref.String()): 200, taskPath(handles[0].Ref.ID): 200, taskPath(handles[waiting-1].Ref.ID): 200, taskPath(handles[waiting/2].Ref.ID): 404, taskPath("nowhere"): 404,
	} {
		p.sent()
		body := p.get(path, status)
		if sent := p.sent(); len(sent) > 20 {
			t.Errorf("%s took %d commands: %v", path, len(sent), sent)
		}
		if len(body) > 60_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	var list TaskList
	p.json("/api/v1/tasks/list?type=cell:Drill", &list)
	if len(list.Tasks) != 0 || list.Next == "" {
		t.Errorf("a list of what is not there: %d tasks, next %q", len(list.Tasks), list.Next)
	}
}

// Texts of tasks are shown as texts, whatever they hold, and cut; each is reached by its address.
func TestHostileTasks(t *testing.T) {
	p := newPlant(t)
	const evil = `../"'><script>alert(1)<b onclick=x>{{.}}/..`
	ref := send(p, textType, "</pre><script>alert(2)</script>"+strings.Repeat("ä", 400_000), task.ID(evil), task.WithLabels(map[string]string{evil: evil}))
	g, err := task.Spawn(t.Context(), p.tasks, []task.Pending{textType.With(evil)}, textType.With(evil), task.GroupID(".."))
	testenv.Must(t, err)
	testenv.Must(t, p.tasks.PauseType(t.Context(), evil))
	testenv.Must(t, p.tasks.AddSchedule(t.Context(), task.ScheduleEntry{Name: evil, Task: evil, Spec: "every 1h"}))
	h, err := p.tasks.Locker().Try(t.Context(), []lock.Spec{lock.Mutex(lock.Object{Type: lock.Task, Key: evil})}, lock.TryOptions{Owner: evil})
	testenv.Must(t, err)
	defer func() { _, _ = h.Release(t.Context()) }() // the test is over
	for _, at := range []string{"/tasks", "/tasks/list", "/tasks/list?type=" + url.QueryEscape(evil), taskPath(ref.String()), taskPath(evil), taskPath(evil + "2"), groupPath(".."), groupPath(evil), "/tasks/dead?type=" + url.QueryEscape(evil), "/tasks/schedules", "/tasks/locks", "/tasks/locks?match=" + url.QueryEscape(evil), "/tasks/list?queue=" + url.QueryEscape(evil)} {
		_, header, body := p.request(http.MethodGet, at, nil, nil)
		for _, bad := range []string{"<script>", "<b ", "</script><script", "</pre><"} {
			if strings.Contains(strings.Replace(body, "</pre></section>", "", -1), bad) {
				t.Errorf("%s has %s", at, bad)
			}
		}
		if !strings.HasPrefix(header.Get("Content-Type"), "text/html") || len(body) > 60_000 {
			t.Errorf("%s is %s with %d bytes", at, header.Get("Content-Type"), len(body))
		}
	}
	if body := p.get(taskPath(ref.String()), http.StatusOK); !strings.Contains(body, "cut: the JSON of this page has all of it") || !strings.Contains(body, "alert(2)") {
		t.Error("the argument is not shown, or not cut")
	}
	if one := p.one(evil); one.Task.ID != evil || len(one.Task.Args) < 800_000 {
		t.Errorf("JSON of the task: %s with %d bytes", one.Task.ID, len(one.Task.Args))
	}
	if body := p.get(groupPath(g.ID), http.StatusOK); !strings.Contains(body, "0 of 1 done") {
		t.Error("the group is not shown")
	}
	if status, page := p.post("/tasks/types/resume", url.Values{"name": {evil}, "back": {"//evil.example/"}}); status != 303 || !strings.Contains(page, "is resumed") {
		t.Errorf("resume: %d", status)
	}
}

// An action on many that ends before it is done says how many it has done, and how to go on.
func TestPartlyDone(t *testing.T) {
	p := newPlant(t)
	half := allDead("%d letters.", func(context.Context, task.DeadLetters, task.DeadFilter) (int, error) {
		return 3, context.DeadlineExceeded
	})
	r := httptest.NewRequest(http.MethodPost, "/tasks/dead/all/delete", strings.NewReader("sure=yes&type=cell:Drill"))
	r.Header.Set("Content-Type", formType)
	testenv.Must(t, r.ParseForm())
	result, err := half(p.console, t.Context(), r)
	testenv.Must(t, err)
	if result.OK || result.status != http.StatusServiceUnavailable || result.Text != "3 were done, then it ended: it takes at most 25s at once. Do it again to go on with the rest." || result.object != "/tasks/dead/all/delete type=cell%3ADrill" {
		t.Errorf("%+v", result)
	}
}
