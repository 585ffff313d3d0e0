package sfc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// The values of an order reach the machine as they were sent, and the same with each repetition of the command.
func TestReferencesReachTheMachine(t *testing.T) {
	long.Test(t, "waits until a command is sent again")
	t.Parallel()
	p := newPlant(t)
	p.workMaster("WM", []byte(strings.Replace(strings.Replace(string(pushes(2)), `"TimeoutSeconds": 600}`, `"TimeoutSeconds": 6, "MaxAttempts": 9, "Parameters": {"torque_nm": {"$value": "job.parameters.torque"}}}`, 1),
		`"TimeoutSeconds": 600}`, `"TimeoutSeconds": 600, "Parameters": {"twice": {"$expr": "actions.a0.result.n * 2"}, "list": [{"$value": "job.parameters.list"}]}}`, 1)))
	var bodies []string
	p.cell.react = func(r request) reaction {
		bodies = append(bodies, string(r.Parameters))
		if r.Action == "a0" && r.nth == 1 { // its repetitions get no answer either
			return reaction{silent: true}
		}
		return reaction{result: `{"n": 21}`}
	}
	p.start("a", setup{})
	p.call("JO", isa95.StoreAndStart, &isa95.JobOrder{
		JobOrderID: "JO", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM"}},
		JobOrderParameters: []isa95.Parameter{{ID: "torque", Value: json.RawMessage(`85.50`)}, {ID: "list", Value: json.RawMessage(`[1.0,"<"]`)}},
	})
	p.await("JO", "End", "ResultUpdate")
	p.cell.mu.Lock()
	defer p.cell.mu.Unlock()
	if len(bodies) != 3 || bodies[0] != `{"torque_nm":85.50}` || bodies[1] != bodies[0] || !strings.HasPrefix(bodies[2], `{"twice":42,"list":[[1.0,`) {
		t.Errorf("%q", bodies)
	}
	sent := map[string]string{}
	for _, e := range p.cell.sent {
		if before, again := sent[e.ID]; again && before != string(e.Data) {
			t.Errorf("a repetition has %s, the first %s", e.Data, before)
		}
		sent[e.ID] = string(e.Data)
	}
	if len(p.cell.sent) <= len(sent) {
		t.Error("nothing was sent again")
	}
}

// A work master that has changed since an order was accepted is judged anew, before the first command.
func TestStartJudgesAChangedWorkMaster(t *testing.T) {
	t.Parallel()
	needs := strings.Replace(string(pushes(2)), `"Condition": "always"`, `"Condition": "job.parameters.torque > 5 or true"`, 1)
	for name, tc := range map[string]struct {
		judgedBy, recipe, state string
	}{
		"another recipe":          {strings.Repeat("a", 64), needs, "Aborted"},
		"no recipe was known":     {jobstore.JudgedByNone, needs, "Aborted"},
		"no parameter is missing": {jobstore.JudgedByNone, string(pushes(2)), "Ended_Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			p.workMaster("WM", []byte(tc.recipe))
			p.judged(scope, tc.judgedBy, "JO")
			p.start("a", setup{})
			if tc.state == "Aborted" {
				p.await("JO", "Abort", "ResultUpdate")
				if text := responseError(t, p.load("JO").Response); !contains(text, "WM", "has changed", "parameter torque is missing") {
					t.Errorf("the response says %q", text)
				}
				if len(p.cell.done("JO")) != 0 {
					t.Error("the equipment was commanded")
				}
			} else {
				p.await("JO", "End", "ResultUpdate")
			}
			if got := p.state("JO"); got != tc.state {
				t.Errorf("the order is %s, want %s", got, tc.state)
			}
		})
	}
}
