package workflowhistory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// at is an event a number of seconds after the begin.
func at(second int, kind string, ref int64, data string) workflow.Event {
	return workflow.Event{Sequence: int64(second) + 1, Type: kind, Ref: ref, Time: began.Add(time.Duration(second) * time.Second), Data: []byte(data)}
}

// events are some as go-workflows writes them. "eyJhIjoxfQ==" is {"a":1}, "MTIz" is 123.
var events = []workflow.Event{
	at(0, "WorkflowExecutionStarted", 0, `{"name":"Deliver","inputs":["eyJhIjoxfQ==","MTIz"]}`),
	at(1, "ActivityScheduled", 1, `{"name":"Pay","inputs":["MTIz"]}`),
	at(2, "TimerScheduled", 2, `{"name":"patience","at":"2026-11-01T13:00:00Z"}`),
	at(3, "SubWorkflowScheduled", 3, `{"name":"Label","sub_workflow_instance":{"instance_id":"label-1","execution_id":"x"}}`),
	at(4, "SignalReceived", 0, `{"name":"paid","arg":"MTIz"}`),
	at(5, "ActivityFailed", 1, `{"error":{"Type":"refused","Message":"no cover"}}`),
	at(6, "SubWorkflowCompleted", 3, `{"result":"eyJhIjoxfQ=="}`),
	at(7, "WorkflowExecutionContinuedAsNew", 0, `{"continued_execution_id":"y"}`),
}

// An entry has the name of what it is about, also if an end does not say it, and what came with it in words.
func TestEntries(t *testing.T) {
	var got []string
	for _, e := range workflowhistory.Of(workflow.Detail{}, append(events, at(8, "Foreign", 0, `{"payload":"eyJhIjoxfQ=="}`), at(9, "Broken", 0, `{`), at(10, "TimerFired", 99, ``))).Lines {
		got = append(got, strings.Join([]string{e.Type, e.Name, e.Value}, "|"))
	}
	want := []string{
		`WorkflowExecutionStarted|Deliver|{"a":1}, 123`,
		`ActivityScheduled|Pay|123`,
		`TimerScheduled|patience|at 2026-11-01 13:00:00.000`,
		`SubWorkflowScheduled|Label|label-1`,
		`SignalReceived|paid|123`,
		`ActivityFailed|Pay|refused: no cover`,
		`SubWorkflowCompleted|Label|{"a":1}`,
		`WorkflowExecutionContinuedAsNew||`,
		`Foreign||{"payload":{"a":1}}`,
		`Broken||{`,
		`TimerFired||`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	h := workflowhistory.Of(workflow.Detail{Info: workflow.Info{Instance: workflow.Instance{ID: "order-1"}, State: workflow.ContinuedAsNew}}, events)
	if h.Next == nil || h.Next.String() != "order-1:y" || h.Came != "" {
		t.Errorf("it went on as %v, with %q", h.Next, h.Came)
	}
}

// A span is from its first event to the one that ends it, or to the end of the execution; a bar goes on until now.
func TestSpans(t *testing.T) {
	now := began.Add(10 * time.Second)
	detail := workflow.Detail{Info: workflow.Info{Instance: workflow.Instance{ID: "order-1"}, Name: "Deliver", Created: began}, Now: now}
	link := func(i workflow.Instance) string { return "to " + i.ID + ":" + i.Execution }
	want := []chart.Bar{
		{Lane: "workflow", Name: "Deliver", State: "active", To: 10 * time.Second},
		{Lane: "activity Pay", State: "failed", From: time.Second, To: 5 * time.Second},
		{Lane: "timer patience", State: "active", From: 2 * time.Second, To: 10 * time.Second},
		{Lane: "child Label", Name: "label-1", Href: "to label-1:x", State: "done", From: 3 * time.Second, To: 6 * time.Second},
		{Lane: "signals", Name: "paid", State: "done", From: 4 * time.Second, To: 4 * time.Second},
	}
	h := workflowhistory.Of(detail, events)
	if diff := cmp.Diff(want, h.Bars(len(events), link)); diff != "" {
		t.Error(diff)
	}
	if bars := h.Bars(2, link); len(bars) != 3 || bars[0].From != 0 || bars[1].From != 0 || bars[2].From != time.Second {
		t.Errorf("time does not begin with the first span: %v", bars)
	}
	fired := workflowhistory.Of(detail, []workflow.Event{events[2], at(2, "TimerFired", 2, `{"name":"patience","at":"`+began.Add(9*time.Second).Format(time.RFC3339)+`"}`)})
	if s := fired.Timeline[0]; s.State != "done" || !s.End.Equal(began.Add(9*time.Second)) {
		t.Errorf("a timer does not end when it fired: %+v", s)
	}
	ended := began.Add(8 * time.Second)
	detail.Ended, detail.State, detail.Outcome = &ended, workflow.Finished, workflow.Completed
	h = workflowhistory.Of(detail, events)
	if s := h.Timeline[1]; s.State != "canceled" || !s.End.Equal(ended) {
		t.Errorf("the timer outlives its workflow: %+v", s)
	}
	if bars := h.Bars(len(events), link); bars[0].State != "done" || bars[0].To != 8*time.Second {
		t.Errorf("%v", bars[0])
	}
}

// Payloads in JSON are decoded; what is not one stays as it is.
func TestDecoded(t *testing.T) {
	for data, want := range map[string]string{
		``:     ``,
		`null`: `null`,
		`{"inputs":["eyJhIjoxfQ=="],"result":"MTIz","name":"order"}`: `{"inputs":[{"a":1}],"name":"order","result":123}`,
		`{"name":"true","n":9007199254740993}`:                       `{"n":9007199254740993,"name":"true"}`,
		`"aGVsbG8="`:                                                 `"aGVsbG8="`, // hello: no JSON
		`{broken`:                                                    `{broken`,
		`{"a":"\u001b[31m\n"}`:                                       `{"a":"\u001b[31m\n"}`,
		`{"a":"<b> & c"}`:                                            `{"a":"<b> & c"}`,
	} {
		if got := workflowhistory.Decoded([]byte(data)); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}
