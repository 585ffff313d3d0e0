package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

var Locked = task.Define[double, int]("test:Locked", task.Positional(), task.Exclusive(), task.Limits(1, 1, time.Hour),
	task.Locks(func(double) []lock.Spec {
		return []lock.Spec{limit.Rate(lock.Object{Type: lock.Job, Key: "7"}, 1, time.Hour)}
	}))

// A handler has the registered name of its type. By hand the limiters are skipped and the mutex is taken, once, and given back once, also
// after an error, which comes through. Nothing else is in Redis.
func TestCallByHand(t *testing.T) {
	e := newEnv(t)
	key := e.prefix + ":lock:mutex:task:test%3ALocked"
	failure := errors.New("failure")
	h := Locked.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
		if e.number("EXISTS", key) != 1 || j.Fences()[key] == 0 {
			t.Error("the mutex is not held")
		}
		if j.Client() != e.client || task.ClientFrom(ctx) != e.client || j.Attempt != 1 || j.Name != "test:Locked" || j.Deadline.IsZero() {
			t.Errorf("%+v", j.Info)
		}
		if j.Args.N < 0 {
			return 0, failure
		}
		return 2 * j.Args.N, nil
	})
	if h.Name() != "test:Locked" {
		t.Errorf("Name() = %q", h.Name())
	}
	for range 3 { // more often than the rates allow
		if got, err := Locked.Call(e.ctx(), e.client, double{21}, h); err != nil || got != 42 {
			t.Errorf("Call = %d, %v, want 42", got, err)
		}
	}
	if _, err := Locked.Call(e.ctx(), e.client, double{-1}, h); !errors.Is(err, failure) {
		t.Errorf("Call: %v, want %v", err, failure)
	}
	all, err := e.srv.AllKeys(e.ctx())
	for _, k := range all {
		if !strings.HasSuffix(k, "::fence") {
			t.Errorf("key %s is left", k)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A lock that cannot be had is a HeldError, and the handler does not run.
func TestCallIsRefused(t *testing.T) {
	e := newEnv(t)
	defer e.take(mutexOf("test:Locked"))()
	_, err := Locked.Call(e.ctx(), e.client, double{}, Locked.Handle(func(context.Context, *task.Job[double]) (int, error) {
		t.Error("ran")
		return 0, nil
	}))
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Key != e.prefix+":lock:mutex:task:test%3ALocked" {
		t.Errorf("Call: %v, want a HeldError", err)
	}
}

// In a worker the limiters are asked: the second task waits for the first one's hour to end.
func TestLimitersInAWorker(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{}, Locked.Handle(func(context.Context, *task.Job[double]) (int, error) { return 1, nil }))
	for range 2 {
		if _, err := Locked.Submit(e.ctx(), e.client, double{}); err != nil {
			t.Fatal(err)
		}
	}
	e.eventually("one is done, one is blocked", func() bool {
		return e.counter(task.Done, "test:Locked") == 1 && e.counter(task.Blocked, "test:Locked") > 0
	})
	for _, key := range []string{"limiter:rate:task:test%3ALocked", "limiter:rate:job:7"} {
		if e.number("EXISTS", e.prefix+":"+key) != 1 {
			t.Errorf("%s was not asked", key)
		}
	}
}

// Without a client nothing of the task runs.
func TestCallWithoutClient(t *testing.T) {
	h := Locked.Handle(func(context.Context, *task.Job[double]) (int, error) { t.Error("ran"); return 0, nil })
	if _, err := Locked.Call(t.Context(), nil, double{}, h); err == nil {
		t.Error("Call without a client is no error")
	}
	if _, err := task.CallJSON(t.Context(), nil, h, nil); err == nil {
		t.Error("CallJSON without a client is no error")
	}
}

func TestCallJSON(t *testing.T) {
	e := newEnv(t)
	type order struct {
		ID    string
		Parts []string
	}
	kind := task.Define[order, map[string]int]("test:Count")
	h := kind.Handle(func(_ context.Context, j *task.Job[order]) (map[string]int, error) {
		return map[string]int{j.Args.ID: len(j.Args.Parts)}, nil
	})
	for args, want := range map[string]string{`[{"ID": "a", "Parts": ["x", "y"]}]`: `{"a":2}`, `[]`: `{"":0}`, ``: `{"":0}`} {
		if got, err := task.CallJSON(e.ctx(), e.client, h, []byte(args)); err != nil || string(got) != want {
			t.Errorf("CallJSON(%s) = %s, %v, want %s", args, got, err, want)
		}
	}
	for _, bad := range []string{`["a", ["x"]]`, `[`, `[{"ID": "a", "Parts": 3}]`} {
		if got, err := task.CallJSON(e.ctx(), e.client, h, []byte(bad)); err == nil || !strings.Contains(err.Error(), "test:Count") {
			t.Errorf("CallJSON(%s) = %s, %v, want an error that names the task", bad, got, err)
		}
	}
	none := task.Define[struct{}, task.None]("test:Nothing")
	got, err := task.CallJSON(e.ctx(), e.client, none.Handle(func(context.Context, *task.Job[struct{}]) (task.None, error) { return task.None{}, nil }), nil)
	if err != nil || string(got) != "null" {
		t.Errorf("CallJSON = %s, %v, want null", got, err)
	}
}

// A lock that is lost ends the call.
func TestCallLosesItsLock(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("test:Long", task.Positional(), task.Locks(func(double) []lock.Spec {
		return []lock.Spec{lock.Mutex(lock.Object{Type: lock.Task, Key: "long"}, lock.TTL(300*time.Millisecond))}
	}))
	key := e.prefix + ":lock:mutex:task:long"
	_, err := kind.Call(e.ctx(), e.client, double{}, kind.Handle(func(ctx context.Context, _ *task.Job[double]) (int, error) {
		if err := e.do("DEL", key).Error(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	var lost *lock.LostError
	if !errors.As(err, &lost) || lost.Key != key {
		t.Errorf("Call: %v, want a LostError", err)
	}
}
