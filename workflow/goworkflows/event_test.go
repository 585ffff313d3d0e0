package goworkflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/payload"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 120_000_000, time.UTC)
	later = noon.Add(90 * time.Second)
)

// samples are events of all types with all of their attributes.
func samples() []*history.Event {
	bytes := func(s string) payload.Payload { return payload.Payload(s) }
	inputs := []payload.Payload{bytes("1"), bytes(`"two"`)}
	meta := gowf.Metadata{"trace": "00-1"}
	child := core.NewSubWorkflowInstance("order-7/pack", "e2", core.NewWorkflowInstance("order-7", "e1"), 4)
	fail := &gowf.Error{Type: "wrapError", Message: "print: no <paper>", Cause: &gowf.Error{Message: "no <paper>", Permanent: true}, Stacktrace: "main.go:1"}
	attributes := []any{ // in the order of the library's numbers
		&history.ExecutionStartedAttributes{Queue: "fast", Name: "Order", Metadata: &meta, Inputs: inputs, WorkflowSpanID: [8]byte{1, 2}},
		&history.ExecutionCompletedAttributes{Result: bytes("3"), Error: fail},
		&history.ExecutionContinuedAsNewAttributes{Result: bytes("null"), ContinuedExecutionID: "e3"},
		&Terminated{Reason: "ordered by mistake"},
		&history.ExecutionCanceledAttributes{},
		&history.WorkflowTaskStartedAttributes{},
		&history.SubWorkflowScheduledAttributes{SubWorkflowQueue: "slow", SubWorkflowInstance: child, Name: "Pack", Inputs: inputs, Metadata: &meta, WorkflowSpanID: [8]byte{3, 4}},
		&history.SubWorkflowCancellationRequestedAttributes{SubWorkflowInstance: child},
		&history.SubWorkflowCompletedAttributes{Result: bytes("5")},
		&history.SubWorkflowFailedAttributes{Error: fail},
		&history.ActivityScheduledAttributes{Name: "Print", Attempt: 2, Inputs: inputs, Metadata: &meta, Queue: "printers"},
		&history.ActivityCompletedAttributes{Result: bytes("6")},
		&history.ActivityFailedAttributes{Error: fail},
		&history.TimerScheduledAttributes{At: later, Name: "patience"},
		&history.TimerFiredAttributes{ScheduledAt: noon, At: later, Name: "patience", TraceContext: map[string]string{"trace": "00-2"}},
		&history.TimerCanceledAttributes{},
		&history.SignalReceivedAttributes{Name: "paid", Arg: bytes("true")},
		&history.SideEffectResultAttributes{Result: bytes("7")},
		&history.TraceStartedAttributes{SpanID: bytes(`"08"`)},
	}
	events := make([]*history.Event, len(attributes))
	for i, a := range attributes {
		t := history.EventType(i + 1)
		events[i] = &history.Event{ID: "event-" + t.String(), SequenceID: int64(i + 1), Type: t, Timestamp: noon, ScheduleEventID: int64(i % 3), Attributes: a}
	}
	events[history.EventType_TimerFired-1].VisibleAt = &later
	return events
}

// What is stored of each type, so that it can be read in years to come.
func TestStoredEvents(t *testing.T) {
	stored, err := toEvents(samples())
	testenv.Must(t, err)
	if len(stored) != len(eventTypes) {
		t.Errorf("%d samples, the library has %d types", len(stored), len(eventTypes))
	}
	const golden = "testdata/events.json"
	if *update {
		text, err := json.MarshalIndent(stored, "", "\t")
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(golden, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(golden)
	testenv.Must(t, err)
	var want []workflow.Event
	testenv.Must(t, json.Unmarshal(text, &want))
	if diff := cmp.Diff(want, stored, sameJSON); diff != "" {
		t.Errorf("stored otherwise than in %s (-update writes it):\n%s", golden, diff)
	}
	read, err := fromEvents(want)
	testenv.Must(t, err)
	if diff := cmp.Diff(samples(), read, same); diff != "" {
		t.Error("read otherwise than written:\n", diff)
	}
}

var (
	// same leaves out what JSON does not keep: nil or empty, and the type of a nil cause.
	same = cmp.Options{cmpopts.EquateEmpty(), cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.String(), "Cause") },
		cmp.Transformer("cause", func(e error) *gowf.Error {
			var cause *gowf.Error
			errors.As(e, &cause)
			return cause
		}))}
	sameJSON = cmp.Transformer("compact", func(m json.RawMessage) string {
		var b bytes.Buffer
		if json.Compact(&b, m) != nil {
			return string(m)
		}
		return b.String()
	})
)

