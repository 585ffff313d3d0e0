package jobstore_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// whyRecipe: Weld sends a command, and is left by its result, or a dwell time; Scan awaits an event.
const whyRecipe = `{
  "Steps": [{"Name": "Weld", "Initial": true}, {"Name": "Scan"}, {"Name": "Rework"}],
  "Transitions": [
    {"Source": "Weld", "Target": "Scan", "Condition": "actions.weld.result.force >= job.parameters.force", "Priority": 0},
    {"Source": "Weld", "Target": "Rework", "Condition": "actions.weld.result.force < 5 and step.t > 10", "Priority": 1}],
  "Actions": [
    {"Name": "weld", "Step": "Weld", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.example.weld.v1", "TimeoutSeconds": 30, "MaxAttempts": 3},
    {"Name": "scan", "Step": "Scan", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "com.example.part.v1", "TimeoutSeconds": 60, "Parameters": {"asset_id": "scale"}},
    {"Name": "rework", "Step": "Rework", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.example.rework.v1", "TimeoutSeconds": 30}]
}`

// whyCase is an order and what is to be said of it.
type whyCase struct {
	kind  jobstore.WhyKind
	state isa95.State
	setup func(c *jobstore.Situation, r *whyRun)
	text  string // of the first reason
	next  string // is part of its next step
	short string
}

// whyRun drives the recipe of a case.
type whyRun struct {
	t     *testing.T
	p     *recipe.Program
	o     recipe.Order
	x     *recipe.Execution
	start time.Time
	now   time.Time
}

func (r *whyRun) begin() *whyRun {
	r.x = r.p.Start(r.o, "WM-1", "1-0", nil, r.now).Docs.Execution
	return r
}

func (r *whyRun) answer(a recipe.Answer) *whyRun {
	a.CommandID = r.x.Action("weld").CommandID
	out := r.p.Answer(r.o, recipe.Docs{Execution: r.x}, a, r.now)
	if out.Stale {
		r.t.Fatal(out.Note)
	}
	r.x = out.Docs.Execution
	return r
}

func (r *whyRun) after(d time.Duration) *whyRun {
	r.now = r.now.Add(d)
	return r
}

func welded(force string) recipe.Answer {
	return recipe.Answer{Result: json.RawMessage(`{"force":` + force + `}`)}
}

