package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// Ids and unique keys that Takt makes of names that callers choose are never those that a caller can choose.
func TestMadeIDs(t *testing.T) {
	e := newEnv(t)
	ctx := e.ctx()
	gate := make(chan struct{})
	echo := task.Define[string, string]("ids:Echo", task.Retention(time.Hour))
	after := task.Define[string, string]("ids:After", task.Retention(time.Hour))
	made := make(chan string, 2)
	schedule := task.Define[struct{}, task.None]("ids:Slot", task.Every(10*time.Millisecond))
	e.start(task.WorkerOptions{},
		echo.Handle(func(ctx context.Context, j *task.Job[string]) (string, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return j.Args, nil
		}),
		after.Handle(func(_ context.Context, j *task.Job[string]) (string, error) { return j.Args, nil }),
		schedule.Handle(func(_ context.Context, j *task.Job[struct{}]) (task.None, error) {
			select {
			case made <- j.ID:
			default:
			}
			return task.None{}, nil
		}))

	// A task of the caller's beside each member of a group.
	g, err := task.Spawn(ctx, e.client, []task.Pending{echo.With("child", task.Keep(time.Hour))}, after.With("callback"), task.GroupID("nightly"))
	e.ok(err)
	for _, id := range []string{"nightly:0", "nightly:callback", "nightly:failure"} {
		if h, err := echo.Submit(ctx, e.client, "caller "+id, task.ID(id)); err != nil || h.Existing {
			t.Errorf("%s: %v, existing %v", id, err, err == nil && h.Existing)
		}
	}
	close(gate)
	for id, want := range map[string]string{g.ChildID(0): "child", g.CallbackID(): "callback", "nightly:0": "caller nightly:0", "nightly:callback": "caller nightly:callback"} {
		if got, err := echo.HandleOf(e.client, id).Await(ctx); err != nil || got != want {
			t.Errorf("the result of %s is %q, %v, want %q", id, got, err, want)
		}
	}

	e.schedules(task.SchedulerOptions{}, schedule)
	ids := []string{g.ChildID(0), g.CallbackID(), g.FailureID(), wait(t, "a slot", made)}
	now, err := e.client.RunScheduleNow(ctx, "ids:Slot")
	e.ok(err)
	for _, id := range append(ids, now) {
		if _, err := echo.Submit(ctx, e.client, "caller", task.ID(id)); err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("a caller may choose the id %s: %v", id, err)
		}
		if _, err := echo.Submit(ctx, e.client, "caller", task.UniqueKey(id, 0)); err == nil {
			t.Errorf("a caller may choose the unique key %s", id)
		}
	}
}
