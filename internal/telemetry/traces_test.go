package telemetry

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/otlp"
)

func traceOptions(endpoint string) TraceOptions {
	return TraceOptions{Collector{Endpoint: endpoint, Service: "takt-test", Version: "v1", Instance: "host:1"}, 1}
}

func newTraces(t *testing.T, o TraceOptions) *Traces {
	t.Helper()
	traces, err := NewTraces(t.Context(), o)
	testenv.Must(t, err)
	return traces
}

func TestTracesReachTheCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=plant-7,service.name=other")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // ours wins
	c := otlp.NewCollector(t)
	traces := newTraces(t, traceOptions(c.URL))
	ctx, end := traces.Start(context.Background(), "outer")
	_, endInner := traces.Start(ctx, "inner")
	endInner(errors.New("at redis://u:hunter2@h"))
	end(nil)
	traces.Record("past", trace.SpanKindServer, time.Second, false, attribute.String("k", "v"))
	traces.Close()
	outer, ok := c.Find("outer")
	inner, ok2 := c.Find("inner")
	past, ok3 := c.Find("past")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("spans %+v", c.Spans())
	}
	if inner.Trace != outer.Trace || inner.Parent != outer.ID || !inner.Failed || outer.Failed {
		t.Errorf("outer %+v, inner %+v", outer, inner)
	}
	if past.Attributes["k"] != "v" || past.Trace == outer.Trace {
		t.Errorf("%+v", past)
	}
	for name, want := range map[string]string{"service.name": "takt-test", "service.version": "v1", "service.instance.id": "host:1", "deployment.environment": "plant-7"} {
		if got := outer.Attributes[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := c.Header.Get("Authorization"); got != "Bearer hunter2" || c.Path != "/v1/traces" {
		t.Errorf("POST %s with Authorization %q", c.Path, got)
	}
}

func TestTracesPathOfEndpoint(t *testing.T) {
	for path, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/otlp/v1/traces": "/otlp/v1/traces"} {
		c := otlp.NewCollector(t)
		traces := newTraces(t, traceOptions(c.URL+path))
		_, end := traces.Start(context.Background(), "s")
		end(nil)
		traces.Close()
		if c.Path != want {
			t.Errorf("endpoint with path %q: POST %q, want %q", path, c.Path, want)
		}
	}
}

// What began elsewhere is kept or left as it was decided there; of what begins here the ratio decides.
func TestTraceRatio(t *testing.T) {
	c := otlp.NewCollector(t)
	o := traceOptions(c.URL)
	o.Ratio = 0
	traces := newTraces(t, o)
	_, end := traces.Start(context.Background(), "ours")
	end(nil)
	for name, flags := range map[string]trace.TraceFlags{"kept": trace.FlagsSampled, "left": 0} {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
		_, end := traces.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), name)
		end(nil)
	}
	traces.Close()
	if all := c.Spans(); len(all) != 1 || all[0].Name != "kept" {
		t.Errorf("%+v", all)
	}
}

// A nil *Traces makes nothing, and hands the context of others on.
func TestNoTraces(t *testing.T) {
	var traces *Traces
	if p := traces.Provider(); p != nil {
		t.Errorf("provider %v", p)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	ctx, end := traces.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), "s")
	if got := trace.SpanContextFromContext(ctx); !got.Equal(parent) {
		t.Errorf("%+v", got)
	}
	end(errors.New("x"))
	traces.Record("s", trace.SpanKindServer, 0, false)
	traces.Close()
}

// A collector that never answers, refuses, or is not there: spans are made as fast as ever, the stop is bounded, and the log says it once, without a secret.
func TestTracesOfBadCollectors(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=hunter2")
	hang := make(chan struct{})
	var asked atomic.Int32 // batches that the silent one was sent: the next only when its time for one is over
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	defer close(hang)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, strings.Repeat("no such tenant ", 100), http.StatusForbidden)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct{ endpoint, said string }{
		"silent": {silent.URL, ""}, "refusing": {refusing.URL, "no such tenant"}, "gone": {gone.URL, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(testenv.Log)
			logger, err := NewLogger(log, "text", "debug")
			testenv.Must(t, err)
			o := traceOptions(c.endpoint)
			o.Log = logger
			traces := newTraces(t, o)
			for range 10_000 { // four times as many as wait in the queue, twenty batches
				_, end := traces.Start(context.Background(), "s")
				end(nil)
			}
			before := asked.Load()
			if before > 7 { // of fourteen, if they waited for room in the queue
				t.Errorf("10,000 spans took the time of %d batches", before)
			}
			traces.Close()
			if n := asked.Load() - before; n > 3 { // of at least four that wait, if they were not broken off
				t.Errorf("the stop took the time of %d batches", n)
			}
			text := log.String()
			if strings.Contains(text, "hunter2") || c.said != "" && (strings.Count(text, "not sent") != 1 || !strings.Contains(text, c.said)) || len(text) > 1000 {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// A collector that comes back is told of in the log, with how much it has missed.
func TestTracesAreSentAgain(t *testing.T) {
	log := new(testenv.Log)
	logger, err := NewLogger(log, "text", "info")
	testenv.Must(t, err)
	var refuse sync.Once
	asked := make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse.Do(func() { w.WriteHeader(http.StatusForbidden) })
		asked <- struct{}{}
	}))
	defer srv.Close()
	o := traceOptions(srv.URL)
	o.Log = logger
	traces := newTraces(t, o)
	for range 2 {
		_, end := traces.Start(context.Background(), "s")
		end(nil)
		<-asked
	}
	traces.Close()
	if text := log.String(); strings.Count(text, "not sent") != 1 || !strings.Contains(text, "sent again") || !strings.Contains(text, "dropped=1") {
		t.Errorf("log: %s", text)
	}
}

func TestTraceOptionsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*TraceOptions){
		"not a URL":                         func(o *TraceOptions) { o.Endpoint = "http://u:hunter2@h:port" },
		"OTEL_EXPORTER_OTLP_HEADERS":        func(o *TraceOptions) { o.Endpoint = "https://u:hunter2@h" },
		`"host:4318"`:                       func(o *TraceOptions) { o.Endpoint = "host:4318" },
		`"ftp://h"`:                         func(o *TraceOptions) { o.Endpoint = "ftp://h" },
		"with or without a path":            func(o *TraceOptions) { o.Endpoint = "http://" },
		`"http://h?token=1"`:                func(o *TraceOptions) { o.Endpoint = "http://h?token=1" },
		"service is empty":                  func(o *TraceOptions) { o.Service = "" },
		"ratio 1.5: must be 0 to 1":         func(o *TraceOptions) { o.Ratio = 1.5 },
		"ratio NaN":                         func(o *TraceOptions) { o.Ratio = math.NaN() },
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": func(*TraceOptions) { t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b,hunter2") },
	} {
		o := traceOptions("http://h:4318")
		change(&o)
		_, err := NewTraces(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want %q", err, want)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "")
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense")
	if _, err := NewTraces(t.Context(), traceOptions("http://h:4318")); err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("error %v", err)
	}
}
