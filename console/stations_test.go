package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// configure delivers pieces of a configuration.
func (p *plant) configure(pieces ...jobstore.Configuration) {
	p.Helper()
	for _, c := range pieces {
		for {
			snap, err := p.db.Load(p.Context(), jobstore.Query{Holders: isa95.WorkMasterID(c.ID), Scope: c.Scope})
			testenv.Must(p, err)
			if err = p.db.Configure(p.Context(), c, snap, nil); errors.Is(err, jobstore.ErrConflict) {
				continue
			}
			testenv.Must(p, err)
			break
		}
	}
}

// master is a work master with the recipe of the example, changed by pairs of what is replaced.
func (p *plant) master(scope isa95.Scope, id string, change ...string) jobstore.Configuration {
	p.Helper()
	text, err := os.ReadFile("../examples/gearbox-cover/recipe.json")
	testenv.Must(p, err)
	data := strings.NewReplacer(change...).Replace(string(text))
	return jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: scope, ID: id, WorkMaster: &isa95.WorkMaster{ID: id, Data: []byte(data), DataSchema: recipe.SchemaURI}}
}

func (p *plant) has(path string, wants ...string) {
	p.Helper()
	body := p.get(path, http.StatusOK)
	for _, want := range wants {
		if !strings.Contains(body, want) {
			p.Errorf("%s lacks %s", path, want)
		}
	}
}

// Stations show what they have, what they run and their orders; a recipe shows its versions, those of orders that began with it among them, its findings, its chart and what the versions differ in.
func TestStationsAndRecipes(t *testing.T) {
	p := newPlant(t)
	p.has("/stations", "takt station apply stations.yaml", "There is no station")
	p.has("/recipes", "takt station apply stations.yaml", "No station has a work master")
	p.configure(
		p.master("cell-07", "WM-1", "{\n", "{\"Version\": \"1\",\n"), p.master("cell-08", "WM-1", "{\n", "{\"Version\": \"2\",\n", "\"press_bearings\"", "\"press_all_bearings\""),
		jobstore.Configuration{Kind: isa95.ConfigJobAcceptance, Scope: "cell-07", Limit: 2},
		jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "cell-07", ID: "press-07"},
		jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: "cell-08", ID: "WM-PLC", WorkMaster: &isa95.WorkMaster{ID: "WM-PLC", Data: []byte(`{"program": 5}`), DataSchema: "urn:plc"}},
		jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: "cell-08", ID: "WM-0", WorkMaster: &isa95.WorkMaster{ID: "WM-0"}},
	)
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "WAITS", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-1"}}}, ready)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "RUNS", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-1"}}}) // as the example is, with no version
	testenv.Eventually(t, "two orders", func() bool { return p.overview().Total == 2 })

	var stations Stations
	p.json("/api/v1/stations", &stations)
	limit := int64(2)
	if diff := cmp.Diff([]Station{
		{jobstore.StationInfo{Scope: "cell-07", State: "active", Orders: 2, MaxJobOrders: &limit, WorkMasters: []string{"WM-1"}}, []StateCount{{"NotAllowedToStart", 1}, {"Running", 1}}},
		{jobstore.StationInfo{Scope: "cell-08", State: "active", WorkMasters: []string{"WM-0", "WM-1", "WM-PLC"}}, []StateCount{}},
	}, stations.Stations); diff != "" {
		t.Error(diff)
	}
	p.has("/stations", `href="/stations/cell-07"`, `<span class="chip waits">full</span>`, `href="/orders?scope=cell-07&amp;state=Running">1 Running</a>`, `href="/recipes/WM-PLC"`)
	p.has("/stations?id=08", "1 station match")
	var one OneStation
	p.json("/api/v1/stations/cell-08", &one)
	if len(one.Recipes) != 3 || one.Recipes[0].SHA256 != "" || one.Recipes[1].Version != "2" || one.Recipes[1].Steps != 9 || !one.Recipes[2].Foreign {
		t.Errorf("%+v", one.Recipes)
	}
	p.has("/stations/cell-07", "2 of at most 2 orders", "press-07", `href="/runs?scope=cell-07"`, `href="/recipes/WM-1?sha=`)
	p.has("/stations/cell-08", "runs at the station", "no recipe", "takt job store-and-start order.json --scope cell-08")

	var list Recipes
	p.json("/api/v1/recipes", &list)
	if len(list.WorkMasters) != 3 || list.WorkMasters[1].Orders != 2 || len(list.WorkMasters[1].Versions) != 2 || list.WorkMasters[1].Versions[0].Version != "2" || !slices.Equal(list.WorkMasters[1].Versions[1].Scopes, []isa95.Scope{"cell-07"}) {
		t.Errorf("%+v", list.WorkMasters)
	}
	var r OneRecipe
	p.json("/api/v1/recipes/WM-1", &r)
	if len(r.Versions) != 3 || r.Versions[1].Version != "1" || r.Versions[1].Orders[0].ID != "WAITS" || len(r.Versions[2].Scopes) != 0 || r.Versions[2].Orders[0].ID != "RUNS" || r.Chosen != r.Versions[0].SHA256 || r.With != r.Versions[1].SHA256 {
		t.Fatalf("%+v", r)
	}
	var differs []string
	for _, d := range r.Differences {
		differs = append(differs, strings.TrimSpace(d.Change+" "+d.Part+" "+d.Name+" "+d.Field))
	}
	if diff := cmp.Diff([]string{"changed recipe  Version", "removed action press_bearings", "added action press_all_bearings"}, differs); diff != "" {
		t.Error(diff)
	}
	p.has("/recipes/WM-1", `class="takt-chart"`, "press_all_bearings", "None: the check found nothing", "its orders began with it", `href="/stations/cell-08"`)
	p.has("/recipes/WM-1?sha="+r.Versions[2].SHA256[:12]+"&with="+r.Versions[1].SHA256, `href="/orders/RUNS"`, "changed", "No station runs it now", ">Version</td>")
	p.has("/recipes/WM-PLC", "no recipe of Takt")
	p.has("/recipes/WM-0", "The work master has no recipe")
	for _, path := range []string{"/recipes/WM-9", "/recipes/WM-1?sha=123456", "/recipes/WM-1?with=123456", "/stations/cell-99", "/stations/equipment"} {
		p.get(path, http.StatusNotFound)
	}
	p.get("/stations?page=x", http.StatusBadRequest)

	page := p.stream(p.eventsOf(p.get("/stations/cell-07", http.StatusOK)), "")
	p.configure(jobstore.Configuration{Kind: isa95.ConfigPersonnel, Scope: "cell-07", ID: "setter-1"})
	testenv.Take(t, "the page is told of what was delivered", page)

	p.srv.Must(t, "DEL", p.prefix+":wmx:content:"+contentOf(p, "WM-1", "cell-08"))
	p.console.recipes.Forget() // as in a console that has just begun
	p.has("/recipes", "cannot be read", "is missing, though it is what scope")
	p.has("/recipes/WM-1", "cannot be read")
	p.has("/stations/cell-08", "cannot be read")
}

