package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/publisher"
)

// Every answer has the policy and its companions, whatever was asked, and no page has what the policy forbids.
func TestHeaders(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	inline := regexp.MustCompile(`(?i)<script(?: type="module" src="/assets/takt\.js")?>[^<]|<style| style=| on[a-z]+=`)
	for path, want := range map[string]int{
		"/": 200, "/orders": 200, "/runs": 200, "/api/v1/runs": 200, "/system": 200, "/api/v1/system": 200, "/system/dead": 200, "/search": 200, "/search?q=x": 200, "/search?q=JO-1": 303, "/orders/JO-1": 200, "/orders/JO-1/abort": 200, "/api/v1/orders": 200, "/api/v1/orders/JO-1": 200, "/assets/takt.css": 200, "/assets/takt.js": 200,
		"/orders/JO-2": 404, "/orders/JO-1/explode": 404, "/orders/JO-1/resume": 409, "/orders?state=Lost": 400, "/orders?page=0": 400, "/orders?sort=color": 400,
		"/stations": 200, "/stations/cell-07": 200, "/recipes": 200, "/recipes/WM-1": 404, "/api/v1/stations": 200, "/api/v1/recipes": 200, "/orders?waits=event": 200, "/orders?waits=x": 400,
		"/audit": 200, "/audit?user=a": 200, "/audit?before=x": 400, "/login": 303, "/api/v1/openapi.json": 200,
		"/boards": 200, "/boards/main": 200, "/boards/main?state=lost": 400, "/boards/main?page=0": 400, "/boards/main/JO-1": 404, "/boards/other": 404, "/api/v1/boards": 200, "/api/v1/boards/main": 200,
		"/workflows": 200, "/workflows/schedules": 200, "/workflows/JO-1": 404, "/workflows?state=lost": 400, "/api/v1/workflows": 200, "/api/v1/workflows/schedules": 200, "/api/v1/workflows/JO-1": 404,
		"/tasks": 200, "/tasks/list": 200, "/tasks/list?state=lost": 400, "/tasks/one?ref=no": 404, "/tasks/one": 400, "/tasks/dead": 200, "/tasks/dead?after=x": 400, "/tasks/dead/all/requeue": 403, "/tasks/group?id=no": 404, "/tasks/schedules": 200, "/tasks/locks": 200, "/api/v1/tasks": 200,
		"/assets/": 404, "/assets/chart.css": 200, "/assets/takt.svg": 200,
		"/api/v1/orders/JO-2": 404, "/orders/a%2Fb": 404, "/..%2f..%2fetc/passwd": 404, "/assets/..%2f..%2fguard.go": 404,
	} {
		status, h, body := p.request(http.MethodGet, path, nil, nil)
		if status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
		got := []string{h.Get("Content-Security-Policy"), h.Get("X-Content-Type-Options"), h.Get("Referrer-Policy"), h.Get("Cache-Control")}
		if diff := cmp.Diff([]string{
			"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
			"nosniff", "no-referrer", "no-store",
		}, got); diff != "" {
			t.Errorf("headers of %s:\n%s", path, diff)
		}
		if found := inline.FindString(body); strings.HasPrefix(h.Get("Content-Type"), "text/html") && found != "" {
			t.Errorf("%s has %q, which the policy forbids", path, found)
		}
	}
}

// A foreign name of this server is answered 421, a change that another site asks for 403; neither does anything.
func TestForeign(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8420": 200, "127.0.0.1": 200, "[::1]:80": 200, "plant.example": 200, "Plant.Example:8420": 200,
		"evil.example": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "evil.example:8420": 421,
	} {
		if got, _, _ := p.request(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = host }); got != want {
			t.Errorf("host %s: %d, want %d", host, got, want)
		}
	}
	for _, foreign := range []map[string]string{
		{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"},
	} {
		for _, path := range []string{"/orders/JO-1/pause", "/api/v1/orders/JO-1/pause"} {
			got, _, _ := p.request(http.MethodPost, path, url.Values{}, func(r *http.Request) {
				for name, value := range foreign {
					r.Header.Set(name, value)
				}
			})
			if got != http.StatusForbidden {
				t.Errorf("POST with %v: %d, want 403", foreign, got)
			}
		}
	}
	if len(p.calls) > 0 {
		t.Errorf("%d methods were sent", len(p.calls))
	}
}

