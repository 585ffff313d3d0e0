package sfc

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
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

// judged stores and starts a job order as the receiver does that judged it by a recipe; "" is an older build, which did not judge.
func (p *plant) judged(by, id string, parameters ...isa95.Parameter) {
	p.t.Helper()
	ctx := p.t.Context()
	snap, err := p.mes.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope})
	p.must(err)
	p.must(p.mes.Commit(ctx, snap, jobstore.Change{
		Transition: &jobstore.Transition{
			Method: isa95.StoreAndStart, State: isa95.State{Top: isa95.AllowedToStart, Sub: "Ready"}, JudgedBy: by,
			Order: &isa95.JobOrder{JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM"}}, JobOrderParameters: parameters},
		},
		Work: []string{jobstore.WorkStart}, Now: p.mes.Now(),
	}))
}

// A recipe that an older build delivered was taken without references: it needs nothing for what looks like one, and sends
// it as it is, until it is delivered again. Orders that an older build accepted, and did not judge, run it as it is after that, too; one that changes the recipe
// is for them as well.
func TestReferencesOfAnOlderDelivery(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	text := strings.ReplaceAll(string(pushes(2)), `"TimeoutSeconds": 600}`, `"TimeoutSeconds": 600, "Parameters": {"torque_nm": {"$value": "job.parameters.torque"}}}`)
	p.workMaster("WM", []byte(text))
	doc, err := json.Marshal(map[string]any{
		"ID": "WM", "data": json.RawMessage(text), "dataschema": recipe.SchemaURI, "_dataschema": isa95.ConfigWorkMaster.Schema(),
	})
	p.must(err)
	p.must(p.redis.Client.Do(t.Context(), p.redis.Client.B().Set().Key(keys.New(p.prefix).WorkMaster("WM")).Value(string(doc)).Build()).Error())
	var mu sync.Mutex
	bodies := map[string][]string{}
	p.cell.react = func(r request) reaction {
		mu.Lock()
		defer mu.Unlock()
		bodies[r.JobOrderID] = append(bodies[r.JobOrderID], string(r.Parameters))
		return reaction{result: `1`}
	}
	p.start("a", setup{})
	ends := func(by, id, body string, parameters ...isa95.Parameter) {
		t.Helper()
		p.judged(by, id, parameters...)
		p.await(id, "End", "ResultUpdate")
		mu.Lock()
		defer mu.Unlock()
		if got := bodies[id]; !slices.Equal(got, []string{body, body}) {
			t.Errorf("%s: %q, want %s", id, got, body)
		}
	}
	const older, written = "", `{"torque_nm":{"$value":"job.parameters.torque"}}`
	torque := isa95.Parameter{ID: "torque", Value: json.RawMessage(`85.50`)}
	ends(older, "JO-1", written)
	ends(jobstore.JudgedByNone, "JO-2", written)

	p.workMaster("WM", []byte(text)) // the same again
	ends(older, "JO-3", written)
	ends(older, "JO-4", written, torque)
	ends(jobstore.JudgedByNone, "JO-5", `{"torque_nm":85.50}`, torque)

	p.workMaster("WM", []byte(strings.ReplaceAll(text, "torque_nm", "force"))) // another
	ends(older, "JO-6", `{"force":85.50}`, torque)
	p.judged(older, "JO-7")
	p.await("JO-7", "Abort", "ResultUpdate")
	if text := responseError(t, p.load("JO-7").Response); !contains(text, "WM", "has changed", "parameter torque is missing") {
		t.Errorf("the response says %q", text)
	}
	if len(p.cell.done("JO-7")) != 0 {
		t.Error("the equipment was commanded")
	}
}

// A work master that has changed since an order was accepted is judged anew, before the first command. What an earlier
// version accepted was not judged, and runs as it would have.
func TestStartJudgesAChangedWorkMaster(t *testing.T) {
	t.Parallel()
	needs := strings.Replace(string(pushes(2)), `"Condition": "always"`, `"Condition": "job.parameters.torque > 5 or true"`, 1)
	harmless := strings.Replace(string(pushes(2)), `"Condition": "always"`, `"Condition": "job.parameters.mark in ['x'] or true"`, 1)
	for name, tc := range map[string]struct {
		judgedBy, recipe, state string
	}{
		"another recipe":         {strings.Repeat("a", 64), needs, "Aborted"},
		"no recipe was known":    {jobstore.JudgedByNone, needs, "Aborted"},
		"by an earlier version":  {"", harmless, "Ended_Completed"},
		"the parameter is there": {"", string(pushes(2)), "Ended_Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			p.workMaster("WM", []byte(tc.recipe))
			p.judged(tc.judgedBy, "JO")
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
