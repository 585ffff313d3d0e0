package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/task"
)

// spans is a tracer whose ended spans come through a channel.
type spans struct {
	*sdktrace.TracerProvider
	ended chan sdktrace.ReadOnlySpan
}

func newSpans(t *testing.T) *spans {
	s := &spans{ended: make(chan sdktrace.ReadOnlySpan, 100)}
	s.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s))
	t.Cleanup(func() { _ = s.TracerProvider.Shutdown(context.Background()) })
	return s
}

func (s *spans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (s *spans) OnEnd(span sdktrace.ReadOnlySpan)                { s.ended <- span }
func (s *spans) Shutdown(context.Context) error                  { return nil }
func (s *spans) ForceFlush(context.Context) error                { return nil }

// submitting is a context in a span of the submitter.
func (s *spans) submitting(ctx context.Context) (context.Context, trace.SpanContext) {
	state, err := trace.ParseTraceState("vendor=7")
	if err != nil {
		panic(err)
	}
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true})
	ctx, span := s.Tracer("test").Start(trace.ContextWithRemoteSpanContext(ctx, remote), "submit")
	defer func() { span.End(); <-s.ended }()
	return ctx, span.SpanContext()
}

func attributes(s sdktrace.ReadOnlySpan) map[string]any {
	all := make(map[string]any)
	for _, a := range tracetest.SpanStubFromReadOnlySpan(s).Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// Each run is a span in the trace of whoever submitted its task, over retries too, with what came of it.
func TestTraceAcrossEnqueue(t *testing.T) {
	e := newEnv(t)
	s := newSpans(t)
	typ := task.Define[string, int]("test:Traced", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	e.start(task.WorkerOptions{Tracer: s}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (int, error) {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the handler is in no span")
		}
		if j.Attempt == 1 {
			return 0, errors.New("boom")
		}
		return 1, nil
	}))
	ctx, submitter := s.submitting(e.ctx())
	h, err := typ.Submit(ctx, e.client, "x")
	e.ok(err)
	done(e, h)
	for attempt, status := range []string{"error", "ok"} {
		span := wait(t, "span", s.ended)
		if span.Name() != "task.execute test:Traced" || span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("span %q of kind %v", span.Name(), span.SpanKind())
		}
		if p := span.Parent(); p.SpanID() != submitter.SpanID() || p.TraceID() != submitter.TraceID() || !p.IsRemote() || p.TraceState().Get("vendor") != "7" {
			t.Errorf("parent %+v, want %+v", p, submitter)
		}
		got := attributes(span)
		want := map[string]any{"task.name": "test:Traced", "task.id": h.ID, "task.attempt": int64(attempt + 1), "messaging.system": "redis",
			"messaging.destination.name": "normal:medium", "task.status": status}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("attempt %d: %s is %v, want %v", attempt+1, key, got[key], value)
			}
		}
		if failed := status == "error"; failed != (span.Status().Code == codes.Error) || failed != (got["task.error"] == "boom") || failed != (len(span.Events()) == 1) {
			t.Errorf("attempt %d: status %+v, error %v, %d events", attempt+1, span.Status(), got["task.error"], len(span.Events()))
		}
	}
}

// A task that a task submits is in the same trace, also where a worker without a tracer stands between; one that was submitted outside of all spans begins a new one.
func TestTraceOfChildren(t *testing.T) {
	e := newEnv(t)
	s := newSpans(t)
	parent := task.Define[string, string]("test:Parent", task.Small)
	child := task.Define[string, string]("test:Child", task.Large)
	e.start(task.WorkerOptions{}, parent.Handle(func(ctx context.Context, j *task.Job[string]) (string, error) {
		h, err := child.Submit(ctx, j.Client(), j.Args)
		if err != nil {
			return "", err
		}
		return h.ID, nil
	}))
	working, span := s.Tracer("test").Start(context.Background(), "the worker's own")
	w, err := e.client.Worker(task.WorkerOptions{Tracer: s}, child.Handle(func(_ context.Context, j *task.Job[string]) (string, error) { return j.Args, nil }))
	e.ok(err)
	working, stop := context.WithCancel(working)
	end := make(chan error, 1)
	go func() { end <- w.Run(working) }()
	defer func() { stop(); <-end; span.End() }()

	ctx, submitter := s.submitting(e.ctx())
	e.ok(errOf(parent.Submit(ctx, e.client, "in")))
	if got := wait(t, "span", s.ended); got.Parent().SpanID() != submitter.SpanID() {
		t.Errorf("parent %+v, want %+v", got.Parent(), submitter)
	}
	send(e, parent, "out")
	if got := wait(t, "span", s.ended); got.Parent().IsValid() {
		t.Errorf("a task that was submitted outside of all spans has the parent %+v", got.Parent())
	}
	silent := e.connect(task.Options{NoPropagate: true})
	e.ok(errOf(child.Submit(ctx, silent, "x")))
	if got := wait(t, "span", s.ended); got.Parent().IsValid() {
		t.Errorf("NoPropagate, and the parent is %+v", got.Parent())
	}
}

// A slot is submitted in a span of the scheduler, and the run of its task is in the same trace. A slot that is kept out says so.
func TestTraceOfSlots(t *testing.T) {
	e := newEnv(t)
	s := newSpans(t)
	typ := task.Define[struct{}, task.None]("test:Slot", task.Every(time.Hour, task.RunOnStart()))
	e.schedules(task.SchedulerOptions{Tracer: s}, typ)
	slot := wait(t, "span of the scheduler", s.ended)
	if got := attributes(slot); slot.Name() != "task.schedule test:Slot" || slot.SpanKind() != trace.SpanKindProducer || slot.Parent().IsValid() || got["task.outcome"] != "ok" || got["task.name"] != "test:Slot" {
		t.Errorf("span %q of kind %v: %v", slot.Name(), slot.SpanKind(), got)
	}
	e.start(task.WorkerOptions{Tracer: s}, typ.Handle(func(context.Context, *task.Job[struct{}]) (task.None, error) { return task.None{}, nil }))
	run := wait(t, "span of the run", s.ended)
	if run.Parent().SpanID() != slot.SpanContext().SpanID() || run.SpanContext().TraceID() != slot.SpanContext().TraceID() || attributes(run)["task.id"] != attributes(slot)["task.id"] {
		t.Errorf("run %+v of %v, want it below %+v", run.Parent(), attributes(run), slot.SpanContext())
	}
}

// The span of a slot whose task cannot be made, or whose submission got no answer, has failed.
func TestTraceOfFailedSlots(t *testing.T) {
	e := newEnv(t)
	s := newSpans(t)
	small := e.connect(task.Options{MaxMessage: 300})
	e.schedulesOn(small, task.SchedulerOptions{Tracer: s})
	e.ok(e.client.AddSchedule(e.ctx(), task.ScheduleEntry{Name: "big", Task: "test:Big", Spec: "every 100ms", Args: []byte(`["` + strings.Repeat("x", 500) + `"]`)}))
	slot := wait(t, "span", s.ended)
	if got := attributes(slot); slot.Status().Code != codes.Error || got["task.outcome"] != "failed" || len(slot.Events()) != 1 {
		t.Errorf("status %+v, %v", slot.Status(), got)
	}
}