func contentOf(p *plant, id isa95.WorkMasterID, scope isa95.Scope) string {
	p.Helper()
	found, err := p.db.Delivered(p.Context(), scope, id)
	testenv.Must(p, err)
	return found[0].Content
}

// A recipe with a warning and texts full of markup is shown as text; a large one is named, not drawn.
func TestHostileRecipes(t *testing.T) {
	p := newPlant(t)
	const evil = `"'><script>alert(1)<b onclick=x>{{.}}..`
	quoted := strings.ReplaceAll(evil, `"`, `\"`)
	p.configure(
		p.master("cell-08", evil),
		p.master(evil, evil, "{\n", `{"Version": "`+quoted+`",`+"\n", `"Tighten"`, `"`+quoted+`"`, `"Transitions": [`, `"Transitions": [{"Source": "`+quoted+`", "Target": "Release", "Condition": "true", "Priority": 9},`),
		jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: evil, ID: evil},
	)
	p.store(evil, &isa95.JobOrder{JobOrderID: evil, WorkMasterID: []isa95.WorkMasterRef{{ID: evil}}}, ready)
	testenv.Eventually(t, "one order", func() bool { return p.overview().Total == 1 })
	for _, at := range []string{"/stations", stationPath(evil), "/stations?id=" + url.QueryEscape(evil), "/recipes", recipePath(evil), recipePath(evil) + "?sha=" + jobstore.Hash(p.master("cell-08", evil).WorkMaster.Data), "/recipes?id=" + url.QueryEscape(evil), "/orders?waits=" + url.QueryEscape(evil)} {
		_, _, body := p.request(http.MethodGet, at, nil, nil)
		for _, bad := range []string{"<script>", "<b "} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", at, bad)
			}
		}
	}
	p.has(recipePath(evil), "&lt;script&gt;alert(1)", "1 error<", "1 warning<", "R006", "R025", "can never fire")

	text := strings.Builder{}
	text.WriteString(`{"Steps": [{"Name": "S0", "Initial": true}`)
	for i := 1; i < 900; i++ {
		fmt.Fprintf(&text, `, {"Name": "S%d"}`, i)
	}
	text.WriteString(`], "Actions": [], "Transitions": [{"Source": "S0", "Target": "S1", "Condition": "always"}`)
	for i := 1; i < 899; i++ {
		fmt.Fprintf(&text, `, {"Source": "S%d", "Target": "S%d", "Condition": "always"}`, i, i+1)
	}
	text.WriteString(`]}`)
	p.configure(jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: "cell-09", ID: "LARGE", WorkMaster: &isa95.WorkMaster{ID: "LARGE", Data: []byte(text.String()), DataSchema: recipe.SchemaURI}})
	if body := p.get("/recipes/LARGE", http.StatusOK); !strings.Contains(body, "too large for a page. On your machine") || len(body) > 60_000 {
		t.Errorf("%d bytes: %.3000s", len(body), body)
	}
}

