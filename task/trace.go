package task

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/taktworks/takt/task/internal/wire"
)

const tracerName = "github.com/taktworks/takt/task"

// injectTrace writes down the span that ctx is in, so that the run belongs to its trace. A task that a handler submits without a span of its own continues the trace of
// the handler's task.
func (c *Client) injectTrace(ctx context.Context, m *wire.Meta) {
	if c.opts.NoPropagate {
		return
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		c := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, c)
		m.Trace, m.TraceState = c["traceparent"], c["tracestate"]
	} else if r := running(ctx); r != nil {
		m.Trace, m.TraceState = r.msg.Meta.Trace, r.msg.Meta.TraceState
	}
}

// trace begins the span of a run: a child of the span in which its task was submitted, or the root of a trace if there was none. Without a tracer it costs nothing.
func (r *run) trace(ctx context.Context) context.Context {
	w := r.worker
	if w.tracer == nil {
		return ctx
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), taskAttributes(r.queue, r.msg.Name, r.msg.ID),
		trace.WithAttributes(attribute.Int("task.attempt", r.attempt()))}
	parent := trace.SpanContext{}
	if r.msg.Meta.Trace != "" {
		c := propagation.MapCarrier{"traceparent": r.msg.Meta.Trace, "tracestate": r.msg.Meta.TraceState}
		parent = trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), c))
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot()) // ctx may have a span of whoever started the worker
	}
	ctx, r.span = w.tracer.Start(ctx, "task.execute "+r.msg.Name, options...)
	return ctx
}

func taskAttributes(q Queue, name, id string) trace.SpanStartEventOption {
	return trace.WithAttributes(attribute.String("messaging.system", "redis"), attribute.String("messaging.destination.name", string(q)),
		attribute.String("task.name", name), attribute.String("task.id", id))
}

// endSpan ends the span of a run with what came of it.
func (r *run) endSpan(o *outcome) {
	if r.span == nil {
		return
	}
	status := "ok"
	if o.err != nil {
		r.span.SetAttributes(attribute.String("task.error", clip(o.err.Error(), maxHistoryText)))
	}
	if o.kind == Retried || o.kind == Dead {
		status = "error"
		r.span.RecordError(o.err)
		r.span.SetStatus(codes.Error, clip(o.err.Error(), maxHistoryText))
	}
	r.span.SetAttributes(attribute.String("task.status", status), attribute.String("task.outcome", string(o.kind)))
	r.span.End()
	r.span = nil
}

// traceSlot begins the span in which a scheduler submits the task of a slot, the root of its trace. Without a tracer it costs next to nothing.
func (s *Scheduler) traceSlot(d *scheduleDoc, id string) (context.Context, trace.Span) {
	var provider trace.TracerProvider = noop.NewTracerProvider()
	if s.opts.Tracer != nil {
		provider = s.opts.Tracer
	}
	return provider.Tracer(tracerName).Start(context.Background(), "task.schedule "+d.Name, trace.WithSpanKind(trace.SpanKindProducer), taskAttributes(d.Queue, d.Task, id))
}

// endSlots ends the spans of slots with what fire.lua said of them: ok, skipped, conflict, lost; unknown without a reply.
func endSlots(spans []trace.Span, outcome string, err error) {
	for _, span := range spans {
		span.SetAttributes(attribute.String("task.outcome", outcome))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, clip(err.Error(), maxHistoryText))
		}
		span.End()
	}
}
