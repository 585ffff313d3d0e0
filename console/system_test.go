package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/workflow"
)

// bury writes a dead letter into a stream and returns its id.
func (p *plant) bury(stream string, fields ...string) string {
	p.Helper()
	id, err := p.srv.Must(p, slices.Concat([]string{"XADD", p.prefix + ":" + stream, "*"}, fields)...).ToString()
	testenv.Must(p, err)
	return id
}

// The page of the system has the processes with what they hold, the streams, the dead letters of all parts, and for operators the configuration, within 20 commands; the rows of the
// doctor come by themselves.
func TestSystem(t *testing.T) {
	p := newPlant(t)
	p.console.doctor.Run = func(context.Context) ([]jobstore.Diagnosis, error) {
		return []jobstore.Diagnosis{{Subject: "eviction", Grade: jobstore.Bad, Found: "allkeys-lru <b>", Next: "CONFIG SET maxmemory-policy noeviction"}}, nil
	}
	p.console.o.Settings = []Setting{{"redis", "redis://user:***@host", "environment TAKT_REDIS"}, {"long", strings.Repeat("ä", valueShown), "default"}}
	testenv.Must(t, p.db.Enlist(t.Context(), map[string]string{"": "receiver,engine", "answers": "engine"}))
	testenv.Run(t, p.db.RunWorker)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	p.srv.Must(t, "HSET", p.prefix+":instances", "gone", "receiver")
	p.srv.Must(t, "SET", p.prefix+":publisher:lease", "plant 0c5a")
	p.bury("intake:dead", "dead-error", "no such key", "kind", "command")
	p.bury("sfc:work:dead", "dead-error", "panic")
	p.srv.Must(t, "HSET", p.prefix+":tasks:dead", "t-1", "x")
	p.get("/system", http.StatusOK)
	var s System
	testenv.Eventually(t, "the doctor has looked, the instance lives", func() bool {
		p.json("/api/v1/system", &s)
		return s.Doctor != nil && !s.Doctor.Ended.IsZero() && len(s.Instances) == 2 && s.Instances[1].Alive
	})
	if diff := cmp.Diff([]jobstore.InstanceInfo{
		{Name: "gone", Roles: []string{"receiver"}}, {Name: "plant", Alive: true, Roles: []string{"engine", "receiver"}, Leases: []string{jobstore.RolePublisher}},
	}, s.Instances); diff != "" {
		t.Error(diff)
	}
	if changes := s.Streams[3]; changes.Entries != 2 || changes.Lag != 2 || changes.Oldest.IsZero() || s.Streams[0].Name != "sfc:work" {
		t.Errorf("%+v", s.Streams)
	}
	if s.Letters != 3 || len(s.Dead) != 7 || s.Settings[0].Origin != "environment TAKT_REDIS" || s.Check != nil {
		t.Errorf("%+v", s)
	}
	p.sent()
	body := p.get("/system", http.StatusOK)
	if sent := p.sent(); len(sent) > 20 || len(body) > 60_000 {
		t.Errorf("%d commands: %v, %d bytes", len(sent), sent, len(body))
	}
	for _, want := range []string{"allkeys-lru &lt;b&gt;", "noeviction", `<span class="chip failed">bad</span>`, "none: another one takes over", "1 in intake:dead", "1 in tasks", "redis://user:***@host", "cut: the JSON of this page", `href="/system/dead"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	viewer := context.WithValue(t.Context(), visitorKey{}, Visitor{Role: Viewer})
	data, err := p.console.system(viewer, httptest.NewRequest(http.MethodGet, "/system", nil))
	testenv.Must(t, err)
	if got := data.(*System); got.Settings != nil || got.Letters != 3 {
		t.Errorf("a viewer gets %+v", got)
	}
	page := p.stream(p.eventsOf(body), "")
	p.bury("intake:dead", "dead-error", "again")
	testenv.Take(t, "an event of the page", page)
}

// Without Redis the page of the system says so and still has the doctor and the configuration.
func TestSystemWithoutRedis(t *testing.T) {
	p := &plant{T: t, client: &http.Client{}}
	p.start(func(context.Context) (*jobstore.Store, error) { return nil, errors.New("refused") }, "mqtt://127.0.0.1:1")
	p.console.o.Settings = []Setting{{"redis", "redis.example", "flag"}}
	if body := p.get("/system", http.StatusOK); !strings.Contains(body, "redis.example") || !strings.Contains(body, "Not known: Redis does not answer") {
		t.Error(body)
	}
}

// A check runs once at a time, whoever asks, and its result stays on the page: what it found, or why it failed.
func TestCheck(t *testing.T) {
	p := newPlant(t)
	if status, _, _ := p.request(http.MethodPost, "/system/check", url.Values{}, nil); status != http.StatusNotFound {
		t.Errorf("a console without a check: %d", status)
	}
	began, end := make(chan struct{}, 10), make(chan error)
	var found []jobstore.Violation
	for i := range 51 {
		found = append(found, jobstore.Violation{Key: fmt.Sprintf("key-%02d<b>", i), Problem: "is lost", Next: "report it"})
	}
	p.console.check.Run = func(context.Context) ([]jobstore.Violation, error) {
		began <- struct{}{}
		err := <-end
		return found, err
	}
	ask := func() string {
		status, h, body := p.request(http.MethodPost, "/system/check", url.Values{}, nil)
		if status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, body)
		}
		return p.get(h.Get("Location"), http.StatusOK)
	}
	if body := p.get("/system", http.StatusOK); !strings.Contains(body, "No check was run") || !strings.Contains(body, "Check now") {
		t.Error("the page offers no check")
	}
	if body := ask(); !strings.Contains(body, "The check has begun") || !strings.Contains(body, "goes on") || strings.Contains(body, "Check now") {
		t.Error("the page does not show that a check goes on")
	}
	if body := ask(); !strings.Contains(body, "A check goes on already") {
		t.Error("a second check was begun")
	}
	testenv.Take(t, "the check", began)
	var s System
	for i, c := range []struct {
		err   error
		shows []string
	}{
		{nil, []string{"51 found", "key-00&lt;b&gt;", "1 more are"}},
		{errors.New("mqtt://u:secret@host does not answer"), []string{"failed: mqtt://u:***@host does not answer"}},
	} {
		if i > 0 {
			ask()
			testenv.Take(t, "the check", began)
		}
		end <- c.err
		testenv.Eventually(t, "it is over", func() bool {
			s = System{}
			p.json("/api/v1/system", &s)
			return s.Check.Began.IsZero() && (s.Check.Problem != "") == (c.err != nil)
		})
		body := p.get("/system", http.StatusOK)
		for _, want := range c.shows {
			if !strings.Contains(body, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
	}
	if len(began) > 0 {
		t.Error("more checks ran than were begun")
	}
}

// Dead letters stand on one page with all that they have, hostile texts as texts, long ones cut; one is deleted after a question, all of a stream by admins alone.
func TestDeadLetters(t *testing.T) {
	p := newPlant(t)
	const evil = `<script>alert(1)</script>`
	var ids []string
	for i := range 2*lettersPage + 1 {
		ids = append(ids, p.bury("intake:dead", "dead-error", fmt.Sprintf("cause-%02d", i), "kind", evil, "event", `{"x":"`+strings.Repeat("<", 1<<20)+`"}`))
	}
	p.bury("publisher:deadletter", "scope", "cell-07", "reason", "too large for the broker")
	p.sent()
	body := p.get("/system/dead", http.StatusOK)
	if sent := p.sent(); len(sent) > 20 || len(body) > 60_000 {
		t.Errorf("%d commands: %v, %d bytes", len(sent), sent, len(body))
	}
	if strings.Contains(body, evil) || !strings.Contains(body, "&lt;script&gt;alert") || !strings.Contains(body, "cause-20") || strings.Contains(body, "cause-10") || !strings.Contains(body, "Cut: the JSON") {
		t.Errorf("%.3000s", body)
	}
	var page Dead
	p.json("/api/v1/system/dead?stream=intake:dead", &page)
	p.json("/api/v1/system/dead?stream=intake:dead&before="+page.Next, &page)
	if len(page.Letters) != lettersPage || page.Letters[0].Fields["dead-error"] != "cause-10" || len(page.Letters[0].Fields["event"]) < 1<<20 {
		t.Errorf("the second page begins with %.100v", page.Letters[0].Fields["dead-error"])
	}
	if body := p.get("/system/dead?stream=publisher:deadletter", http.StatusOK); !strings.Contains(body, "<strong>too large for the broker</strong>") {
		t.Error("the reason of a change that could not be published is missing")
	}
	for path, want := range map[string]int{"?stream=lock:x": 404, "?before=x": 400, "?id=1-": 400, "?id=1-1": 200, "?stream=sfc:outbox:dead": 200} {
		p.get("/system/dead"+path, want)
	}
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		shows  string
	}{
		{"intake:dead/delete", url.Values{"id": {ids[0]}}, 200, "Delete this dead letter?"},
		{"intake:dead/delete", url.Values{"id": {ids[0]}, "sure": {"yes"}}, 303, ""},
		{"intake:dead/delete", url.Values{"id": {ids[0]}, "sure": {"yes"}}, 409, "not in intake:dead any more"},
		{"intake:dead/delete", url.Values{"id": {"+"}, "sure": {"yes"}}, 400, "Nothing was deleted"},
		{"joborder:changes:_global/delete", url.Values{"id": {"1-1"}, "sure": {"yes"}}, 400, "Nothing was deleted"},
		{"intake:dead/clear", url.Values{"id": {ids[5]}, "sure": {"yes"}}, 403, "takes the role admin"},
	} {
		status, _, body := p.request(http.MethodPost, "/system/dead/"+c.path, c.form, nil)
		if status != c.status || !strings.Contains(body, c.shows) {
			t.Errorf("%s %v: %d, want %d\n%.1500s", c.path, c.form, status, c.status, body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.SetPathValue("stream", "intake:dead")
	r.PostForm = url.Values{"id": {ids[5]}}
	result, err := letters((*jobstore.Store).DeleteLettersUntil)(p.console, t.Context(), r) // as for an admin
	testenv.Must(t, err)
	if n, err := p.srv.Must(t, "XLEN", p.prefix+":intake:dead").AsInt64(); n != 2*lettersPage-5 || err != nil || result.Text != "5 dead letters were deleted from intake:dead." {
		t.Errorf("%d letters are left, %v, %q", n, err, result.Text)
	}
	viewer := context.WithValue(t.Context(), visitorKey{}, Visitor{Role: Viewer})
	if _, err := p.console.read(viewer, systemPages[1], r); err == nil || !strings.Contains(err.Error(), "takes the role operator") {
		t.Errorf("a viewer sees dead letters: %v", err)
	}
}

// The field of the header finds whatever has an id: one exact match leads to its page, the rest is listed, and no query costs more than 20 commands.
func TestSearch(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "JO-17"}, ready)
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "OVER"}, isa95.State{Top: isa95.Aborted})
	p.commit("cell-07", "OVER", jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Clear, State: isa95.State{Top: isa95.EndState}}})
	p.srv.Must(t, "HSET", p.prefix+":wmx:delivered:WM/1", "cell-07", "1 x x")
	p.srv.Must(t, "HSET", p.prefix+":groups:g-1:state", "total", "2")
	p.srv.Must(t, "HSET", p.prefix+":scheduler:entries", "nightly", "{}")
	p.srv.Must(t, "SET", p.prefix+":results:t-1", "\x80")
	letter := p.bury("sfc:outbox:dead", "dead-error", "x")
	testenv.Must(t, p.flows.Start(t.Context(), workflow.Start{Instance: workflow.Instance{ID: "wf <1>", Execution: "x-1"}, Queue: "q", Name: "ship", Event: workflow.Event{ID: "e-1", Type: "started", Time: time.Now()}}))
	posting, err := p.board.Post(t.Context(), board.Draft{Name: "weld"})
	testenv.Must(t, err)
	testenv.Eventually(t, "the orders are there", func() bool { return p.overview().Total == 2 })
	p.get("/search?q=warm", http.StatusOK)
	for query, want := range map[string]string{
		"JO-1": "/orders/JO-1", " JO-17 ": "/orders/JO-17", "OVER": "/orders/OVER", "cell-07": "/stations/cell-07", "WM/1": "/recipes/WM%2F1",
		"g-1": "/tasks/group?id=g-1", "nightly": "/tasks/schedules", letter: "/system/dead?stream=sfc%3Aoutbox%3Adead&id=" + letter,
		"wf <1>": "/workflows/wf%20%3C1%3E", posting.UUID: "/boards/main/" + posting.UUID,
	} {
		p.sent()
		status, h, body := p.request(http.MethodGet, "/search?q="+url.QueryEscape(query), nil, nil)
		if status != http.StatusSeeOther || h.Get("Location") != want {
			t.Errorf("%s: %d to %s, want %s\n%.1000s", query, status, h.Get("Location"), want, body)
		}
		if sent := p.sent(); len(sent) > 20 {
			t.Errorf("%s takes %d commands: %v", query, len(sent), sent)
		}
	}
	p.store("JO-17", &isa95.JobOrder{JobOrderID: "JO-2"}, ready)
	testenv.Eventually(t, "a station with the name of an order", func() bool { return p.overview().Total == 3 })
	found := func(query string) (all []string) {
		var s Search
		p.json("/api/v1/search?q="+url.QueryEscape(query), &s)
		for _, h := range s.Found {
			all = append(all, fmt.Sprintf("%s %s %v", h.Kind, h.ID, h.Exact))
		}
		slices.Sort(all)
		return all
	}
	for query, want := range map[string][]string{
		"JO-17": {"Job order JO-17 true", "Station JO-17 true"}, "jo": {"Job order JO-1 false", "Job order JO-17 false", "Job order JO-2 false", "Station JO-17 false"},
		"": nil, "nothing": nil, uuid.NewString(): nil, "list:cell-07": nil, strings.Repeat("a", 200): nil,
	} {
		if diff := cmp.Diff(want, found(query)); diff != "" {
			t.Errorf("%q:\n%s", query, diff)
		}
		p.get("/search?q="+url.QueryEscape(query), http.StatusOK)
	}
	body := p.get("/search?q="+url.QueryEscape(`"><script>JO`), http.StatusOK)
	if strings.Contains(body, "<script>JO") || !strings.Contains(body, `value="&#34;&gt;&lt;script&gt;JO"`) || !strings.Contains(body, "/tasks/one?ref=%22%3E%3Cscript%3EJO") {
		t.Errorf("%.1500s", body)
	}
	p.get("/search?q="+strings.Repeat("a", maxQuery+1), http.StatusBadRequest)
}