var whyCases = []whyCase{
	{jobstore.WhyNotStarted, isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}, func(c *jobstore.Situation, _ *whyRun) { c.Job.JobOrder.StartTime = "2026-03-01T08:00:00Z" },
		"it is stored, and Start has not come; its StartTime 2026-03-01T08:00:00Z is for the MES, which sends Start", "takt job start JO-1 --scope cell-07", "Start"},
	{jobstore.WhyNoEngine, released, nil,
		"its start waits in sfc:work, and no process of takt serve with the role engine gives a sign of life", "takt serve", "takt serve"},
	{jobstore.WhyQueued, released, func(c *jobstore.Situation, _ *whyRun) {
		c.Engines, c.Queue = []string{"a", "b"}, jobstore.QueuePlace{Entry: "17-0", Before: 12}
	}, "its start waits in sfc:work as entry 17-0 behind 12 others; 2 processes take them", "takt serve", "its start"},
	{jobstore.WhyQueued, released, func(c *jobstore.Situation, _ *whyRun) {
		c.Engines, c.Queue = []string{"a"}, jobstore.QueuePlace{Before: 1000}
	}, "its start waits in sfc:work behind more than 1000 others; 1 process takes them", "takt serve", "its start"},
	{jobstore.WhyInWork, released, func(c *jobstore.Situation, _ *whyRun) {
		c.Engines, c.Queue = []string{"a"}, jobstore.QueuePlace{Entry: "17-0", Worker: "a", Deliveries: 4, Idle: 2 * time.Second}
	}, "its start is in the hands of a, handed out 4 times, the last time 2s ago", "the log of a", "its start"},
	{jobstore.WhyForgotten, released, func(c *jobstore.Situation, _ *whyRun) { c.Engines = []string{"a"} },
		"no entry of sfc:work leads to it, though its start is due", "sweep", "its start"},
	{jobstore.WhyStationAsked, released, func(c *jobstore.Situation, _ *whyRun) { c.Job.Station = jobstore.Station{Start: "c-1"} },
		"no recipe of Takt runs it, and its station has not said Run since it was sent Start c-1", "plant/takt/equipment/cell-07/events", "Run of its station"},
	{jobstore.WhyStationRefused, released, func(c *jobstore.Situation, _ *whyRun) {
		c.Job.Station = jobstore.Station{Start: "c-1", Refused: "BUSY: door open"}
	}, "its station refuses the command Start c-1: BUSY: door open", "takt job cancel JO-1 --scope cell-07", "its station, which refuses"},
	{jobstore.WhyStationRuns, running, func(c *jobstore.Situation, _ *whyRun) {
		c.Job.Station = jobstore.Station{Start: "c-1", Started: "2026-03-01T08:00:00.000Z"}
	}, "its station runs it without a recipe since 2026-03-01T08:00:00.000Z, and has not said End", "takt job abort JO-1 --scope cell-07", "End of its station"},
	{jobstore.WhyCommand, running, func(_ *jobstore.Situation, r *whyRun) { r.begin().after(4 * time.Second) },
		"step Weld waits for the answer to weld (com.example.weld.v1), attempt 1 of 3, for 4s; it times out in 26s; the command is sent again in 6s", "plant/takt/equipment/cell-07/commands", "answer to weld, 4s"},
	{jobstore.WhyCommandUnsent, running, func(c *jobstore.Situation, r *whyRun) {
		r.begin().after(4 * time.Second)
		c.Unsent = map[string]bool{r.x.Action("weld").CommandID: true}
	}, "the broker has not taken the command of weld (com.example.weld.v1) in step Weld, attempt 1 of 3, for 4s: it stands in sfc:outbox", "takt doctor", "the broker, for weld"},
	{jobstore.WhyStandstill, running, func(c *jobstore.Situation, r *whyRun) {
		r.begin()
		c.Standstill, c.Engines = 15*time.Second, []string{"a"}
	}, "no process could take answers of equipment for 15s, so time-outs and step.t stand still", "from a", "takt serve"},
	{jobstore.WhyEvent, running, func(c *jobstore.Situation, r *whyRun) {
		r.begin().answer(welded("12")).after(time.Second)
		since := r.start.UnixMilli()
		c.Mailboxes = map[string]*recipe.Mailbox{"com.example.part.v1": {Waiting: []recipe.Waiting{
			{JobID: "JO-0", Asset: "scale", Since: since - 1}, {JobID: "JO-1", Asset: "scale", Since: since}, {JobID: "JO-2", Asset: "scale", Since: since + 1}, {JobID: "JO-00", Since: since - 1},
		}}}
	}, "step Scan waits for event com.example.part.v1 of scale (action scan) for 1s; it times out in 59s; 1 order that began earlier waits for the same event", "plant/takt/equipment/cell-07/events", "event com.example.part.v1 of scale"},
	{jobstore.WhyConditionFalse, running, func(_ *jobstore.Situation, r *whyRun) { r.begin().answer(welded("8")).after(3 * time.Second) },
		"step Weld is done for 3s, and Weld > Scan does not fire: actions.weld.result.force >= job.parameters.force is false, actions.weld.result.force = 8, job.parameters.force = 10", "takt job stop JO-1 --scope cell-07",
		"Weld > Scan: actions.weld.result.force = 8, job.parameters.force = 10"},
	{jobstore.WhyConditionTrue, running, func(_ *jobstore.Situation, r *whyRun) {
		r.begin().answer(welded("8")).after(time.Second)
		r.x.Action("weld").Result = json.RawMessage(`{"force":12}`)
	}, "step Weld is done, and the condition of Weld > Scan, actions.weld.result.force >= job.parameters.force, is true: it fires when it is looked at", "takt doctor", "Weld > Scan"},
	{jobstore.WhyConditionFails, running, func(_ *jobstore.Situation, r *whyRun) {
		r.begin().answer(welded("8"))
		r.x.Action("weld").Result = json.RawMessage(`{"force":"8"}`)
	}, "step Weld is done, and the condition of Weld > Scan, actions.weld.result.force >= job.parameters.force, fails: invalid operation: a string >= a number", "mend the recipe", "Weld > Scan"},
	{jobstore.WhyRunOver, running, func(c *jobstore.Situation, r *whyRun) {
		r.begin()
		r.x = r.x.Stop(r.now)
		c.Engines = []string{"a"}
	}, "its run is over (Completed at step Weld), and the order is not yet", "nothing", "the end of its run"},
	{jobstore.WhyExecutionLost, running, nil, "its execution document is gone", "takt check", "the sweep"},
	{jobstore.WhyRecipeLost, running, func(c *jobstore.Situation, r *whyRun) {
		r.begin()
		c.Program, c.NoProgram = nil, "its text is no longer stored"
	}, "cannot be read: its text is no longer stored; the next event aborts it", "takt check", "its recipe"},
	{jobstore.WhyPaused, isa95.State{Top: isa95.Interrupted, Sub: isa95.Suspended}, func(_ *jobstore.Situation, r *whyRun) {
		r.begin()
		r.x = r.x.Pause(r.now)
		r.after(time.Minute)
	}, "it is paused at step Weld for 1m0s; time-outs stand still, and nothing is sent", "takt job resume JO-1 --scope cell-07", "Resume"},
	{jobstore.WhyPaused, isa95.State{Top: isa95.Interrupted, Sub: isa95.Suspended}, func(c *jobstore.Situation, _ *whyRun) { c.Job.Station = jobstore.Station{Start: "c-1"} },
		"it is paused, and its station, which runs it without a recipe, was told so", "takt job resume JO-1 --scope cell-07", "Resume"},
	{jobstore.WhyAttemptFailed, isa95.State{Top: isa95.Interrupted, Sub: isa95.Suspended}, func(_ *jobstore.Situation, r *whyRun) {
		r.begin()
		r.x = r.x.Pause(r.now)
		r.answer(recipe.Answer{Error: &recipe.ActionError{Kind: "BUSY", Message: "door open"}})
	}, "action weld was refused: BUSY: door open, at attempt 1 of 3; what follows comes with Resume", "takt job resume JO-1 --scope cell-07", "Resume"},
	{jobstore.WhyCompleted, completed, func(c *jobstore.Situation, _ *whyRun) {
		c.Response = &isa95.JobResponse{StartTime: "2026-03-01T08:00:00Z", EndTime: "2026-03-01T08:01:00Z"}
	}, "it was done at 2026-03-01T08:01:00Z, and waits for Clear", "takt job clear JO-1 --scope cell-07", "Clear"},
	{jobstore.WhyStopped, completed, func(_ *jobstore.Situation, r *whyRun) {
		r.begin()
		r.x = r.x.Stop(r.now)
	}, "Stop ended it at step Weld, at an unknown time, with the results so far; it waits for Clear", "takt job clear JO-1 --scope cell-07", "Clear"},
	{jobstore.WhyRunFailed, isa95.State{Top: isa95.Aborted}, func(_ *jobstore.Situation, r *whyRun) {
		r.begin()
		for range 3 {
			r.answer(recipe.Answer{Error: &recipe.ActionError{Kind: "BUSY", Message: "door open"}})
		}
	}, "its run failed at step Weld: action weld was refused: BUSY: door open (attempt 3 of 3); its command was com.example.weld.v1", "look at the equipment of cell-07", "Clear; action weld was refused: BUSY: door open (attempt 3 of 3)"},
	{jobstore.WhyRunFailed, isa95.State{Top: isa95.Aborted}, func(_ *jobstore.Situation, r *whyRun) {
		r.begin().answer(welded("12")).after(time.Hour)
		r.x = r.p.Tick(r.o, recipe.Docs{Execution: r.x}, r.now).Docs.Execution
	}, "its run failed at step Scan: action scan timed out: no event com.example.part.v1 of scale within 60 s; it waited for the event com.example.part.v1 in iteration 1", "look at the equipment of cell-07", ""},
	{jobstore.WhyRunFailed, isa95.State{Top: isa95.Aborted}, func(_ *jobstore.Situation, r *whyRun) { r.begin().answer(welded(`"8"`)) },
		`its run failed at step Weld: condition "actions.weld.result.force >= job.parameters.force" from Weld to Scan failed: invalid operation: a string >= a number`, "mend that", ""},
	{jobstore.WhyNotBegun, isa95.State{Top: isa95.Aborted}, func(c *jobstore.Situation, _ *whyRun) {
		c.Response = &isa95.JobResponse{JobResponseData: []isa95.Parameter{{ID: jobstore.ErrorParameter, Value: []byte(`"work master \"WM-1\" is not known"`)}}}
	}, `its recipe could not start: work master "WM-1" is not known`, "takt job clear JO-1 --scope cell-07", `Clear; not begun: work master "WM-1" is not known`},
	{jobstore.WhyAborted, isa95.State{Top: isa95.Aborted}, func(_ *jobstore.Situation, r *whyRun) {
		r.begin()
		r.x = r.x.Abort(jobstore.AbortedBy+"urn:example:mes", r.now)
	}, "it was aborted by urn:example:mes with a command Abort at step Weld", "takt job clear JO-1 --scope cell-07", "Clear; aborted by urn:example:mes"},
	{jobstore.WhyAborted, isa95.State{Top: isa95.Aborted}, func(c *jobstore.Situation, _ *whyRun) { c.Response = &isa95.JobResponse{} },
		"a command Abort of the MES or of its station ended it before a recipe of Takt ran", "takt job clear JO-1 --scope cell-07", "Clear; aborted"},
	{jobstore.WhyCleared, isa95.State{Top: isa95.EndState}, func(c *jobstore.Situation, _ *whyRun) { c.Expires = 50*time.Hour + 300*time.Millisecond },
		"it was canceled or cleared, and its documents expire in 50h0m0s", "takt job store FILE --scope cell-07", ""},
}

