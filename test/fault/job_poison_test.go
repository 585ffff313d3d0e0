package fault_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/test/rig"
)

// Fault 15: another station has the orders that cost most: of a thousand steps, with results of 150 KiB and conditions with a pattern of the greatest size that is taken, and with
// commands that nothing ever answers. They end as they should, and the orders of this station go on beside them.
func TestFault15CostlyOrders(t *testing.T) {
	t.Parallel()
	const scope isa95.Scope = "costly-cell"
	jobFault{do: func(w *jobWorld) {
		alone := w.median(time.Time{}, time.Now())
		dir := t.TempDir()
		rig.Write(t, filepath.Join(dir, "equipment.yaml"), fmt.Sprintf("scope: %s\ncommands:\n  - {type: com.acme.test.costly.v1, takes: 1ms..2ms, result: {text: %s}}\n", scope, strings.Repeat("a", 150<<10)))
		rig.StartCommand(t, rig.Command{Path: rig.PlainBinary(t), Args: []string{"station", "simulate", filepath.Join(dir, "equipment.yaml"), "--log", filepath.Join(dir, "station.jsonl"), "--mqtt", w.Broker.URL, "--topic-prefix", w.TopicPrefix}})
		ctx, client := rig.Context(t), w.mes.Client
		const costly, silent = "WM-COSTLY", "WM-SILENT"
		for id, text := range map[string]string{costly: thousandSteps(), silent: silentStep} {
			if _, err := client.Apply(ctx, scope, isa95.ConfigWorkMaster, isa95.WorkMaster{ID: id, DataSchema: recipe.SchemaURI, Data: json.RawMessage(text)}); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		const each = 20
		name := func(master string, i int) isa95.JobOrderID {
			return isa95.JobOrderID(fmt.Sprintf("%s-%02d", master, i))
		}
		for i := range each {
			for _, master := range []string{costly, silent} {
				o := &isa95.JobOrder{JobOrderID: string(name(master, i)), WorkMasterID: []isa95.WorkMasterRef{{ID: master}}}
				if _, err := client.Call(ctx, mes.Call{Scope: scope, Method: isa95.StoreAndStart, JobOrder: o}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range each {
			for master, want := range map[string]string{costly: "Ended_Completed", silent: "Aborted"} {
				var state isa95.State
				w.Until(master+" has ended", func() bool {
					r, err := client.JobResponse(ctx, scope, name(master, i))
					if err == nil {
						state, err = isa95.ParseState(r.JobState)
					}
					return err == nil && state.Clearable()
				})
				if state.String() != want {
					t.Errorf("%s ended as %s, want %s", name(master, i), state, want)
				}
				if _, err := client.Clear(ctx, scope, name(master, i)); err != nil {
					t.Error(err)
				}
			}
		}
		t.Logf("half of the orders took more than %v alone, and more than %v beside %d costly ones", alone, w.median(begin, time.Now()), 2*each)
	}}.run(t)
}

// thousandSteps is a recipe of 1,000 steps. The condition behind its command looks at the result with a large pattern.
func thousandSteps() string {
	var steps, transitions []string
	for i := range 1000 {
		steps = append(steps, fmt.Sprintf(`{"Name": "S%d", "Initial": %v}`, i, i == 0))
		if i > 1 {
			transitions = append(transitions, fmt.Sprintf(`{"Source": "S%d", "Target": "S%d", "Condition": "always", "Priority": 0}`, i-1, i))
		}
	}
	return fmt.Sprintf(`{"Steps": [%s], "Transitions": [
  {"Source": "S0", "Target": "S1", "Condition": "not (actions.go.result.text matches 'a{0,8}a{0,8}b')", "Priority": 0}, %s],
"Actions": [{"Name": "go", "Step": "S0", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.costly.v1", "TimeoutSeconds": 3600}]}`,
		strings.Join(steps, ", "), strings.Join(transitions, ", "))
}

// silentStep has a command that no equipment knows.
const silentStep = `{"Steps": [{"Name": "S", "Initial": true}], "Transitions": [],
"Actions": [{"Name": "go", "Step": "S", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.unheard.v1", "TimeoutSeconds": 5}]}`

// median is how long half of the orders took at the machine that began and ended then.
func (w *jobWorld) median(from, to time.Time) time.Duration {
	w.t.Helper()
	type span struct{ first, last time.Time }
	spans := map[string]*span{}
	for _, e := range w.StationLog() {
		if e.Order == "" {
			continue
		}
		if spans[e.Order] == nil {
			spans[e.Order] = &span{first: e.Time}
		}
		spans[e.Order].last = e.Time
	}
	var took []time.Duration
	for _, s := range spans {
		if s.first.After(from) && s.last.Before(to) {
			took = append(took, s.last.Sub(s.first))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond)
}
