package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

const metricsPath = "/v1/metrics" // of OTLP over HTTP

// Push sends the metrics of a process to a collector, each minute or as OTEL_METRIC_EXPORT_INTERVAL says, and once more when it is closed. What a collector does not take in time is dropped: the next
// has the same counters. A nil *Push sends nothing.
type Push struct{ provider *metric.MeterProvider }

// NewPush checks where to and returns at once. Close it.
func NewPush(ctx context.Context, m *Metrics, to Collector) (*Push, error) {
	if err := to.validate("metrics"); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if err := checkHeaders("OTEL_EXPORTER_OTLP_METRICS_HEADERS"); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	named, err := to.named(ctx)
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(to.address(metricsPath)))
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics endpoint %s: %w", to.Endpoint, err)
	}
	reader := metric.NewPeriodicReader(&tellingMetrics{exporter, telling{what: "metrics", endpoint: to.Endpoint, log: to.Log}},
		metric.WithProducer(prometheus.NewMetricProducer(prometheus.WithGatherer(m.registry))), metric.WithTimeout(exportTime))
	return &Push{metric.NewMeterProvider(metric.WithResource(named), metric.WithReader(reader))}, nil
}

// Close sends the metrics once more, for at most two seconds.
func (p *Push) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = p.provider.Shutdown(ctx) // what went wrong was told by telling
}

type tellingMetrics struct {
	metric.Exporter
	telling
}

func (e *tellingMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.told(e.Exporter.Export(ctx, m), 1)
	return nil
}
