package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// submissions are all ways to hand tasks over; each returns its error, and may be called again.
func submissions(e *env, c *task.Client) map[string]func() error {
	typ := noteType("replicas:Aggregate", task.Aggregate[note]{MaxDelay: time.Hour})
	byName, err := task.DefineJSON("test:Echo", task.Small)
	e.ok(err)
	one := func(opts ...task.SubmitOption) func() error {
		return func() error { _, err := echo.Submit(e.ctx(), c, "a", opts...); return err }
	}
	return map[string]func() error{
		"one":       one(),
		"delayed":   one(task.In(time.Hour)),
		"key":       one(task.Key("k")),
		"id":        one(task.ID("own")),
		"aggregate": func() error { _, err := typ.Submit(e.ctx(), c, note{User: "a"}); return err },
		"many":      func() error { _, err := echo.SubmitMany(e.ctx(), c, make([]string, 300)); return err },
		"many later": func() error {
			_, err := echo.SubmitMany(e.ctx(), c, make([]string, 300), task.In(time.Hour))
			return err
		},
		"many to aggregate": func() error { _, err := typ.SubmitMany(e.ctx(), c, make([]note, 3)); return err },
		"JSON":              func() error { _, _, err := byName.Submit(e.ctx(), c, []byte(`["a"]`)); return err },
		"group": func() error {
			_, err := task.Spawn(e.ctx(), c, []task.Pending{echo.With("a")}, echo.With("b"), task.GroupID("g"))
			return err
		},
	}
}

// Every submission waits for the replica, says so when that does not answer, and may then be repeated: nothing of it is there twice, and the repetition waits, too.
func TestReplicas(t *testing.T) {
	long.Test(t, "pauses a replica")
	t.Parallel()
	e := newEnv(t)
	replica := testenv.StartReplica(t, e.srv.Addr)
	const within = 100 * time.Millisecond
	c := e.connect(task.Options{Replicas: 1, ReplicasWithin: within})
	patient := e.connect(task.Options{Replicas: 1, ReplicasWithin: patience})
	for name, submit := range submissions(e, patient) {
		if err := submit(); err != nil {
			t.Errorf("%s, with a replica: %v", name, err)
		}
	}
	e.must("FLUSHALL")
	e.ok(submissions(e, patient)["key"]())
	var short *task.ReplicasError
	if _, err := echo.Submit(e.ctx(), e.connect(task.Options{Replicas: 2, ReplicasWithin: time.Millisecond}), "a"); !errors.As(err, &short) || short.Want != 2 ||
		!strings.Contains(err.Error(), "of 2 replicas acknowledged it within 1ms") {
		t.Errorf("one replica of two: %v", err)
	}
	says(t, "a server without an append-only file", errOf(task.Open(e.ctx(), e.srv.URL, task.Options{WaitForDisk: true})), "Options.WaitForDisk")
	replica.Pause(t)
	for name, submit := range submissions(e, c) {
		for range 2 { // of what is there already, the second is told that it is
			begin := time.Now()
			err := submit()
			if !errors.As(err, &short) || short.Acknowledged != 0 || short.Want != 1 || short.Within != within || short.Err != nil {
				t.Errorf("%s, with a replica that hangs: %v", name, err)
			}
			if took := time.Since(begin); took < within {
				t.Errorf("%s: an error after %v, before the time was over", name, took)
			}
		}
	}
	if n := e.number("HLEN", e.key("groups:g:state")); n == 0 {
		t.Error("the group is not there, but the error says that it is")
	}
	replica.Continue(t)
	for name, submit := range submissions(e, c) {
		e.eventually(name+" is acknowledged", func() bool { return submit() == nil })
	}
	ids := make(map[string]bool)
	for one, err := range e.client.All(e.ctx(), task.Filter{}) {
		e.ok(err)
		if ids[one.ID] {
			t.Errorf("%s is there twice", one.ID)
		}
		ids[one.ID] = true
	}
	if !ids["own"] || !ids["_g:0"] {
		t.Errorf("the task of the id, or that of the group, is missing among %d", len(ids))
	}
}
