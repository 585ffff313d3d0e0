package goworkflows_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/worker"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// Programs made up by chance end alike here and on the library's own backend, with the same histories.
func TestLikeTheLibrarysOwn(t *testing.T) {
	t.Parallel()
	programs := 12
	if os.Getenv("TAKT_TEST_LONG") != "" {
		programs = 200
	}
	theirs := sqlite.NewInMemoryBackend(sqlite.WithBackendOptions(quiet))
	t.Cleanup(func() { shut(t, theirs) })
	ours := open(t, testenv.Redis(t), quiet)

	o := worker.DefaultOptions
	o.WorkflowPollingInterval, o.ActivityPollingInterval = 20*time.Millisecond, 20*time.Millisecond
	o.WorkflowExecutorCacheSize = 10_000 // never full: see TestFullCacheHarmsNobody
	work(t, worker.New(theirs, &o), []any{run, report}, []any{double, flaky, hopeless})
	o.WorkflowExecutorCacheSize = 8 // replays now and then
	work(t, goworkflows.NewWorker(ours, &o), []any{run, report}, []any{double, flaky, hopeless})

	backends := []backend.Backend{theirs, ours}
	all := make([]program, programs)
	roots := make([][2]*core.WorkflowInstance, programs)
	for n := range all {
		all[n] = anyProgram(rand.New(rand.NewPCG(uint64(n), 0)), 1+n%8/7)
		for k, b := range backends {
			roots[n][k] = create(t, client.New(b), fmt.Sprint("p", n), run, all[n])
		}
	}
	kinds := map[history.EventType]int{}
	for n, p := range all {
		want, got := executions(t, theirs, roots[n][0], kinds), executions(t, ours, roots[n][1], kinds)
		if diff := gocmp.Diff(want, got); diff != "" {
			text, _ := json.Marshal(p)
			t.Errorf("program %d, - theirs, + ours: %s\n%s", n, text, diff)
		}
	}
	for _, never := range []history.EventType{history.EventType_WorkflowExecutionTerminated, history.EventType_WorkflowExecutionCanceled, history.EventType_SubWorkflowCancellationRequested} {
		kinds[never]++
	}
	for e := history.EventType_WorkflowExecutionStarted; e <= history.EventType_TraceStarted; e++ {
		if kinds[e] == 0 {
			t.Errorf("no program has a %s", e)
		}
	}
}

// execution is what can be compared of one.
type execution struct {
	Instance string
	State    core.WorkflowInstanceState
	Events   []string
}

// executions are those of an instance, from i on, and of all that they start, once all have ended. kinds counts the types of their events.
func executions(t *testing.T, b backend.Backend, i *core.WorkflowInstance, kinds map[history.EventType]int) (all []execution) {
	t.Helper()
	if err := client.New(b).WaitForWorkflowInstance(t.Context(), i, patience); err != nil {
		t.Fatalf("%s: %v", i.InstanceID, err)
	}
	state, err := b.GetWorkflowInstanceState(t.Context(), i)
	testenv.Must(t, err)
	events, err := b.GetWorkflowInstanceHistory(t.Context(), i, nil)
	testenv.Must(t, err)
	all = []execution{{Instance: i.InstanceID, State: state, Events: comparable(t, events)}}
	for n, e := range events {
		kinds[e.Type]++
		if e.SequenceID != int64(n+1) {
			t.Errorf("%s: event %d has sequence number %d", i.InstanceID, n+1, e.SequenceID)
		}
		switch a := e.Attributes.(type) {
		case *history.SubWorkflowScheduledAttributes:
			all = append(all, executions(t, b, a.SubWorkflowInstance, kinds)...)
		case *history.ExecutionContinuedAsNewAttributes:
			next := *i
			next.ExecutionID = a.ContinuedExecutionID
			all = append(all, executions(t, b, &next, kinds)...)
		}
	}
	return all
}

// comparable is a history without what chance and clocks have in it: ids, times, where a task began, and in which order things came that ran at once.
func comparable(t *testing.T, events []*history.Event) []string {
	t.Helper()
	events = slices.DeleteFunc(slices.Clone(events), func(e *history.Event) bool { return e.Type == history.EventType_WorkflowTaskStarted })
	for from := 0; from < len(events); from++ {
		to := from
		for to < len(events) && answers(events[to]) {
			to++
		}
		slices.SortStableFunc(events[from:to], func(a, b *history.Event) int { return cmp.Compare(a.ScheduleEventID, b.ScheduleEventID) })
		from = to
	}
	out := make([]string, len(events))
	for n, e := range events {
		text, err := history.SerializeAttributes(e.Attributes)
		testenv.Must(t, err)
		var a any
		testenv.Must(t, json.Unmarshal(text, &a))
		text, err = json.Marshal(without(a))
		testenv.Must(t, err)
		out[n] = fmt.Sprintf("%s %d %s", e.Type, e.ScheduleEventID, text)
	}
	return out
}

// answers reports that e comes from outside, as the answer to something that was scheduled.
func answers(e *history.Event) bool {
	switch e.Type {
	case history.EventType_ActivityCompleted, history.EventType_ActivityFailed, history.EventType_TimerFired, history.EventType_SubWorkflowCompleted, history.EventType_SubWorkflowFailed:
		return true
	}
	return false
}

// without leaves out what is different each time.
func without(a any) any {
	switch a := a.(type) {
	case map[string]any:
		if parent, ok := a["parent"].(map[string]any); ok {
			delete(parent, "parent") // the library's backend forgets grandparents
			delete(parent, "parent_event_id")
		}
		for name, v := range a {
			switch name {
			case "execution_id", "continued_execution_id", "workflowSpanID", "workflow_span_id", "spanID", "span_metadata", "metadata", "at", "scheduled_at", "stacktrace":
				delete(a, name)
			default:
				a[name] = without(v)
			}
		}
		if a["cause"] == nil { // the library stores it in one case
			delete(a, "cause")
		}
	case []any:
		for n := range a {
			a[n] = without(a[n])
		}
	}
	return a
}
