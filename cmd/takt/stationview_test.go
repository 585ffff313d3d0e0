package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// yard is a folder with the file of two stations and its recipe, and a store whose receiver takes what the file says, as takt serve does.
type yard struct {
	*testing.T
	store    *jobstore.Store
	receiver *jobcontrol.Receiver
	flags    []string
}

func newYard(t *testing.T) *yard {
	t.Chdir(t.TempDir())
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	store, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: prefix, Instance: "yard", Source: "urn:example:dcs"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &yard{t, store, jobcontrol.New(store, jobcontrol.Options{Source: "urn:example:dcs", TopicPrefix: "takt"}), []string{"--redis", srv.URL, "--prefix", prefix}}
}

// write writes the file of stations and its recipe.
func (y *yard) write(text, version string) {
	y.Helper()
	source := fmt.Sprintf(`{"Version": %q, "Steps": [{"Name": "Press", "Initial": true}], "Transitions": [],
		"Actions": [{"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.example.press.v1", "TimeoutSeconds": 5}]}`, version)
	for name, text := range map[string]string{"station.yaml": text, "recipe.json": source} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			y.Fatal(err)
		}
	}
}

func (y *yard) handle(e cloudevent.Event) {
	y.Helper()
	e.Delivery = cloudevent.Delivery{Topic: "takt/" + e.Subject + "/commands", ResponseTopic: "mes/replies"}
	reply, err := y.receiver.Handle(y.Context(), e)
	if err != nil || reply == nil || !strings.Contains(string(reply.Data), `"ReturnStatus":1`) && !strings.Contains(string(reply.Data), `"ReturnStatus":"1"`) {
		y.Fatalf("%s: %+v, %v", e.Type, reply, err)
	}
}

// apply delivers the file.
func (y *yard) apply() {
	y.Helper()
	conf, err := station.LoadConfiguration("station.yaml", recipe.Options{})
	if err != nil {
		y.Fatal(err)
	}
	events, err := conf.Events("urn:example:mes", y.store.Now())
	if err != nil {
		y.Fatal(err)
	}
	for _, e := range events {
		y.handle(e)
	}
}

// order stores an order of WM-1; one that runs began with what its station runs now.
func (y *yard) order(scope isa95.Scope, id string, runs bool) {
	y.Helper()
	body := fmt.Sprintf(`{"JobOrder":{"JobOrderID":%q,"WorkMasterID":[{"ID":"WM-1"}]}}`, id)
	y.handle(cloudevent.New(isa95.StoreAndStart.TypeID(), "urn:example:mes", string(scope), y.store.Now()).WithData([]byte(body), ""))
	if !runs {
		return
	}
	snap, err := y.store.Load(y.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope, WorkMaster: "WM-1"})
	if err != nil {
		y.Fatal(err)
	}
	program, err := recipe.Compile(snap.WorkMaster.Data)
	if err != nil {
		y.Fatal(err)
	}
	x := &recipe.Execution{
		JobID: id, Scope: string(scope), WorkMasterID: "WM-1", CurrentStep: "Press", ActiveSteps: []string{"Press"}, CorrelationID: recipe.CorrelationID(id, "1"),
		Recipe: program.SHA(), StartedAt: y.store.Now().UnixMilli(), Actions: []recipe.ActionEntry{{Name: "press", State: recipe.ActionPending}},
	}
	err = y.store.Commit(y.Context(), snap, jobstore.Change{
		Now: y.store.Now(), Transition: &jobstore.Transition{Method: isa95.Run, State: isa95.State{Top: isa95.Running}}, Execution: x, Recipe: snap.WorkMaster.Data,
	})
	if err != nil {
		y.Fatal(err)
	}
}

// shows runs a command and wants its exit status and lines, with one blank between words. It returns what standard error has.
func (y *yard) shows(code int, command string, want ...string) string {
	y.Helper()
	got, out, errOut := takt(append(strings.Fields(command), y.flags...)...)
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff(want, lines); got != code || diff != "" {
		y.Errorf("takt %s: exit status %d, want %d: %s\n%s", command, got, code, errOut, diff)
	}
	return errOut
}