// The console listens on this machine alone: the error names the rule and the next step.
func TestListen(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:80", "plant.example:80"} {
		_, err := New(Options{Listen: listen})
		if err == nil || !strings.Contains(err.Error(), "must be of this machine") || !strings.Contains(err.Error(), "ssh -L") {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if _, err := New(Options{Listen: "8420"}); err == nil || !strings.Contains(err.Error(), "must be host:port") {
		t.Errorf("8420: %v", err)
	}
}

// At 10,000 orders of many stations, every page of the list and the overview takes at most 20 commands of Redis and 60 kB.
func TestManyOrders(t *testing.T) {
	p := newPlant(t)
	const orders, stations, writers = 10_000, 40, 16
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w; i < orders; i += writers {
				priority := i % 100
				p.store(isa95.Scope(fmt.Sprintf("cell-%02d", i%stations)), &isa95.JobOrder{
					JobOrderID: fmt.Sprintf("ORDER-OF-THE-ERP-%06d", i), Priority: &priority, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-GEARBOX-COVER-3"}},
				}, ready)
			}
		})
	}
	wait.Wait()
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "RUNS"})
	testenv.Eventually(t, "all orders are in the list", func() bool { return p.overview().Total == orders+1 })
	p.get("/orders", http.StatusOK)
	for _, path := range []string{"/", "/orders", "/orders?page=200", "/orders?scope=cell-07&state=NotAllowedToStart&sort=since", "/orders?id=000007", "/orders/ORDER-OF-THE-ERP-000007", "/orders/RUNS", "/orders/RUNS/abort", "/runs"} {
		p.sent()
		body := p.get(path, http.StatusOK)
		if sent := p.sent(); len(sent) > 20 {
			t.Errorf("%s takes %d commands: %v", path, len(sent), sent)
		}
		if len(body) > 60_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	var page Orders
	p.json("/api/v1/orders?scope=cell-07&page=2&sort=id", &page)
	if page.Total != orders/stations+1 || page.Page != 2 || page.Pages != orders/stations/perPage+1 || len(page.Orders) != perPage || page.Orders[0].ID != "ORDER-OF-THE-ERP-002007" || len(page.Scopes) != stations {
		t.Errorf("page 2: %d orders of %d, page %d of %d, the first is %s", len(page.Orders), page.Total, page.Page, page.Pages, page.Orders[0].ID)
	}
	if first := page.Orders[0]; first.Reason != jobstore.WhyNotStarted || first.WaitsFor != "Start" || first.Scope != "cell-07" || first.WorkMaster != "WM-GEARBOX-COVER-3" || first.Since.IsZero() {
		t.Errorf("%+v", first)
	}
}

// The list and the counts say what the store says, by filter; what waits longest is first.
func TestOverviewAndFilter(t *testing.T) {
	p := newPlant(t)
	p.store("cell-01", &isa95.JobOrder{JobOrderID: "OLD"}, ready)
	p.run("cell-02", &isa95.JobOrder{JobOrderID: "RUNS"})
	p.store("cell-02", &isa95.JobOrder{JobOrderID: "FAILED"}, isa95.State{Top: isa95.Aborted})
	testenv.Eventually(t, "three orders", func() bool { return p.overview().Total == 3 })
	o := p.overview()
	counted := make(map[string]int)
	for _, c := range o.Counts {
		counted[c.State] = c.Orders
	}
	if diff := cmp.Diff(map[string]int{"NotAllowedToStart": 1, "AllowedToStart": 0, "Running": 1, "Interrupted": 0, "Ended": 0, "Aborted": 1}, counted); diff != "" {
		t.Error(diff)
	}
	ids := func(orders []Order) (all []string) {
		for _, o := range orders {
			all = append(all, o.ID)
		}
		return all
	}
	if diff := cmp.Diff([]string{"OLD", "RUNS"}, ids(o.Waiting)); diff != "" {
		t.Error(diff)
	}
	if o.Changes[0].ID != "FAILED" || len(o.Engines) != 0 || o.Waiting[1].WaitsFor != "event com.acme.cell.pallet_arrived.v1" {
		t.Errorf("%+v", o)
	}
	for query, want := range map[string][]string{
		"": {"FAILED", "OLD", "RUNS"}, "scope=cell-02": {"FAILED", "RUNS"}, "state=Running": {"RUNS"}, "state=NotAllowedToStart": {"OLD"}, "state=NotAllowedToStart_Loaded": nil,
		"id=A": {"FAILED"}, "sort=since": {"OLD", "RUNS", "FAILED"}, "page=9": {"FAILED", "OLD", "RUNS"}, "scope=nowhere": nil,
	} {
		var page Orders
		p.json("/api/v1/orders?"+query, &page)
		if diff := cmp.Diff(want, ids(page.Orders)); diff != "" {
			t.Errorf("%s:\n%s", query, diff)
		}
	}
	var runs Runs
	for _, query := range []string{"", "?scope=cell-02"} {
		p.json("/api/v1/runs"+query, &runs)
		if len(runs.Runs) != 1 || runs.Runs[0].ID != "RUNS" || runs.Runs[0].Step != "AwaitPallet" || runs.Runs[0].Start.IsZero() || !runs.Runs[0].End.IsZero() {
			t.Errorf("runs%s: %+v", query, runs.Runs)
		}
		if body := p.get("/runs"+query, http.StatusOK); !strings.Contains(body, `class="bar-active"`) {
			t.Errorf("runs%s: no chart of the run", query)
		}
	}
	if body := p.get("/runs?scope=cell-01", http.StatusOK); !strings.Contains(body, "No recipe is in execution at cell-01") {
		t.Error("a station without a run shows one")
	}
	p.commit("cell-02", "FAILED", jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Clear, State: isa95.State{Top: isa95.EndState}}})
	testenv.Eventually(t, "it leaves the list", func() bool { return p.overview().Total == 2 })
}

