package goworkflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

var queues = []gowf.Queue{gowf.QueueDefault}

// start creates an instance that is executed by nobody.
func start(t testing.TB, b *goworkflows.Backend, id string) *gowf.Instance {
	t.Helper()
	i := core.NewWorkflowInstance(id, uuid.NewString())
	testenv.Must(t, b.CreateWorkflowInstance(t.Context(), i, history.NewPendingEvent(time.Now(), history.EventType_WorkflowExecutionStarted, &history.ExecutionStartedAttributes{Name: "Nobody"})))
	return i
}

func take(t testing.TB, b *goworkflows.Backend) *backend.WorkflowTask {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := b.GetWorkflowTask(ctx, queues)
	if err != nil || task == nil {
		t.Fatal(task, err)
	}
	return task
}

func takeActivity(t testing.TB, b *goworkflows.Backend) *backend.ActivityTask {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := b.GetActivityTask(ctx, queues)
	if err != nil || task == nil {
		t.Fatal(task, err)
	}
	return task
}

// scheduleOne starts order-7, whose first task schedules an activity.
func scheduleOne(t testing.TB, b *goworkflows.Backend) *history.Event {
	t.Helper()
	start(t, b, "order-7")
	scheduled := history.NewPendingEvent(time.Now(), history.EventType_ActivityScheduled, &history.ActivityScheduledAttributes{Name: "Print"}, history.ScheduleEventID(1))
	testenv.Must(t, b.CompleteWorkflowTask(t.Context(), take(t, b), core.WorkflowInstanceStateActive, nil, []*history.Event{scheduled}, nil, nil))
	return scheduled
}

func TestWaitForTasks(t *testing.T) {
	srv := testenv.Redis(t)
	b := open(t, srv, quiet)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if task, err := b.GetWorkflowTask(ctx, queues); task != nil || err != nil {
		t.Errorf("no workflow task: %v, %v", task, err)
	}
	if task, err := b.GetActivityTask(ctx, queues); task != nil || err != nil {
		t.Errorf("no activity: %v, %v", task, err)
	}
	// One that comes for nobody is not lost.
	start(t, b, "order-7")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 3 {
		if task, err := b.GetWorkflowTask(gone, queues); task != nil || err != nil {
			t.Errorf("nobody is there: %v, %v", task, err)
		}
	}
	take(t, b)
}

func TestClose(t *testing.T) {
	srv := testenv.Redis(t)
	b := open(t, srv, quiet)
	start(t, b, "order-7")
	take(t, b)
	waited := make(chan error)
	begun := make(chan struct{})
	go func() {
		close(begun)
		_, err := b.GetActivityTask(context.Background(), queues)
		waited <- err
	}()
	<-begun
	shut(t, b)
	if err := <-waited; !errors.Is(err, goworkflows.ErrClosed) {
		t.Errorf("who waited for a task: %v", err)
	}
	if _, err := b.GetWorkflowTask(t.Context(), queues); !errors.Is(err, goworkflows.ErrClosed) {
		t.Errorf("after it: %v", err)
	}
	shut(t, b)
}

// What a Backend held is another's as soon as it is closed.
func TestCloseHandsBack(t *testing.T) {
	srv := testenv.Redis(t)
	client, err := workflow.Open(t.Context(), srv.URL, workflow.Options{Prefix: srv.Prefix(t)})
	testenv.Must(t, err)
	defer client.Close()
	for range 3 {
		b, err := goworkflows.New(client, quiet)
		testenv.Must(t, err)
		if _, err := b.GetWorkflowInstanceState(t.Context(), core.NewWorkflowInstance("order-7", "")); errors.Is(err, backend.ErrInstanceNotFound) {
			start(t, b, "order-7")
		}
		take(t, b)
		shut(t, b)
	}
	if _, err := goworkflows.New(nil); err == nil {
		t.Error("no client is needed")
	}
}