// sha is the short SHA-256 of the recipe that a station has in the folder.
func (y *yard) sha() string {
	y.Helper()
	conf, err := station.LoadConfiguration("station.yaml", recipe.Options{})
	if err != nil {
		y.Fatal(err)
	}
	return jobstore.Hash(conf.WorkMasters[0].Data)[:12]
}

const twoStations = `scopes: [cell-07, cell-08]
max_job_orders: 10
equipment: [press-1, camera-1]
work_masters: [{id: WM-1, recipe: recipe.json}, {id: WM-PLC, description: Runs at the station}]
`

// From the empty store over the first delivery to a changed file, and what stations have then.
func TestStationsThatAreThere(t *testing.T) {
	y := newYard(t)
	y.write(twoStations, "1")
	one := y.sha()
	y.shows(exitOK, "station list", "SCOPE STATE JOB ORDERS MAX WORK MASTERS", "(none)")
	said := y.shows(exitFailed, "station diff station.yaml", "SCOPE KIND ID CHANGE VALUE",
		"cell-07 jobacceptance new limit 10", "cell-07 equipment press-1 new", "cell-07 equipment camera-1 new", "cell-07 workmaster WM-1 new recipe "+one, "cell-07 workmaster WM-PLC new",
		"cell-08 jobacceptance new limit 10", "cell-08 equipment press-1 new", "cell-08 equipment camera-1 new", "cell-08 workmaster WM-1 new recipe "+one, "cell-08 workmaster WM-PLC new")
	if !strings.Contains(said, "10 new, 0 changed, 0 extra, 0 unchanged; takt station apply ") || strings.Contains(said, "takes nothing away") {
		t.Error(said)
	}
	if said := y.shows(exitFailed, "station show cell-07"); !strings.Contains(said, "see takt station list") {
		t.Error(said)
	}

	y.apply()
	y.shows(exitOK, "station diff station.yaml", "SCOPE KIND ID CHANGE VALUE",
		"cell-07 jobacceptance unchanged limit 10", "cell-07 equipment press-1 unchanged", "cell-07 equipment camera-1 unchanged", "cell-07 workmaster WM-1 unchanged recipe "+one, "cell-07 workmaster WM-PLC unchanged",
		"cell-08 jobacceptance unchanged limit 10", "cell-08 equipment press-1 unchanged", "cell-08 equipment camera-1 unchanged", "cell-08 workmaster WM-1 unchanged recipe "+one, "cell-08 workmaster WM-PLC unchanged")

	y.order("cell-07", "JO-1", false)
	y.write(`scope: cell-07
equipment: [press-1]
personnel: [operator]
work_masters: [{id: WM-1, recipe: recipe.json}, {id: WM-PLC, description: Changed}]
`, "2")
	two := y.sha()
	said = y.shows(exitFailed, "station diff station.yaml", "SCOPE KIND ID CHANGE VALUE",
		"cell-07 equipment press-1 unchanged", "cell-07 personnel operator new", "cell-07 workmaster WM-1 changed recipe "+one+" -> "+two, "cell-07 workmaster WM-PLC changed",
		"cell-07 equipment camera-1 extra", "cell-07 jobacceptance extra limit 10")
	if !strings.Contains(said, "1 new, 2 changed, 2 extra, 1 unchanged") || !strings.Contains(said, "takes nothing away") {
		t.Error(said)
	}
	_, out, _ := takt(append([]string{"station", "diff", "station.yaml", "--json"}, y.flags...)...)
	var last delivery
	for line := range strings.Lines(out) {
		last = delivery{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Error(line, err)
		}
	}
	if want := (delivery{Scope: "cell-07", Kind: isa95.ConfigJobAcceptance, Change: "extra", Before: "10"}); last != want {
		t.Errorf("%+v, want %+v", last, want)
	}

	y.shows(exitOK, "station list", "SCOPE STATE JOB ORDERS MAX WORK MASTERS", "cell-07 active 1 10 WM-1, WM-PLC", "cell-08 active 0 10 WM-1, WM-PLC")
	y.shows(exitOK, "station list --json",
		`{"scope":"cell-07","state":"active","orders":1,"max_job_orders":10,"work_masters":["WM-1","WM-PLC"]}`, `{"scope":"cell-08","state":"active","orders":0,"max_job_orders":10,"work_masters":["WM-1","WM-PLC"]}`)
	y.shows(exitOK, "station show cell-07", "cell-07 active, job orders: 1, at most: 10", "", "KIND ID VERSION RECIPE",
		"equipment camera-1", "equipment press-1", "workmaster WM-1 1 "+one, "workmaster WM-PLC")

	y.write("scope: [cell-07", "1")
	if said := y.shows(exitUsage, "station diff station.yaml"); !strings.Contains(said, "station.yaml:1") {
		t.Error(said)
	}
}