// Texts of orders are shown as texts, whatever they hold, on every page and in the pictures.
func TestHostileTexts(t *testing.T) {
	p := newPlant(t)
	const evil = `"'><script>alert(1)<b onclick=x>{{.}}`
	order := &isa95.JobOrder{
		JobOrderID: evil, WorkMasterID: []isa95.WorkMasterRef{{ID: evil}}, StartTime: evil, Description: []isa95.LocalizedText{{Text: evil}},
		JobOrderParameters: []isa95.Parameter{{ID: evil, Value: []byte(`"</td></script><script>alert(2)</script>"`)}, {ID: "large", Value: []byte(`"` + strings.Repeat("ä", valueShown) + `"`)}},
	}
	p.run(evil, order)
	testenv.Eventually(t, "it is listed", func() bool { return p.overview().Total == 1 })
	path := orderPath(evil)
	for _, at := range []string{"/", "/orders", "/runs", "/runs?scope=" + url.QueryEscape(evil), "/orders?id=" + url.QueryEscape(evil), "/orders?scope=" + url.QueryEscape(evil), path, path + "/abort", orderPath(evil + "2"), path + "/" + url.PathEscape(evil), "/" + url.PathEscape(evil), "/orders?sort=" + url.QueryEscape(evil)} {
		_, h, body := p.request(http.MethodGet, at, nil, nil)
		for _, bad := range []string{"<script>", "<b ", "</script><script", `""`} {
			if strings.Contains(strings.ReplaceAll(body, `=""`, ""), bad) {
				t.Errorf("%s has %s", at, bad)
			}
		}
		if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			t.Errorf("%s is %s", at, h.Get("Content-Type"))
		}
	}
	body := p.get(path, http.StatusOK)
	for _, want := range []string{"&lt;script&gt;alert(1)", "alert(2)", "cut: the JSON of this page has all of it", "AwaitPallet", `class="takt-chart"`, "await_pallet", `aria-labelledby="h-gantt"`, "StoreAndStart"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the order lacks %s", want)
		}
	}
	var one OneOrder
	p.json("/api/v1"+path, &one)
	if one.JobOrder.JobOrderID != evil || len(one.History) != 2 || one.Run.Execution.CurrentStep != "AwaitPallet" || one.Why.Reasons[0].Kind != jobstore.WhyEvent || len(one.JobOrder.JobOrderParameters[1].Value) < valueShown ||
		one.Topics[0] != (publisher.Topic{Topic: "takt/" + evil + "/order/" + evil, State: "due"}) || one.Topics[1].State != "none" {
		t.Errorf("JSON of the order: %+v", one)
	}
}

