package goworkflows

import (
	"encoding/json"
	"testing"

	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

func TestInstancesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := drawInstance(t)
		if diff := cmp.Diff(i, fromInstance(toInstance(i))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestStatesComeBack(t *testing.T) {
	for _, want := range []core.WorkflowInstanceState{core.WorkflowInstanceStateActive, core.WorkflowInstanceStateContinuedAsNew, core.WorkflowInstanceStateFinished} {
		s, err := toState(want)
		testenv.Must(t, err)
		if got, err := fromState(s); got != want || err != nil {
			t.Errorf("%d: %v, %v", want, got, err)
		}
	}
	if s, err := toState(3); err == nil {
		t.Errorf("3 is %q", s)
	}
	for _, s := range []workflow.State{"", "running"} {
		if got, err := fromState(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestMetadata(t *testing.T) {
	for _, m := range []gowf.Metadata{{}, {"trace": "00-1", "<": "\""}} {
		text, err := toMetadata(&m)
		testenv.Must(t, err)
		got, err := fromMetadata(text)
		if diff := cmp.Diff(&m, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	if text, err := toMetadata(nil); text != nil || err != nil {
		t.Errorf("nil: %s, %v", text, err)
	}
	for _, text := range []string{"", "null"} { // a propagator reads it without a look
		if m, err := fromMetadata(json.RawMessage(text)); err != nil || m == nil || *m == nil {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	if m, err := fromMetadata(json.RawMessage(`{"a":1}`)); err == nil {
		t.Errorf("a number is %v", m)
	}
}