// Whatever the library hands over comes back, through the JSON of the core.
func TestEventsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		stored, err := toEvent(e)
		testenv.Must(t, err)
		text, err := json.Marshal(stored)
		testenv.Must(t, err)
		stored = workflow.Event{}
		testenv.Must(t, json.Unmarshal(text, &stored))
		back, err := fromEvent(stored)
		testenv.Must(t, err)
		if diff := cmp.Diff(e, back, same); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEventsWithoutDataHaveAttributes(t *testing.T) {
	for _, want := range samples() {
		for _, data := range []string{"", "null", "{}"} {
			e, err := fromEvent(workflow.Event{Type: want.Type.String(), Data: json.RawMessage(data)})
			if err != nil {
				t.Errorf("%s %q: %v", want.Type, data, err)
			} else if got, want := reflect.TypeOf(e.Attributes), reflect.TypeOf(want.Attributes); got != want || reflect.ValueOf(e.Attributes).IsNil() {
				t.Errorf("%q: attributes are %v, want a %v", data, got, want)
			}
		}
	}
}

func TestTerminatedWhateverItsData(t *testing.T) {
	for data, want := range map[string]Terminated{`{"reason":"late"}`: {Reason: "late"}, `{"reason":7}`: {}, `[]`: {}, `7`: {}, `{`: {}, ``: {}} {
		e, err := fromEvent(workflow.Event{Type: workflow.EventTerminated, Data: json.RawMessage(data)})
		if err != nil || e.Type != history.EventType_WorkflowExecutionTerminated {
			t.Errorf("%q: %v, %v", data, e, err)
		} else if diff := cmp.Diff(&want, e.Attributes); diff != "" {
			t.Errorf("%q: %s", data, diff)
		}
	}
}

// The events that the core makes are the library's own.
func TestEventsOfTheCore(t *testing.T) {
	data, err := json.Marshal(workflow.SignalData{Name: "paid", Arg: []byte("true")})
	testenv.Must(t, err)
	failure := json.RawMessage(`{"error":{"type":"TerminatedError","message":"late"}}`)
	broken := &gowf.Error{Type: "TerminatedError", Message: "late"}
	for _, c := range []struct {
		event workflow.Event
		want  any
	}{
		{workflow.Event{Type: workflow.EventSignal, Data: data}, &history.SignalReceivedAttributes{Name: "paid", Arg: payload.Payload("true")}},
		{workflow.Event{Type: workflow.EventCanceled, Data: json.RawMessage("{}")}, &history.ExecutionCanceledAttributes{}},
		{workflow.Event{Type: workflow.EventSubFailed, Data: failure}, &history.SubWorkflowFailedAttributes{Error: broken}},
		{workflow.Event{Type: workflow.EventActivityErr, Data: failure}, &history.ActivityFailedAttributes{Error: broken}},
		{workflow.Event{Type: workflow.EventTimerFired}, &history.TimerFiredAttributes{}},
	} {
		e, err := fromEvent(c.event)
		if err != nil {
			t.Errorf("%s: %v", c.event.Type, err)
		} else if diff := cmp.Diff(c.want, e.Attributes, same); diff != "" {
			t.Errorf("%s: %s", c.event.Type, diff)
		}
	}
}

func TestUnknownEventTypes(t *testing.T) {
	for _, name := range []string{"", "Unknown", "workflowtaskstarted", "WorkflowExecutionPaused"} {
		if e, err := fromEvent(workflow.Event{ID: "e1", Type: name}); err == nil || !strings.Contains(err.Error(), "e1") {
			t.Errorf("%q: %v, %v", name, e, err)
		}
	}
	for _, n := range []history.EventType{0, 20, 1000} {
		if e, err := toEvent(&history.Event{ID: "e1", Type: n}); err == nil || !strings.Contains(err.Error(), "e1") {
			t.Errorf("%d: %v, %v", n, e, err)
		}
	}
}

// Whatever stands in Redis is refused, or has attributes of the right type, and can be written again.
func FuzzFromEvent(f *testing.F) {
	stored, err := toEvents(samples())
	testenv.Must(f, err)
	for _, e := range stored {
		f.Add(e.Type, []byte(e.Data))
	}
	f.Add("SubWorkflowFailed", []byte(`{"error":{"cause":{"cause":null}}}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		e, err := fromEvent(workflow.Event{Type: name, Data: data})
		if err != nil {
			return
		}
		want, err := fromEvent(workflow.Event{Type: name})
		if err != nil || reflect.TypeOf(e.Attributes) != reflect.TypeOf(want.Attributes) || reflect.ValueOf(e.Attributes).IsNil() {
			t.Fatalf("attributes are %#v", e.Attributes)
		}
		again, err := toEvent(e)
		testenv.Must(t, err)
		back, err := fromEvent(again)
		testenv.Must(t, err)
		if diff := cmp.Diff(e, back, same); diff != "" {
			t.Fatal(diff)
		}
	})
}