// A history that cannot be read does not hide the order.
func TestUnreadableHistory(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	p.srv.Must(t, "XADD", p.prefix+":jobhistory:JO-1", "*", "e", "{")
	body := p.get("/orders/JO-1", http.StatusOK)
	for _, want := range []string{"cannot be read, so it is not drawn", "jobhistory:JO-1", "pallet_arrived", `action="/orders/JO-1/pause"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// A page is told of each commit that changes it, and of those it missed; a commit to another order does not wake the page of one.
func TestEvents(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	testenv.Eventually(t, "it is listed", func() bool { return p.overview().Total == 1 })
	list := p.stream(p.eventsOf(p.get("/orders", http.StatusOK)), "")
	page := p.eventsOf(p.get("/orders/JO-1", http.StatusOK))
	order := p.stream(page, "")

	p.store("cell-07", &isa95.JobOrder{JobOrderID: "JO-2"}, ready)
	testenv.Take(t, "an event of the list", list)

	snap, err := p.db.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1"})
	testenv.Must(t, err)
	p.commit("cell-07", "JO-1", jobstore.Change{Execution: snap.Execution.Pause(p.db.InstallationTime()), Transition: &jobstore.Transition{Method: isa95.Pause, State: isa95.State{Top: isa95.Interrupted, Sub: "Suspended"}}})
	id := testenv.Take(t, "an event of the order", order)
	if body := p.get("/orders/JO-1", http.StatusOK); !strings.Contains(body, "Interrupted_Suspended") || !strings.Contains(p.eventsOf(body), url.QueryEscape(id)) {
		t.Error("the page that follows the event does not show the change")
	}
	if len(order) > 0 {
		t.Error("another order, too, woke the page of the order")
	}
	if got := testenv.Take(t, "what was missed by the address", p.stream(page, "")); got != id {
		t.Errorf("event %s, want %s", got, id)
	}
	if got := testenv.Take(t, "what was missed by Last-Event-ID", p.stream(strings.Split(page, "&after=")[0], "earlier")); got != id {
		t.Errorf("event %s, want %s", got, id)
	}
}

// The buttons are those that the state allows. A method that cannot be taken back is sent only once it was confirmed; what became of it stands on the page that follows.
func TestMethods(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	body := p.get("/orders/JO-1", http.StatusOK)
	for button, there := range map[string]bool{"pause": true, "stop": true, "abort": true, "resume": false, "clear": false, "cancel": false, "start": false, "update": false} {
		if got := strings.Contains(body, `="/orders/JO-1/`+button+`"`); got != there {
			t.Errorf("button %s: %v, want %v", button, got, there)
		}
	}
	for _, c := range []struct {
		path   string
		form   url.Values
		answer string
		status int    // of the API
		shows  string // on the page
		sent   isa95.Method
	}{
		{"pause", url.Values{"command": {"c-1"}}, `{"ReturnStatus":1}`, 200, "Pause was carried out.", isa95.Pause},
		{"pause", url.Values{}, `{"ReturnStatus":8}`, 409, "Pause JO-1 refused", isa95.Pause},
		{"abort", url.Values{"sure": {"yes"}, "comment": {"<i>smoke"}}, `{"ReturnStatus":1}`, 200, "Abort was carried out.", isa95.Abort},
		{"abort", url.Values{}, "", 400, "This cannot be taken back", ""},
		{"clear", url.Values{"sure": {"yes"}}, "", 409, "which does not allow clear", ""},
		{"resume", url.Values{"command": {"c-1"}}, `{"ReturnStatus":1}`, 200, "Resume was carried out.", isa95.Resume}, // a second press: Takt gives the first answer
	} {
		p.mu.Lock()
		p.calls, p.answer = nil, c.answer
		p.mu.Unlock()
		status, h, body := p.request(http.MethodPost, "/orders/JO-1/"+c.path, c.form, nil)
		if status == http.StatusSeeOther {
			body = p.get(h.Get("Location"), http.StatusOK)
		}
		if !strings.Contains(body, c.shows) {
			t.Errorf("%s %v: the page does not say %q (%d)", c.path, c.form, c.shows, status)
		}
		if status, _, body := p.request(http.MethodPost, "/api/v1/orders/JO-1/"+c.path, c.form, nil); status != c.status {
			t.Errorf("%s %v: API %d, want %d: %s", c.path, c.form, status, c.status, body)
		}
		p.mu.Lock()
		for _, e := range p.calls {
			if m, _ := isa95.MethodByTypeID(e.Type); m != c.sent || c.form.Has("command") && e.ID != c.form.Get("command") || !strings.Contains(string(e.Data), "JO-1") {
				t.Errorf("%s: sent %s %s %s", c.path, e.ID, e.Type, e.Data)
			}
		}
		if got := len(p.calls); got != 2 && c.sent != "" || got > 0 && c.sent == "" {
			t.Errorf("%s: %d calls", c.path, got)
		}
		p.mu.Unlock()
	}
}

// A body that is no form is refused: else its fields would be missing without a word.
func TestNotAForm(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	status, _, body := p.request(http.MethodPost, "/api/v1/orders/JO-1/pause", url.Values{}, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"comment":"x"}`)), 15
	})
	if status != http.StatusUnsupportedMediaType || !strings.Contains(body, "must be application/x-www-form-urlencoded") || len(p.calls) > 0 {
		t.Errorf("%d %s, %d calls", status, body, len(p.calls))
	}
}

