package fault_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// oldRecipes are work masters that the version before takes and a delivery today is refused for: each has unknown members
// everywhere, a qualifier that is not carried out, objects that look like references, and a parameter that orders lack.
func oldRecipes() map[string]string {
	recipes := map[string]string{}
	for _, q := range []string{"L", "D", "S", "R", "P0"} {
		recipes["WM-"+q] = fmt.Sprintf(`{"AllowEndles": true, "Steps": [{"Name": "First", "Initial": true, "Intial": 1}, {"Name": "Second"}],
"Transitions": [{"Source": "First", "Target": "Second", "Condition": "not (job.parameters.mark in ['x']) and not (job.id matches 'a{0,1000}b{0,1000}$')", "Priorty": 1},
  {"Source": "First", "Target": "Second", "Condition": "otherwise", "Priority": 1}],
"Actions": [{"Name": "first", "Step": "First", "Qualifier": %[1]q, "Interaction": "push_command", "TypeId": "com.acme.old.go.v1", "TimeoutSeconds": 120, "MaxAttemps": 5, "Paramters": {"force": 1}, "Parameters": {"n": {"$value": "job.parameters.none"}, "x": {"$literal": 5}}},
  {"Name": "second", "Step": "Second", "Qualifier": %[1]q, "Interaction": "push_command", "TypeId": "com.acme.old.go.v1", "TimeoutSeconds": 120, "TimeOutSeconds": 7, "Parameters": {"n": {"$expr": "job.parameters.none * 2"}}}]}`, q)
	}
	return recipes
}

// Fault 26: what the version before accepted runs on. 50 orders run and 50 are stored when it is stopped; their recipes
// have unknown members and qualifiers that this version refuses. With this version all of them end, and none is aborted.
func TestUpgradeRunsOldRecipesOn(t *testing.T) {
	t.Parallel()
	before := rig.Previous(t)
	rig.Binary(t) // so that the pause between the two versions is short
	w := rig.New(t, rig.Options{NoStation: true})
	files := t.TempDir()
	configuration, masters := "scope: "+string(rig.Scope)+"\nwork_masters:\n", []string{}
	for id, text := range oldRecipes() {
		rig.Write(t, filepath.Join(files, id+".json"), text)
		configuration += fmt.Sprintf("  - {id: %s, recipe: %s.json}\n", id, id)
		masters = append(masters, id)
	}
	rig.Write(t, filepath.Join(files, "station.yaml"), configuration)
	rig.Write(t, filepath.Join(files, "equipment.yaml"), "scope: "+string(rig.Scope)+"\ncommands:\n  - {type: com.acme.old.go.v1, takes: 1ms, result: {ok: true}}\n")
	station := func() *rig.Process {
		return rig.Start(t, "station", "simulate", filepath.Join(files, "equipment.yaml"), "--log", w.StationLogFile(), "--mqtt", w.Broker.URL, "--topic-prefix", w.TopicPrefix)
	}

	old := rig.StartCommand(t, rig.Command{Path: before, Args: w.Args("serve", "--data", filepath.Join(w.Dir, "a"), "--worker-ttl", "1s")})
	old.Await(rig.Ready)
	if r := rig.RunCommand(t, rig.Command{Path: before, Args: w.Args("station", "apply", filepath.Join(files, "station.yaml"))}); r.Code != 0 {
		t.Fatalf("the version before does not take the recipes: %+v", r)
	}
	m := rig.NewMES(t, w.Broker.URL, w.TopicPrefix, filepath.Join(w.Dir, "mes-memory.json"), rig.Scope)
	order := func(id string, i int) *isa95.JobOrder {
		return &isa95.JobOrder{
			JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: masters[i%len(masters)]}},
			JobOrderParameters: []isa95.Parameter{{ID: "serial", Value: json.RawMessage(`1`)}},
		}
	}
	must := func(_ isa95.ReturnStatus, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := rig.Context(t)
	first := station()
	m.Follow()
	must(m.Client.StoreAndStart(ctx, rig.Scope, order("OLD-ALONE", 0)))
	m.UntilResults(1) // station and version before work together
	first.Kill()      // the broker keeps its session, and the commands that come now

	const each = 50
	for i := range each {
		must(m.Client.StoreAndStart(ctx, rig.Scope, order(fmt.Sprintf("OLD-RUNS-%02d", i), i)))
		must(m.Client.Store(ctx, rig.Scope, order(fmt.Sprintf("OLD-WAITS-%02d", i), i)))
	}
	w.Until("50 orders run", func() bool {
		n, err := w.Redis.Client.Do(ctx, w.Redis.Client.B().Scard().Key(w.Keys.SfcActiveJobs()).Build()).AsInt64()
		return err == nil && n == each
	})
	old.Stop()

	w.Serve("a")
	station()
	for i := range each {
		must(m.Client.Start(rig.Context(t), rig.Scope, isa95.JobOrderID(fmt.Sprintf("OLD-WAITS-%02d", i))))
	}
	m.UntilResults(1 + 2*each)
	for id, results := range m.Ledger().Results {
		if len(results) != 1 {
			t.Errorf("%s has %d results", id, len(results))
		}
		for _, r := range results {
			if state, err := isa95.ParseState(r.JobState); err != nil || state.String() != "Ended_Completed" {
				t.Errorf("%s ended as %s (%v): %+v", id, state, err, r.JobResponseData)
			}
		}
	}
	w.VerifyStation()

	check := w.Takt("check")
	for _, id := range masters {
		if !strings.Contains(check.Stdout, w.Keys.WorkMaster(id)) || !strings.Contains(check.Stdout, "R036") {
			t.Errorf("takt check does not name %s:\n%s%s", id, check.Stdout, check.Stderr)
		}
	}
	if r := w.Takt("station", "apply", filepath.Join(files, "station.yaml")); r.Code == 0 {
		t.Error("a delivery of such a recipe is taken today")
	}
}
