package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/task"
)

type (
	mailOld     struct{ To, Text string }
	mailMoved   struct{ Text, To string }
	mailRenamed struct{ To, Body string }
)

// A stored task meets a program in which two fields of its type changed places: no value is swapped, in arguments and results.
func TestFieldsByName(t *testing.T) {
	e := newEnv(t)
	before := task.Define[mailOld, mailOld]("layout:Moved")
	now := task.Define[mailMoved, mailMoved]("layout:Moved")
	h, err := before.Submit(e.ctx(), e.client, mailOld{To: "ada", Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan mailMoved, 1)
	e.start(task.WorkerOptions{}, now.Handle(func(_ context.Context, j *task.Job[mailMoved]) (mailMoved, error) {
		got <- j.Args
		return j.Args, nil
	}))
	if args := wait(t, "the run", got); args != (mailMoved{To: "ada", Text: "hello"}) {
		t.Errorf("arguments %+v", args)
	}
	if r, err := h.Await(e.ctx()); err != nil || r != (mailOld{To: "ada", Text: "hello"}) {
		t.Errorf("result %+v %v", r, err)
	}
}

// A task of another version of its type is put back for a worker that knows it, and is dead with the reason if none comes.
func TestAnotherLayout(t *testing.T) {
	e := newEnv(t)
	before := task.Define[mailOld, string]("layout:Renamed")
	now := task.Define[mailRenamed, mailRenamed]("layout:Renamed")
	lost, err := before.Submit(e.ctx(), e.client, mailOld{To: "ada", Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	never := now.Handle(func(_ context.Context, j *task.Job[mailRenamed]) (mailRenamed, error) {
		if j.Args.Body == "" {
			t.Errorf("the handler ran with %+v", j.Args)
		}
		return j.Args, nil
	})
	_, stop := e.start(task.WorkerOptions{MaxUnknown: 1}, never)
	var failed *task.Error
	if _, err := lost.Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "layout" || !strings.Contains(failed.Message, `"Text"`) || !strings.Contains(failed.Message, "put back 1 times") {
		t.Errorf("%v", err)
	}
	stop()

	h, err := before.Submit(e.ctx(), e.client, mailOld{To: "ada", Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	_, stop = e.start(task.WorkerOptions{}, never)
	e.eventually("it is put back", func() bool { return e.find(h.Ref).Unknown > 0 })
	stop()
	e.start(task.WorkerOptions{}, before.Handle(func(_ context.Context, j *task.Job[mailOld]) (string, error) {
		return j.Args.To + " " + j.Args.Text, nil
	}),
		task.Define[mailRenamed, mailRenamed]("layout:Result").Handle(func(_ context.Context, j *task.Job[mailRenamed]) (mailRenamed, error) { return j.Args, nil }))
	if r, err := h.Await(e.ctx()); err != nil || r != "ada hello" {
		t.Errorf("%q %v", r, err)
	}

	// A result of another version is a typed error of Await.
	r, err := task.Define[mailRenamed, mailOld]("layout:Result").Submit(e.ctx(), e.client, mailRenamed{To: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Await(e.ctx()); !errors.Is(err, task.ErrLayout) {
		t.Errorf("%+v %v", got, err)
	}
}