// A console starts without Redis and the broker and says so on every page. Once Redis is there the pages are; when it goes the list stays as it was last read.
func TestServersAway(t *testing.T) {
	p := &plant{T: t, client: &http.Client{}}
	away := true
	var mu sync.Mutex
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	store, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: prefix, Instance: "plant", Log: quiet})
	testenv.Must(t, err)
	t.Cleanup(store.Close)
	p.db = store
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"}, ready)
	p.redis = testenv.CountingProxy(t, srv.URL)
	p.start(func(ctx context.Context) (*jobstore.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return nil, errors.New("dial tcp: connection refused")
		}
		return jobstore.Open(ctx, jobstore.Options{URL: p.redis.URL, Prefix: prefix, Instance: "console", Looks: true, Log: quiet})
	}, fmt.Sprintf("mqtt://127.0.0.1:%d", testenv.FreePort(t, "127.0.0.1")))
	p.up("Redis", false)
	p.up("Broker", false)
	for path, status := range map[string]int{"/": 200, "/orders": 200, "/runs": 503, "/orders/JO-1": 503, "/orders/JO-1/start": 503, "/nowhere": 404} {
		body := p.get(path, status)
		for _, want := range []string{"Redis does not answer</strong> at redis.example", "Broker does not answer</strong> at broker.example"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not say %s", path, want)
			}
		}
	}
	page := p.stream(p.eventsOf(p.get("/orders", http.StatusOK)), "")
	mu.Lock()
	away = false
	mu.Unlock()
	testenv.Take(t, "the page is told that Redis is back", page)
	p.up("Redis", true)
	testenv.Eventually(t, "the orders are there", func() bool { return strings.Contains(p.get("/orders", http.StatusOK), "JO-1") })
	if body := p.get("/orders/JO-1", http.StatusOK); !strings.Contains(body, "Broker does not answer") {
		t.Error("the page does not say that the broker is down")
	}
	if status, _, body := p.request(http.MethodPost, "/api/v1/orders/JO-1/start", url.Values{}, nil); status != http.StatusServiceUnavailable || !strings.Contains(body, "was not sent") {
		t.Errorf("start without a broker: %d %s", status, body)
	}
	p.redis.Refuse(true)
	p.redis.Cut()
	p.up("Redis", false)
	if body := p.get("/orders", http.StatusOK); !strings.Contains(body, "JO-1") || !strings.Contains(body, "as they were last read") {
		t.Error("the list is gone with Redis")
	}
	p.redis.Refuse(false)
	p.up("Redis", true)
}

// Times of today stand without their date, and durations in their two largest units.
func TestTimes(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration][3]string{
		1500 * time.Millisecond:      {"11:59:58", "11:59:58.500", "1 s"},
		61 * time.Second:             {"11:58:59", "11:58:59.000", "1 min 1 s"},
		11*time.Hour + 5*time.Minute: {"00:55:00", "00:55:00.000", "11 h 5 min"},
		49 * time.Hour:               {"2026-11-26 11:00", "2026-11-26 11:00:00.000", "2 d 1 h"},
		-time.Second:                 {"12:00:01", "12:00:01.000", "0 s"}, // clocks differ
	} {
		at := now.Add(-before)
		if got := [3]string{clock(at, now), moment(at, now), ago(at, now)}; got != want {
			t.Errorf("%v: %q, want %q", before, got, want)
		}
	}
	if clock(time.Time{}, now)+ago(time.Time{}, now) != "" {
		t.Error("no time is shown as one")
	}
}