// At 1,000 stations and 1,000 work masters, some in many versions, every page takes at most 20 commands of Redis and 60 kB.
func TestManyStations(t *testing.T) {
	p := newPlant(t)
	const many, writers = 1000, 16
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w; i < many; i += writers {
				scope := isa95.Scope(fmt.Sprintf("plant-of-the-enterprise-cell-%04d", i))
				p.configure(
					p.master(scope, fmt.Sprintf("WM-GEARBOX-COVER-%04d", i)), p.master(scope, "WM-OF-ALL", "{\n", fmt.Sprintf("{\"Version\": \"%d\",\n", i/10)),
					jobstore.Configuration{Kind: isa95.ConfigJobAcceptance, Scope: scope, Limit: 5}, jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "plant-of-the-enterprise-cell-0000", ID: fmt.Sprintf("press-%d", i)},
					p.master("plant-of-the-enterprise-cell-0001", fmt.Sprintf("WM-GEARBOX-COVER-%04d", i)),
				)
			}
		})
	}
	wait.Wait()
	p.get("/stations", http.StatusOK)
	for _, path := range []string{
		"/stations", "/stations?page=20", "/stations?id=09", "/stations/plant-of-the-enterprise-cell-0000", "/stations/plant-of-the-enterprise-cell-0001?page=20",
		"/recipes", "/recipes?page=21", "/recipes?id=ALL", "/recipes/WM-OF-ALL", "/recipes/WM-GEARBOX-COVER-0500",
	} {
		p.sent()
		body := p.get(path, http.StatusOK)
		if sent := p.sent(); len(sent) > 20 {
			t.Errorf("%s takes %d commands: %v", path, len(sent), sent)
		}
		if len(body) > 60_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	var page Stations
	p.json("/api/v1/stations?page=2", &page)
	if page.Total != many || page.Page != 2 || page.Pages != many/perPage || len(page.Stations) != perPage || page.Stations[0].Scope != "plant-of-the-enterprise-cell-0050" {
		t.Errorf("page 2: %d stations of %d, page %d of %d", len(page.Stations), page.Total, page.Page, page.Pages)
	}
	var r OneRecipe
	p.json("/api/v1/recipes/WM-OF-ALL", &r)
	if len(r.Versions) != many/10 {
		t.Errorf("%d versions", len(r.Versions))
	}
}

// Orders are found by what they wait for. What was not looked at is said.
func TestWaits(t *testing.T) {
	p := newPlant(t)
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "STORED"}, ready)
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "DONE"}, isa95.State{Top: isa95.Ended, Sub: isa95.Completed})
	p.store("cell-07", &isa95.JobOrder{JobOrderID: "STARTED"}, isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready})
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "RUNS"})
	testenv.Eventually(t, "four orders", func() bool { return p.overview().Total == 4 })
	for kind, want := range map[jobstore.WhyKind]string{
		jobstore.WhyNotStarted: "STORED", jobstore.WhyCompleted: "DONE", jobstore.WhyNoEngine: "STARTED", jobstore.WhyEvent: "RUNS", jobstore.WhyCommand: "", jobstore.WhyPaused: "",
	} {
		var page Orders
		p.json("/api/v1/orders?waits="+string(kind), &page)
		got := ""
		for _, o := range page.Orders {
			got += o.ID
		}
		if got != want || page.Unlooked != 0 || len(page.Orders) > 0 && page.Orders[0].Reason != kind {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	const started, writers = 1100, 16
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w; i < started; i += writers {
				p.store("cell-08", &isa95.JobOrder{JobOrderID: fmt.Sprintf("JO-%04d", i)}, isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready})
			}
		})
	}
	wait.Wait()
	testenv.Eventually(t, "all orders", func() bool { return p.overview().Total == 4+started })
	p.get("/orders?waits=no-engine", http.StatusOK)
	p.sent()
	p.has("/orders?waits=no-engine", "1000 orders match", "the first 1000 in states that can wait for no-engine were looked at, 101 more were not")
	if sent := p.sent(); len(sent) > 20 {
		t.Errorf("%d commands: %v", len(sent), sent)
	}
	p.has("/orders?waits=event", "1 order match", "<option selected>event</option>")
	for _, kind := range []string{"command-unsent", "end-state", "nothing"} {
		p.get("/orders?waits="+kind, http.StatusBadRequest)
	}
}
