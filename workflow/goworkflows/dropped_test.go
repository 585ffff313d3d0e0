package goworkflows

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// A task whose execution fails is dropped by the library without a word. Its executor is closed once nobody has the task any more, and not before.
func TestDroppedTaskFreesItsExecutor(t *testing.T) {
	b := on(nil, backend.ApplyOptions())
	c := NewCache(b, CacheOptions{})
	x, drop := taken(t, b, c)
	runtime.GC()
	if x.closed.Load() != 0 {
		t.Fatal("closed while the task is there")
	}
	drop()
	for deadline := time.After(time.Minute); x.closed.Load() == 0; {
		runtime.GC()
		select {
		case <-deadline:
			t.Fatal("never closed")
		case <-time.After(time.Millisecond):
		}
	}
}

// taken is the executor of a task that is there until drop.
func taken(t *testing.T, b *Backend, c *Cache) (x *fakeExecutor, drop func()) {
	task := handOut(t, b, point{})
	x, _ = execute(t, c, task.WorkflowInstance)
	return x, func() { runtime.KeepAlive(task) }
}

// handOut is a task of an execution whose history goes up to last.
func handOut(t *testing.T, b *Backend, last point) *backend.WorkflowTask {
	t.Helper()
	task, err := b.hand(t.Context(), &workflow.WorkflowTask{
		Info:   workflow.Info{Instance: workflow.Instance{ID: "order-7", Execution: "e1"}, Queue: "fast", State: workflow.Active, LastSequence: last.sequence, LastEvent: last.id},
		Events: []workflow.Event{{ID: "s1", Type: workflow.EventSignal}},
	})
	testenv.Must(t, err)
	return task
}

func TestHandOut(t *testing.T) {
	task := handOut(t, on(nil, backend.ApplyOptions()), point{5, "e"})
	if task.ID != "order-7:e1" || task.Queue != "fast" || task.WorkflowInstanceState != core.WorkflowInstanceStateActive || task.Metadata == nil || task.LastSequenceID != 5 ||
		len(task.NewEvents) != 1 || task.NewEvents[0].Type != history.EventType_SignalReceived {
		t.Errorf("%+v", task)
	}
}

// Redis came back without the end of its data: the executor has seen what is to be done again.
func TestTaskOfThePastDropsTheExecutor(t *testing.T) {
	b := on(nil, backend.ApplyOptions())
	c := NewCache(b, CacheOptions{})
	round := func(last, reached point) (x *fakeExecutor, hit bool) {
		task := handOut(t, b, last)
		x, hit = execute(t, c, task.WorkflowInstance)
		x.busy.Store(false)
		b.settle(task.WorkflowInstance, reached, true)
		return x, hit
	}
	x, _ := round(point{5, "e"}, point{8, "h"})
	if _, hit := round(point{8, "h"}, point{10, "j"}); !hit {
		t.Error("not found for what comes next")
	}
	y, hit := round(point{8, "h"}, point{10, "k"})
	if hit || x.closed.Load() != 1 {
		t.Errorf("found %v, closed %d times", hit, x.closed.Load())
	}
	if _, hit := round(point{10, "j"}, point{12, "l"}); hit || y.closed.Load() != 1 {
		t.Errorf("another event has the number: found %v, closed %d times", hit, y.closed.Load())
	}
}

func TestHandOutErrors(t *testing.T) {
	b := on(nil, backend.ApplyOptions())
	good := workflow.Info{Instance: workflow.Instance{ID: "order-7", Execution: "e1"}, State: workflow.Active}
	odd, bad := good, good
	odd.State, bad.Metadata = "running", []byte(`[]`)
	for name, t2 := range map[string]*workflow.WorkflowTask{
		"event":    {Info: good, Events: []workflow.Event{{Type: "Odd"}}},
		"state":    {Info: odd},
		"metadata": {Info: bad},
	} {
		if task, err := b.hand(t.Context(), t2); err == nil {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

// An activity that kills its workers must not kill those of its next attempts.
func TestGivenUp(t *testing.T) {
	e, err := fromEvent(givenUp(nil, errors.New("5 deliveries")))
	testenv.Must(t, err)
	a, ok := e.Attributes.(*history.ActivityFailedAttributes)
	if !ok || gowf.CanRetry(a.Error) || !strings.Contains(a.Error.Message, "5 deliveries") {
		t.Errorf("%+v", e.Attributes)
	}
}
