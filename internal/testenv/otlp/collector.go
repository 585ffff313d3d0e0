// Package otlp takes traces and metrics in tests. It is apart from testenv, for its libraries of OpenTelemetry and gRPC are needed by few tests, and go mod tidy asks for those of all packages that the tests of
// a dependency import.
package otlp

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces and metrics as an OpenTelemetry collector does, by OTLP over HTTP in protobuf, and keeps them. Its methods are safe for concurrent use.
type Collector struct {
	URL    string
	Header http.Header // of the first request
	Path   string      // of the first request

	mu     sync.Mutex
	spans  []Span
	values map[string]float64
}

// Span is one that a Collector has got.
type Span struct {
	Service, Name, Trace, ID, Parent string            // ids as bytes
	Failed                           bool              // its status is an error
	Attributes                       map[string]string // those that are text, and those of its process
}

// NewCollector serves one on a free port until the test ends.
func NewCollector(t testing.TB) *Collector {
	c := new(Collector)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("collector: %v", err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(srv.Close)
	c.URL = srv.URL
	return c
}

func (c *Collector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if r.URL.Path == "/v1/metrics" {
		return c.takeMetrics(data)
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Header == nil {
		c.Header, c.Path = r.Header.Clone(), r.URL.Path
	}
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{Name: s.Name, Trace: string(s.TraceId), ID: string(s.SpanId), Parent: string(s.ParentSpanId), Failed: s.Status.GetCode() == 2, Attributes: make(map[string]string)}
				for _, a := range slices.Concat(of.Resource.Attributes, s.Attributes) {
					span.Attributes[a.Key] = a.Value.GetStringValue()
				}
				span.Service = span.Attributes["service.name"]
				c.spans = append(c.spans, span)
			}
		}
	}
	return nil
}

func (c *Collector) takeMetrics(data []byte) error {
	var request metrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values = make(map[string]float64)
	for _, of := range request.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range slices.Concat(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()) {
					c.values[m.Name] += point.GetAsDouble()
				}
				for _, point := range m.GetHistogram().GetDataPoints() {
					c.values[m.Name] += float64(point.Count)
				}
			}
		}
	}
	return nil
}

// Metrics are those that came last, by name: the sum of a gauge or counter over its labels, or how often a histogram was observed.
func (c *Collector) Metrics() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.values)
}

// Spans are those that have come, in the order of their coming.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Find returns the first span with the name; ok is false if there is none yet.
func (c *Collector) Find(name string) (s Span, ok bool) {
	all := c.Spans()
	i := slices.IndexFunc(all, func(s Span) bool { return s.Name == name })
	if i < 0 {
		return Span{}, false
	}
	return all[i], true
}