func TestTasksOfOthers(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	if err := b.CompleteWorkflowTask(t.Context(), &backend.WorkflowTask{ID: "w"}, core.WorkflowInstanceStateActive, nil, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "w") {
		t.Error(err)
	}
	if err := b.ExtendWorkflowTask(t.Context(), &backend.WorkflowTask{ID: "w"}); err == nil {
		t.Error("extended")
	}
	if err := b.CompleteActivityTask(t.Context(), &backend.ActivityTask{ID: "a"}, &history.Event{}); !errors.Is(err, workflow.ErrLost) {
		t.Error(err)
	}
	if err := b.ExtendActivityTask(t.Context(), &backend.ActivityTask{ID: "a"}); !errors.Is(err, workflow.ErrLost) {
		t.Error(err)
	}
}

// An activity has one result, whoever has how many.
func TestOneResult(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	scheduled := scheduleOne(t, b)
	a := takeActivity(t, b)
	if a.WorkflowInstance.InstanceID != "order-7" || a.ActivityID != scheduled.ID {
		t.Fatal(a)
	}
	if err := b.ExtendActivityTask(t.Context(), a); err != nil {
		t.Error(err)
	}
	result := history.NewPendingEvent(time.Now(), history.EventType_ActivityCompleted, &history.ActivityCompletedAttributes{}, history.ScheduleEventID(1))
	testenv.Must(t, b.CompleteActivityTask(t.Context(), a, result))
	if err := b.CompleteActivityTask(t.Context(), a, result); !errors.Is(err, workflow.ErrLost) {
		t.Errorf("twice: %v", err)
	}
	if events := take(t, b).NewEvents; len(events) != 1 || events[0].ID != result.ID {
		t.Errorf("the instance gets %v", events)
	}
}

// An activity whose lease could not be extended is stopped by the library's worker, which has a failure recorded then: that is none of the activity, and uses up
// none of its attempts. It is handed out again. What it completed all the same counts.
func TestStoppedActivityHasNotFailed(t *testing.T) {
	for _, kind := range []history.EventType{history.EventType_ActivityFailed, history.EventType_ActivityCompleted} {
		t.Run(kind.String(), func(t *testing.T) {
			b := open(t, testenv.Redis(t), quiet)
			scheduled := scheduleOne(t, b)
			a := takeActivity(t, b)
			ended, end := context.WithCancel(t.Context())
			end()
			if err := b.ExtendActivityTask(ended, a); err == nil {
				t.Fatal("it was extended")
			}
			var attributes any = &history.ActivityCompletedAttributes{}
			if kind == history.EventType_ActivityFailed {
				var canceled *gowf.Error
				errors.As(gowf.NewError(context.Canceled), &canceled)
				attributes = &history.ActivityFailedAttributes{Error: canceled}
			}
			err := b.CompleteActivityTask(t.Context(), a, history.NewPendingEvent(time.Now(), kind, attributes, history.ScheduleEventID(1)))
			if kind == history.EventType_ActivityCompleted {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, workflow.ErrLost) {
				t.Errorf("%v, want ErrLost", err)
			}
			if again := takeActivity(t, b); again.ActivityID != scheduled.ID {
				t.Errorf("%v, want it again", again)
			}
		})
	}
}

// The library's client would report an instance that was removed while it waits as unknown.
func TestRemovalLeavesTimeToRead(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	i := start(t, b, "order-7")
	testenv.Must(t, b.CompleteWorkflowTask(t.Context(), take(t, b), core.WorkflowInstanceStateFinished, nil, nil, nil, nil))
	ended := time.Now()
	testenv.Must(t, b.RemoveWorkflowInstances(t.Context(), backend.RemoveFinishedBefore(time.Now().Add(time.Hour))))
	if s, err := b.GetWorkflowInstanceState(t.Context(), i); (s != core.WorkflowInstanceStateFinished || err != nil) && time.Since(ended) < 500*time.Millisecond {
		t.Errorf("at once: %v, %v", s, err)
	}
	for deadline := ended.Add(patience); ; {
		testenv.Must(t, b.RemoveWorkflowInstances(t.Context(), backend.RemoveFinishedBefore(time.Now()), backend.RemoveFinishedBatchSize(1)))
		if _, err := b.GetWorkflowInstanceState(t.Context(), i); errors.Is(err, backend.ErrInstanceNotFound) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("is never removed")
		}
	}
}

func TestRemovalOptions(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	if err := b.RemoveWorkflowInstances(t.Context(), backend.RemoveFinishedBatchSize(0)); err == nil || !strings.Contains(err.Error(), "batch size 0") {
		t.Error(err)
	}
}