// Two stations run two recipes under one id, and an order goes on with a third one, which no station has any more.
func TestRecipesThatAreThere(t *testing.T) {
	y := newYard(t)
	y.shows(exitOK, "recipe list", "WORK MASTER VERSION SHA-256 STATIONS JOB ORDERS", "(none)")
	y.write(twoStations, "1")
	one := y.sha()
	y.apply()
	y.order("cell-07", "JO-1", true)
	y.order("cell-07", "JO-2", false)
	y.shows(exitOK, "recipe list", "WORK MASTER VERSION SHA-256 STATIONS JOB ORDERS", "WM-1 1 "+one+" cell-07, cell-08 2")
	deliver := func(scope, version string) string {
		y.write("scope: "+scope+"\nwork_masters: [{id: WM-1, recipe: recipe.json}]\n", version)
		y.apply()
		return y.sha()
	}
	two, three := deliver("cell-07", "2"), deliver("cell-08", "3")
	y.shows(exitOK, "recipe list", "WORK MASTER VERSION SHA-256 STATIONS JOB ORDERS", "WM-1 3 "+three+" cell-08 0", "WM-1 2 "+two+" cell-07 1", "WM-1 1 "+one+" - 1")
	y.shows(exitOK, "recipe show WM-1",
		"WM-1, version 3, SHA-256 "+three, "steps: 1, transitions: 0, actions: 1", "stations that run it: cell-08", "no job order that is not ended uses it",
		"WM-1, version 2, SHA-256 "+two, "steps: 1, transitions: 0, actions: 1", "stations that run it: cell-07", "JOB ORDER SCOPE STATE", "JO-2 cell-07 AllowedToStart_Ready",
		"WM-1, version 1, SHA-256 "+one, "steps: 1, transitions: 0, actions: 1", "stations that run it: none; its job orders began with it", "JOB ORDER SCOPE STATE", "JO-1 cell-07 Running")

	if said := y.shows(exitFailed, "recipe show WM-1 -o out.json"); !strings.Contains(said, "3 recipes are in use") || !strings.Contains(said, "--scope") {
		t.Error(said)
	}
	code, out, said := takt(append([]string{"recipe", "show", "WM-1", "--scope", "cell-07", "-o", "out.json", "--json"}, y.flags...)...)
	var shown storedRecipe
	if err := json.Unmarshal([]byte(out), &shown); code != exitOK || err != nil || shown.Version != "2" || len(shown.Orders) != 1 || jobstore.Hash(shown.Recipe) != shown.SHA256 {
		t.Errorf("exit status %d, %v: %s%s", code, err, out, said)
	}
	if text, err := os.ReadFile("out.json"); err != nil || jobstore.Hash(text) != shown.SHA256 {
		t.Errorf("%s, %v", text, err)
	}
	for command, want := range map[string]string{
		"recipe show WM-1 --scope cell-09": "takt station show cell-09", "recipe show WM-PLC": "takt recipe list", "recipe show WM-0": "takt recipe list",
	} {
		if said := y.shows(exitFailed, command); !strings.Contains(said, want) {
			t.Errorf("%s: %s", command, said)
		}
	}
}
