package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

func defineJSON(t *testing.T, name string, opts ...task.TypeOption) *task.JSONType {
	t.Helper()
	typ, err := task.DefineJSON(name, opts...)
	testenv.Must(t, err)
	return typ
}

// Programs without the Go types submit, run and await the same tasks.
func TestJSONTypes(t *testing.T) {
	e := newEnv(t)
	untyped := defineJSON(t, "test:Double")
	upper := defineJSON(t, "test:JSON", task.Small)
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return 2 * j.Args.N, nil }),
		upper.Handle(func(_ context.Context, j *task.Job[json.RawMessage]) (json.RawMessage, error) {
			if string(j.Args) == "[]" {
				return nil, errors.New("no arguments")
			}
			return j.Args, nil
		}))
	for _, c := range []struct {
		typ        *task.JSONType
		args, want string
	}{
		{untyped, "[21]", "42"}, {untyped, "21", "42"}, {upper, `[{"a":1,"big":9007199254740993},null]`, `[{"a":1,"big":9007199254740993},null]`},
		{upper, `[{"$bin":"AP8="},{"$time":"2026-01-02T03:04:05Z"}]`, `[{"$bin":"AP8="},{"$time":"2026-01-02T03:04:05Z"}]`},
	} {
		ref, _, err := c.typ.Submit(e.ctx(), e.client, json.RawMessage(c.args))
		e.ok(err)
		r, err := e.client.AwaitJSON(e.ctx(), ref.ID)
		if err != nil || r.Err != nil || string(r.Value) != c.want {
			t.Errorf("%s: %s, %v, %v, want %s", c.args, r.Value, r.Err, err, c.want)
		}
	}
	ref, _, err := upper.Submit(e.ctx(), e.client, nil)
	e.ok(err)
	if r, err := e.client.AwaitJSON(e.ctx(), ref.ID); err != nil || r.Err == nil || r.Err.Message != "no arguments" {
		t.Errorf("%v, %v", r.Err, err)
	}
}

func TestJSONTypesRefuse(t *testing.T) {
	e := newEnv(t)
	for _, opts := range [][]task.TypeOption{{task.Priority("urgent")}, {task.UniqueBy(time.Hour, func(double) string { return "" })},
		{task.ExclusiveBy(func(double) []string { return nil })}, {task.Aggregate[double]{}}, {task.Every(time.Second)}, {task.Retry(nil)}} {
		refused(t, "accepted", errOf(task.DefineJSON("test:X", opts...)))
	}
	refused(t, "no name: accepted", errOf(task.DefineJSON("")))
	typ := defineJSON(t, "test:X", task.Unique(time.Hour))
	for _, args := range []string{"{", "[1] 2", `{"a":1,"a":2}`} {
		if _, _, err := typ.Submit(e.ctx(), e.client, json.RawMessage(args)); err == nil {
			t.Errorf("%s: accepted", args)
		}
	}
	if _, _, err := typ.Submit(e.ctx(), e.client, json.RawMessage("[1]")); err != nil {
		t.Error(err)
	}
	var d *task.DuplicateError
	if _, _, err := typ.Submit(e.ctx(), e.client, json.RawMessage("[1]")); !errors.As(err, &d) {
		t.Errorf("%v", err)
	}
}

// What a type says besides its Go types holds for one without them: one at a time, the default limit of a run, the default time for which results are kept.
func TestJSONTypesKeepTheirOptions(t *testing.T) {
	e := newEnv(t)
	typ := defineJSON(t, "test:One", task.Exclusive(), task.Timeout(0), task.Retention(0))
	e.start(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, j *task.Job[json.RawMessage]) (json.RawMessage, error) {
		if _, limited := ctx.Deadline(); !limited || len(j.Fences()) != 1 {
			return nil, fmt.Errorf("limited %v, fences of locks %v", limited, j.Fences())
		}
		return nil, nil
	}))
	ref, _, err := typ.Submit(e.ctx(), e.client, nil)
	e.ok(err)
	if r, err := e.client.AwaitJSON(e.ctx(), ref.ID); err != nil || r.Err != nil {
		t.Errorf("%v, %v", err, r.Err)
	}
}
