package simulation_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	gearboxcover "github.com/taktworks/takt/examples/gearbox-cover"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/simulation"
	"github.com/taktworks/takt/station"
)

// pressing is a command with two attempts of 30 s, then an event within 60 s.
const pressing = `{
	"Steps": [{"Name": "Press", "Initial": true}, {"Name": "Check"}],
	"Transitions": [{"Source": "Press", "Target": "Check", "Condition": "always", "Priority": 0}],
	"Actions": [
		{"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t.press", "TimeoutSeconds": 30, "MaxAttempts": 2,
			"Cancel": {"TypeId": "t.open", "TimeoutSeconds": 10}},
		{"Name": "check", "Step": "Check", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "t.checked", "TimeoutSeconds": 60}
	]
}`

func compile(t *testing.T, text string) *recipe.Program {
	t.Helper()
	p, err := recipe.Compile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run simulates one order of a recipe, and returns its trace: a line for each thing that happened, with its time.
func run(t *testing.T, text, equipment string, faults ...simulation.Fault) (trace []string, r simulation.Result, bound string) {
	t.Helper()
	o := simulation.Options{
		Program: compile(t, text), Faults: faults,
		Orders: []simulation.Order{{Scope: "cell", Order: &isa95.JobOrder{JobOrderID: "JO-1"}}},
	}
	if equipment != "" {
		var err error
		if o.Equipment, err = station.ParseEquipment("equipment.yaml", []byte(equipment)); err != nil {
			t.Fatal(err)
		}
	}
	o.Observe = func(e simulation.Entry) {
		what := e.Note
		switch {
		case e.Fact != nil:
			what = e.Fact.Text(o.Program.Recipe())
		case e.Method != "":
			what = string(e.Method) + ": " + e.State.String()
		}
		trace = append(trace, fmt.Sprintf("%v %s", e.At, what))
	}
	results, bound := simulation.Run(o)
	return trace, results[0], bound
}

func fault(t *testing.T, text string, d station.Disturbance) simulation.Fault {
	t.Helper()
	f, err := simulation.ParseFault(text, d)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// begun is the trace up to the first command of pressing.
const begun = "0s StoreAndStart: AllowedToStart_Ready|0s Run: Running|0s step Press|0s action press: command|"

// What happens when all goes well, and with each fault.
func TestFaults(t *testing.T) {
	silent, refused := station.Disturbance{Silent: true}, station.Disturbance{Refuse: "jammed"}
	late := func(d time.Duration) station.Disturbance { return station.Disturbance{Late: d} }
	const answered = "action press: answer {}|%[1]s transition Press → Check fires: always|%[1]s step Check|%[1]s action check: waits for its event|"
	for _, test := range []struct {
		name      string
		action    string
		fault     station.Disturbance
		equipment string
		want      string
	}{
		{
			name: "none",
			want: begun + "1s " + fmt.Sprintf(answered, "1s") + "2s action check: event without data|2s the recipe is through|2s End: Ended_Completed",
		},
		{
			name: "first attempt refused", action: "press:1", fault: refused,
			want: begun + "1s action press was refused: STATE_INVALID: jammed|1s action press: command, attempt 2|" +
				"2s " + fmt.Sprintf(answered, "2s") + "3s action check: event without data|3s the recipe is through|3s End: Ended_Completed",
		},
		{
			name: "first attempt not answered", action: "press:1", fault: silent,
			want: begun + "10s action press: command again|20s action press: command again|30s action press timed out: no answer within 30 s|30s action press: command, attempt 2|" +
				"30s action press: command t.open calls it off|" +
				"31s " + fmt.Sprintf(answered, "31s") + "32s action check: event without data|32s the recipe is through|32s End: Ended_Completed",
		},
		{
			name: "every attempt refused", action: "press", fault: refused,
			want: begun + "1s action press was refused: STATE_INVALID: jammed|1s action press: command, attempt 2|2s action press was refused: STATE_INVALID: jammed|" +
				"2s the recipe failed: action press was refused: STATE_INVALID: jammed (attempt 2 of 2)|2s Abort: Aborted",
		},
		{
			name: "late within its time", action: "press", fault: late(15 * time.Second),
			want: begun + "10s action press: command again|16s " + fmt.Sprintf(answered, "16s") + "17s action check: event without data|17s the recipe is through|17s End: Ended_Completed",
		},
		{
			name: "event does not come", action: "check", fault: silent,
			want: begun + "1s " + fmt.Sprintf(answered, "1s") + "1m1s action check timed out: no event t.checked within 60 s|" +
				"1m1s the recipe failed: action check timed out: no event t.checked within 60 s|1m1s Abort: Aborted",
		},
		{
			name: "event late", action: "check:1", fault: late(20 * time.Second),
			want: begun + "1s " + fmt.Sprintf(answered, "1s") + "22s action check: event without data|22s the recipe is through|22s End: Ended_Completed",
		},
		{
			name: "event comes before its action waits, and once more", equipment: "scope: cell\ncommands: [{type: t.press, takes: 1s}]\n" +
				"sources: [{type: t.checked, every: 200ms, limit: 2, body: {n: \"${n}\"}}]",
			want: begun + "1s action press: answer {}|1s transition Press → Check fires: always|1s step Check|1s action check: event {\"n\":1}|1s the recipe is through|1s End: Ended_Completed",
		},
		{
			name: "equipment of another station", equipment: "scope: other\ncommands: [{type: t.press}]",
			want: begun + "0s the equipment has no command t.press for station cell: it is not answered|" +
				"10s action press: command again|20s action press: command again|30s action press timed out: no answer within 30 s|30s action press: command, attempt 2|" +
				"30s action press: command t.open calls it off|30s the equipment has no command t.open for station cell: it is not answered|" +
				"40s action press: command again|50s action press: command again|1m0s action press timed out: no answer within 30 s|" +
				"1m0s the recipe failed: action press timed out: no answer within 30 s (attempt 2 of 2)|1m0s action press: command t.open calls it off|1m0s Abort: Aborted",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var faults []simulation.Fault
			if test.action != "" {
				faults = append(faults, fault(t, test.action, test.fault))
			}
			trace, r, bound := run(t, pressing, test.equipment, faults...)
			if got := strings.Join(trace, "|"); got != test.want || bound != "" {
				t.Errorf("%s\n%s\nwant\n%s", bound, strings.Join(trace, "\n"), strings.ReplaceAll(test.want, "|", "\n"))
			}
			if r.Response == nil || r.Response.JobState == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestParseFault(t *testing.T) {
	r := compile(t, pressing).Recipe()
	for text, want := range map[string]string{
		"press": "", "press:2": "", "check": "an event cannot be refused", "presss": "it has press, check", "press:0": "from 1", "press:x": "from 1", "": "must be an action", ":1": "must be an action",
	} {
		f, err := simulation.ParseFault(text, station.Disturbance{Refuse: "jammed"})
		if err == nil {
			err = f.Check(r)
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A simulation ends at its bounds, and where nothing can happen any more; it says what the order waited for.
func TestWithoutEnd(t *testing.T) {
	const waiting = `{"Steps": [{"Name": "A", "Initial": true}, {"Name": "B"}],
		"Transitions": [{"Source": "A", "Target": "B", "Condition": "%s", "Priority": 0}],
		"Actions": [{"Name": "a", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t.a", "TimeoutSeconds": 86400, "MaxAttempts": 40}]}`
	silent := simulation.Fault{Action: "a", Disturbance: station.Disturbance{Silent: true}}
	for _, test := range []struct {
		name, condition string
		faults          []simulation.Fault
		bound           string
		took            time.Duration
		wait            recipe.WaitKind
	}{
		{"events", "step.t > 3000000", nil, "it had 100000 events, which is the limit", 0, recipe.WaitTransition},
		{"time", "always", []simulation.Fault{silent}, "it took 30 days, which is the limit", 30 * 24 * time.Hour, recipe.WaitCommand},
		{"nothing", "job.parameters.go ?? false", nil, "", time.Second, recipe.WaitTransition},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, r, bound := run(t, fmt.Sprintf(waiting, test.condition), "", test.faults...)
			if bound != test.bound || r.State.Top != isa95.Running || len(r.Waits) != 1 || r.Waits[0].Kind != test.wait || test.took != 0 && r.Took != test.took {
				t.Errorf("%q, %+v", bound, r)
			}
		})
	}
}

// An order that the receiver would refuse is refused, with the reason; the others run.
func TestRefusedOrder(t *testing.T) {
	program := compile(t, `{"Steps": [{"Name": "A", "Initial": true}], "Transitions": [],
		"Actions": [{"Name": "a", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t.a", "TimeoutSeconds": 1, "Parameters": {"x": {"$value": "job.parameters.x"}}}]}`)
	with := &isa95.JobOrder{JobOrderID: "JO-2", JobOrderParameters: []isa95.Parameter{{ID: "x", Value: json.RawMessage("1")}}}
	results, _ := simulation.Run(simulation.Options{Program: program, Orders: []simulation.Order{
		{Scope: "cell", Order: &isa95.JobOrder{JobOrderID: "JO-1"}}, {Scope: "cell", Order: with},
	}})
	if results[0].Refused != "parameter x is missing" || results[1].State.Top != isa95.Ended {
		t.Errorf("%+v", results)
	}
}

// The same input gives the same run, entry by entry; another seed gives another one. Each command and wait has its bar.
func TestRunsRepeat(t *testing.T) {
	read := func(file string) []byte {
		text, err := gearboxcover.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	program := compile(t, string(read("recipe.json")))
	equipment, err := station.ParseEquipment("equipment.yaml", read("equipment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := mes.ParseOrders("orders.json", read("orders.json"))
	if err != nil {
		t.Fatal(err)
	}
	var orders []simulation.Order
	for i := range lists[0].JobOrders {
		orders = append(orders, simulation.Order{Scope: lists[0].Scope, Order: &lists[0].JobOrders[i]})
	}
	once := func(e *station.Equipment) (entries []simulation.Entry, results []simulation.Result) {
		results, bound := simulation.Run(simulation.Options{
			Program: program, Equipment: e, Orders: orders, Observe: func(e simulation.Entry) { entries = append(entries, e) },
		})
		if bound != "" {
			t.Error(bound)
		}
		return entries, results
	}
	entries, results := once(equipment)
	again, _ := once(equipment)
	if !reflect.DeepEqual(entries, again) {
		t.Error("two runs of the same input differ")
	}
	if other, _ := once(equipment.Seeded(8)); reflect.DeepEqual(entries, other) {
		t.Error("another seed gives the same run")
	}
	attempts := 0
	for _, e := range entries {
		if e.Fact != nil && (e.Fact.Kind == recipe.FactCommand || e.Fact.Kind == recipe.FactWait) {
			attempts++
		}
	}
	if bars := simulation.Bars(entries, results); len(bars) < attempts || bars[0].Lane != orders[0].Order.JobOrderID {
		t.Errorf("%d bars for %d commands and waits", len(bars), attempts)
	}
}
