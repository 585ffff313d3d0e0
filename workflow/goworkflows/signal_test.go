package goworkflows_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// A workflow signals by an activity, whose worker dies after the signal and before its result: it is sent again, and counts once.
func TestSignalOfWorkflowCountsOnce(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	g := testenv.NewGuillotine(t, srv.Addr)
	prefix := srv.Prefix(t)
	at := func(url string) *goworkflows.Backend {
		return openAt(t, fmt.Sprintf("%s?prefix=%s&lease=%s", url, prefix, dyingLease), quiet)
	}
	self := func(ctx gowf.Context) (int, error) {
		if _, err := gowf.SignalWorkflow(ctx, gowf.WorkflowInstance(ctx).InstanceID, "self", 7).Get(ctx); err != nil {
			return 0, err
		}
		n, _ := gowf.NewSignalChannel[int](ctx, "self").Receive(ctx)
		return n, nil
	}
	dying := at(g.URL)
	g.Only(func(words []string) bool {
		return strings.HasPrefix(words[0], "EVAL") && strings.Contains(strings.Join(words, " "), `"ActivityCompleted"`)
	})
	g.Arm(1, false, func() {})
	work(t, goworkflows.NewWorker(dying, nil), []any{self}, nil)
	b := at(srv.URL)
	c := client.New(b)
	i := create(t, c, "self", self)
	<-g.Fell
	work(t, goworkflows.NewWorker(b, nil), []any{self}, nil)
	if got, err := client.GetWorkflowResult[int](t.Context(), c, i, patience); got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	past, err := b.GetWorkflowInstanceHistory(t.Context(), i, nil)
	testenv.Must(t, err)
	signals := 0
	for _, e := range past {
		if e.Type == history.EventType_SignalReceived {
			signals++
		}
	}
	if signals != 1 {
		t.Errorf("%d signals", signals)
	}
}

// All signals of a burst are received once and in their order, by executions that continue as new after every one of them.
func TestBurstOverContinuations(t *testing.T) {
	t.Parallel()
	b := open(t, testenv.Redis(t), quiet)
	const signals = 20
	each := func(ctx gowf.Context, got []int) ([]int, error) {
		n, _ := gowf.NewSignalChannel[int](ctx, "n").Receive(ctx)
		if got = append(got, n); len(got) < signals {
			return nil, gowf.ContinueAsNew(ctx, got)
		}
		return got, nil
	}
	burst(t, b, each, signals)
	work(t, goworkflows.NewWorker(b, nil), []any{each}, nil)
	received(t, b, signals)
}

// A signal that is there when another arm of a select continues as new goes to the next execution.
func TestSignalBehindOtherArm(t *testing.T) {
	t.Parallel()
	b := open(t, testenv.Redis(t), quiet)
	const signals = 30
	quick := func(context.Context) error { return nil }
	arms := func(ctx gowf.Context, got []int) ([]int, error) {
		ns, other := gowf.NewSignalChannel[int](ctx, "n"), gowf.ExecuteActivity[any](ctx, gowf.DefaultActivityOptions, quick)
		for done := false; !done; {
			gowf.Select(ctx,
				gowf.Await(other, func(gowf.Context, gowf.Future[any]) { done = true }),
				gowf.Receive(ns, func(_ gowf.Context, n int, _ bool) { got = append(got, n) }))
		}
		if len(got) < signals {
			return nil, gowf.ContinueAsNew(ctx, got)
		}
		return got, nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{arms}, []any{quick})
	burst(t, b, arms, signals)
	received(t, b, signals)
}

// burst starts the instance a and sends it the numbers below n.
func burst(t *testing.T, b *goworkflows.Backend, workflow any, n int) {
	t.Helper()
	c := client.New(b)
	create(t, c, "a", workflow, []int{})
	for k := range n {
		testenv.Must(t, c.SignalWorkflow(t.Context(), "a", "n", k))
	}
}

// received wants the numbers below n, in their order, as the result of the instance a, which has continued.
func received(t *testing.T, b *goworkflows.Backend, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, untilFinished(ctx, b, "a"))
	got, err := goworkflows.Result[[]int](ctx, b, &gowf.Instance{InstanceID: "a"})
	for k := range max(n, len(got)) {
		if k >= len(got) || got[k] != k {
			t.Fatalf("received %v of %d, %v", got, n, err)
		}
	}
}
