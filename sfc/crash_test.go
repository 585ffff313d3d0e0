package sfc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/recipe"
)

// bracket waits for a part, then drills while a probe measures, then releases: every kind of step, in four actions.
const bracket = `{
  "Steps": [{"Name": "Await", "Initial": true}, {"Name": "Drill", "Initial": false}, {"Name": "Probe", "Initial": false}, {"Name": "Release", "Initial": false}],
  "Transitions": [{"Source": "Await", "Target": "Both", "Condition": "always", "Priority": 0}, {"Source": "Both", "Target": "Release", "Condition": "always", "Priority": 0}],
  "Actions": [
    {"Name": "await_part", "Step": "Await", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "part.v1", "TimeoutSeconds": 600},
    {"Name": "drill", "Step": "Drill", "Qualifier": "N", "Interaction": "push_command", "TypeId": "drill.v1", "TimeoutSeconds": 600},
    {"Name": "probe", "Step": "Probe", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "probe.v1", "TimeoutSeconds": 600},
    {"Name": "release", "Step": "Release", "Qualifier": "N", "Interaction": "push_command", "TypeId": "release.v1", "TimeoutSeconds": 600}
  ],
  "Branches": [{"Name": "Both", "Type": "simultaneous", "Branches": [["Drill"], ["Probe"]]}]
}`

// bracketCell answers the drill with a measurement.
func bracketCell(c *cell) {
	c.react = func(o request) reaction {
		if o.Action == "drill" {
			return reaction{
				result: `{"depth": 12.50}`,
				events: []cloudevent.Event{event07("probe.v1", o.scope, o.correlation, `{"bore": 8.001}`)},
			}
		}
		return reaction{result: "{}"}
	}
}

// finished: the order of a bracket ended well and once, whatever happened on the way.
func (p *plant) finished(id string) {
	p.t.Helper()
	p.await(id, "End", "ResultUpdate")
	p.settled()
	if diff := cmp.Diff([]string{"StoreAndStart", "Run", "End", "ResultUpdate"}, p.history(id)); diff != "" {
		p.t.Error(diff)
	}
	snap := p.load(id)
	if snap.Job.State.String() != "Ended_Completed" || snap.Response == nil || !snap.Execution.Completed {
		p.t.Errorf("it is %s, response %v", snap.Job.State, snap.Response)
	}
	if diff := cmp.Diff([]string{"drill#1", "release#1"}, p.cell.done(id)); diff != "" {
		p.t.Errorf("one id per action, iteration and attempt: %s", diff)
	}
	for _, a := range snap.Execution.Actions {
		if a.State != recipe.ActionCompleted || a.Attempt > 1 || a.Iteration != 1 {
			p.t.Errorf("action %+v", a)
		}
	}
	var results []string
	for _, d := range snap.Response.JobResponseData {
		results = append(results, d.ID+"="+string(d.Value))
	}
	if got, want := strings.Join(results, " "), "await_part.n=1 drill.depth=12.50 probe.bore=8.001"; got != want {
		p.t.Errorf("results %s, want %s", got, want)
	}
}

// runCut runs one order on an instance that loses Redis at its n-th command, and lets another instance finish it.
func runCut(t testing.TB, redis *testenv.RedisServer, at int, lose bool) (commands int) {
	p := newPlantOn(t, redis)
	bracketCell(p.cell)
	p.workMaster("WM", []byte(bracket))
	g := testenv.NewGuillotine(t, redis.Addr)
	a := p.start("a", setup{url: g.URL, store: mortal(300 * time.Millisecond)})
	g.Arm(at, lose, func() { p.cell.leave("a") })
	p.order("JO", "WM")
	p.cell.emit(event07("part.v1", "cell-07", "", `{"n":1}`))

	if ended := p.awaitOr(g.Fell, "JO", "End", "ResultUpdate"); !g.Disarm() {
		t.Logf("%s, ended %v", g.Where(), ended)
		p.died("a")
		p.start("b", setup{})
	}
	commands = g.Count()
	p.finished("JO")
	a.stop()
	return commands
}

// An instance dies at any of its commands to Redis: at each window between two writes.
func TestInstanceDiesAtAnyCommand(t *testing.T) {
	redis := testenv.Redis(t)
	n := runCut(t, redis, 0, false)
	t.Logf("a whole run takes %d commands", n)
	for _, lose := range []bool{false, true} {
		for at := 1; at <= n+3; at++ {
			t.Run(fmt.Sprintf("%d-lost-reply=%v", at, lose), func(t *testing.T) {
				t.Parallel()
				runCut(t, redis, at, lose)
			})
		}
	}
}
