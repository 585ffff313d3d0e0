package goworkflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// What can never be recorded fails at once, instead of being tried for ever.
func TestRefused(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	large := strings.Repeat("x", 2<<20)
	print := func(context.Context) (string, error) { return large, nil }
	activity := func(ctx gowf.Context) (string, error) {
		return gowf.ExecuteActivity[string](ctx, gowf.DefaultActivityOptions, print).Get(ctx)
	}
	result := func(gowf.Context) (string, error) { return large, nil }
	parent := func(ctx gowf.Context) (string, error) {
		return gowf.CreateSubWorkflowInstance[string](ctx, gowf.SubWorkflowOptions{}, result).Get(ctx)
	}
	name := func(ctx gowf.Context) (string, error) {
		return gowf.CreateSubWorkflowInstance[string](ctx, gowf.SubWorkflowOptions{InstanceID: strings.Repeat("n", 200)}, result).Get(ctx)
	}
	work(t, goworkflows.NewWorker(b, nil), []any{activity, result, parent, name}, []any{print})
	c := client.New(b)
	for id, x := range map[string]struct {
		workflow any
		says     string
	}{"activity": {activity, "at most"}, "result": {result, "at most"}, "parent": {parent, "at most"}, "name": {name, "128 bytes"}} {
		i := create(t, c, id, x.workflow)
		got, err := client.GetWorkflowResult[string](t.Context(), c, i, patience)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %d bytes, %v", id, len(got), err)
		}
		if info, err := b.Client().Info(t.Context(), workflow.Instance{ID: id}); err != nil || info.Outcome != workflow.Failed {
			t.Errorf("%s: %+v, %v", id, info, err)
		}
	}
}

// A signal as large as one may be reaches its workflow, which records it with its number, and goes on, or fails of something else.
func TestLargestSignal(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	length := func(ctx gowf.Context) (int, error) {
		text, _ := gowf.NewSignalChannel[string](ctx, "text").Receive(ctx)
		return len(text), nil
	}
	double := func(ctx gowf.Context) (string, error) {
		text, _ := gowf.NewSignalChannel[string](ctx, "text").Receive(ctx)
		return text + text, nil
	}
	c := client.New(b)
	i, fails := create(t, c, "a", length), create(t, c, "b", double)
	sent := 3 << 18 // in base64 that is 1 MiB
	for ; ; sent-- {
		err := c.SignalWorkflow(t.Context(), "a", "text", strings.Repeat("x", sent))
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "at most") {
			t.Fatal(err)
		}
	}
	testenv.Must(t, c.SignalWorkflow(t.Context(), "b", "text", strings.Repeat("x", sent)))
	work(t, goworkflows.NewWorker(b, nil), []any{length, double}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := goworkflows.Result[int](ctx, b, i); got != sent || err != nil {
		t.Errorf("%d of %d bytes, %v", got, sent, err)
	}
	if got, err := goworkflows.Result[string](ctx, b, fails); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// An error without a text makes the library panic when it reads it.
func TestErrorWithoutText(t *testing.T) {
	b := open(t, testenv.Redis(t), quiet)
	silent := func(context.Context) error { return errors.New("") }
	wf := func(ctx gowf.Context) error {
		_, err := gowf.ExecuteActivity[any](ctx, gowf.ActivityOptions{}, silent).Get(ctx)
		return err
	}
	work(t, goworkflows.NewWorker(b, nil), []any{wf}, []any{silent})
	c := client.New(b)
	if _, err := client.GetWorkflowResult[any](t.Context(), c, create(t, c, "silent", wf), patience); err == nil || err.Error() != "" {
		t.Errorf("%q", err)
	}
}