// One row per reason: each names the thing, its value and the next step.
func TestWhy(t *testing.T) {
	p, err := recipe.Compile([]byte(whyRecipe))
	if err != nil {
		t.Fatal(err)
	}
	shown, rows := make(map[jobstore.WhyKind]bool), make(map[jobstore.WhyKind]jobstore.WhyRow)
	for _, row := range jobstore.WhyReasons() {
		rows[row.Kind] = row
	}
	for _, c := range whyCases {
		shown[c.kind] = true
		t.Run(string(c.kind)+" "+c.state.String(), func(t *testing.T) {
			start := time.UnixMilli(1_800_000_000_000)
			job := &jobstore.StoredOrder{State: c.state, Scope: "cell-07", JobOrder: &isa95.JobOrder{
				JobOrderID: "JO-1", JobOrderParameters: []isa95.Parameter{{ID: "force", Value: []byte("10")}},
			}}
			s := &jobstore.Situation{Snapshot: &jobstore.Snapshot{JobOrderID: "JO-1", Job: job}, Program: p}
			r := &whyRun{t: t, p: p, o: job.RecipeOrder(), start: start, now: start}
			if c.setup != nil {
				c.setup(s, r)
			}
			s.Execution, s.Installation = r.x, r.now
			why := s.Why("plant/takt")
			i := 0
			for i < len(why.Reasons)-1 && why.Reasons[i].Kind != c.kind {
				i++
			}
			got := why.Reasons[i]
			if first := why.Reasons[0].Kind; !slices.Contains(rows[first].Tops, c.state.Top) && first != jobstore.WhyCommandUnsent && first != jobstore.WhyCleared {
				t.Errorf("a list can show %s for an order that is %s, and its row has %v", first, c.state, rows[first].Tops)
			}
			if got.Kind != c.kind || !strings.Contains(got.Text, c.text) || !strings.Contains(got.Next, c.next) || c.short != "" && got.Short != c.short {
				t.Errorf("%+v\nwant %s\n%q\n%q\n%q", why, c.kind, c.text, c.next, c.short)
			}
			if !strings.HasPrefix(why.Answer, "JO-1 at cell-07 is "+c.state.String()+": "+why.Reasons[0].Text) {
				t.Errorf("answer %q", why.Answer)
			}
		})
	}
	page, err := os.ReadFile("../docs/concepts/orders.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range jobstore.WhyReasons() {
		if !shown[row.Kind] {
			t.Errorf("no row shows %s", row.Kind)
		}
		if line := "| `" + string(row.Kind) + "` | " + row.When + " | " + row.Next + " |"; !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/concepts/orders.md lacks\n%s", line)
		}
	}
}
