package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	flushTime  = 2 * time.Second  // that a stop waits for the last spans
	exportTime = 10 * time.Second // for one batch, with its repetitions
	tracesPath = "/v1/traces"     // of OTLP over HTTP
	tracerName = "github.com/taktworks/takt"
	headerName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// Collector is where a process sends what it tells of itself. Endpoint is required.
type Collector struct {
	// Endpoint is the URL of an OpenTelemetry collector that takes OTLP over HTTP, http://host:4318; without a path it gets that of the standard, /v1/traces or /v1/metrics.
	// Headers, certificates, compression and the timeout of the connection are what the standard's environment variables OTEL_EXPORTER_OTLP_* say.
	Endpoint string
	// Service, Version and Instance name the process in all that it sends: service.name, service.version, service.instance.id. Attributes of OTEL_RESOURCE_ATTRIBUTES are added.
	Service, Version, Instance string
	Log                        *slog.Logger // nil = silent
}

// TraceOptions say which spans go where.
type TraceOptions struct {
	Collector
	// Ratio is the part of the traces that begin here that is kept, 0 to 1. Of a trace that began elsewhere, whoever began it decides.
	Ratio float64
}

// validate names the field, its value and the rule. what is sent: trace, metrics.
func (o *Collector) validate(what string) error {
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil: // its text has the URL, with what may be secret in it
		return fmt.Errorf("%s endpoint: not a URL: must be like http://host:4318", what)
	case u.User != nil:
		return fmt.Errorf("%s endpoint %s: must not hold a user or password: give credentials with OTEL_EXPORTER_OTLP_HEADERS", what, u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s endpoint %q: must be http://host:port or https://host:port, with or without a path", what, o.Endpoint)
	case o.Service == "":
		return fmt.Errorf("%s service is empty: must name this program in what it sends", what)
	}
	return checkHeaders("OTEL_EXPORTER_OTLP_HEADERS")
}

func (o *TraceOptions) validate() error {
	if err := o.Collector.validate("trace"); err != nil {
		return err
	}
	if !(o.Ratio >= 0 && o.Ratio <= 1) { // NaN is neither
		return fmt.Errorf("trace ratio %v: must be 0 to 1", o.Ratio)
	}
	return checkHeaders("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
}

// address is the endpoint with the path of the standard if it has none.
func (o *Collector) address(path string) string {
	if u, err := url.Parse(o.Endpoint); err == nil && strings.Trim(u.Path, "/") == "" {
		return strings.TrimRight(o.Endpoint, "/") + path
	}
	return o.Endpoint
}

// named is who sends. Of what is named twice the later wins, and that is ours.
func (o *Collector) named(ctx context.Context) (*resource.Resource, error) {
	named, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(
		semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance)))
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return named, nil
}

// checkHeaders refuses what the exporter would complain of with the value in clear.
func checkHeaders(variable string) error {
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	for i, header := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(header, "=")
		name = strings.TrimSpace(name)
		if _, err := url.PathUnescape(value); !ok || name == "" || strings.Trim(name, headerName) != "" || err != nil {
			return fmt.Errorf("%s: header %d: must be NAME=VALUE with the value percent-encoded, and a comma between two", variable, i+1)
		}
	}
	return nil
}

// Traces send spans to a collector, in batches and in the background. Spans that a collector does not take in time, or that come faster than it takes them, are dropped: nothing ever waits
// for them but Close, and that not for long. A nil *Traces makes no spans. Its methods are safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	exporter *otlptrace.Exporter
}

// NewTraces checks the options and returns at once: whether the collector is there shows with the first spans. Close it.
func NewTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	named, err := o.named(ctx)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.address(tracesPath)))
	if err != nil {
		return nil, fmt.Errorf("telemetry: trace endpoint %s: %w", o.Endpoint, err)
	}
	return &Traces{exporter: exporter, provider: sdktrace.NewTracerProvider(
		sdktrace.WithResource(named),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))),
		sdktrace.WithBatcher(&tellingSpans{exporter, telling{what: "traces", endpoint: o.Endpoint, log: o.Log}}, sdktrace.WithBatchTimeout(time.Second), sdktrace.WithExportTimeout(exportTime)),
	)}, nil
}

// Provider is for packages that make spans; nil if t is.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Start begins a span of this program; end ends it, as failed if err is not nil.
func (t *Traces) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (_ context.Context, end func(err error)) {
	var provider trace.TracerProvider = noop.NewTracerProvider() // hands the span that ctx is in on
	if t != nil {
		provider = t.provider
	}
	ctx, span := provider.Tracer(tracerName).Start(ctx, name, options...)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, Hide(err.Error()))
		}
		span.End()
	}
}

// Record is a span of something that took some time until now.
func (t *Traces) Record(name string, kind trace.SpanKind, took time.Duration, failed bool, attributes ...attribute.KeyValue) {
	if t == nil {
		return
	}
	_, span := t.provider.Tracer(tracerName).Start(context.Background(), name, trace.WithSpanKind(kind), trace.WithTimestamp(time.Now().Add(-took)), trace.WithAttributes(attributes...))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Close sends what is left, for at most two seconds.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what went wrong was told by telling
	_ = t.exporter.Shutdown(ctx) // breaks off what is still being sent
}

// telling logs when a collector begins to fail, and when it takes what is sent again. To whom it exports nothing fails.
type telling struct {
	what     string // is sent
	endpoint string
	log      *slog.Logger

	mu      sync.Mutex
	dropped int
}

// told notes how an export of n ended.
func (e *telling) told(err error, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil && e.dropped > 0:
		e.say(slog.LevelInfo, e.what+" are sent again", "endpoint", e.endpoint, "dropped", e.dropped)
		e.dropped = 0
	case err != nil:
		if e.dropped == 0 {
			e.say(slog.LevelWarn, e.what+" are not sent, and dropped until they are; the work goes on", "endpoint", e.endpoint, "err", clip(err.Error()))
		}
		e.dropped += n
	}
}

type tellingSpans struct {
	sdktrace.SpanExporter
	telling
}

func (e *tellingSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.told(e.SpanExporter.ExportSpans(ctx, spans), len(spans))
	return nil
}

func (e *telling) say(level slog.Level, message string, args ...any) {
	if e.log != nil {
		e.log.Log(context.Background(), level, message, args...)
	}
}

// clip keeps what a collector answered from filling the log.
func clip(text string) string {
	const limit = 300
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}
