package telemetry

import (
	"cmp"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the counters of one process, in a registry of their own. Labels take values from closed sets only, so that no input can
// make series without end. Its methods are safe for concurrent use, but for those that register, and do not block; a nil *Metrics counts nothing.
type Metrics struct {
	registry   *prometheus.Registry
	registered []prometheus.Collector

	commands    *prometheus.CounterVec
	commandTime *prometheus.HistogramVec
	retries     prometheus.Counter
	stream      *prometheus.CounterVec
	recipes     *prometheus.CounterVec
}

// durations are the bounds of the histograms in seconds: from a quarter of a millisecond to ten seconds.
var durations = []float64{.00025, .0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10}

// NewMetrics makes the counters, all zero, and those of the Go runtime and the process.
func NewMetrics(version string) *Metrics {
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	histogram := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations}
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		commands:    prometheus.NewCounterVec(counter("takt_commands_total", "Commands taken, by method and by what they were answered with."), []string{"method", "status"}),
		commandTime: prometheus.NewHistogramVec(histogram("takt_command_seconds", "From a command's arrival to its reply being ready."), []string{"method"}),
		retries:     prometheus.NewCounter(counter("takt_commit_conflicts_total", "Decisions made again because another writer came first, or the store was away.")),
		stream:      prometheus.NewCounterVec(counter("takt_stream_entries_total", "Entries of streams, by consumer group and outcome."), []string{"group", "outcome"}),
		recipes:     prometheus.NewCounterVec(counter("takt_recipe_operations_total", "What the recipe engine did, by operation and result."), []string{"operation", "result"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "takt_build_info", Help: "Always 1; the version is the label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.Registerer().MustRegister(m.commands, m.commandTime, m.retries, m.stream, m.recipes, build)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Command counts a command that was answered. method "" = none of ours; status is what it was answered with, a name of a closed set; tries is how often
// it was decided, 1 if at once.
func (m *Metrics) Command(method, status string, tries int, took time.Duration) {
	if m == nil {
		return
	}
	method = cmp.Or(method, "unknown")
	m.commands.WithLabelValues(method, status).Inc()
	m.commandTime.WithLabelValues(method).Observe(took.Seconds())
	m.Conflicts(tries - 1)
}

// Conflicts counts n decisions that had to be made again.
func (m *Metrics) Conflicts(n int) {
	if m != nil && n > 0 {
		m.retries.Add(float64(n))
	}
}

// Stream counts n entries of a consumer group with the same outcome: handled, failed, retried, dead, lost, taken_over.
func (m *Metrics) Stream(group, outcome string, n int) {
	if m != nil && n > 0 {
		m.stream.WithLabelValues(group, outcome).Add(float64(n))
	}
}

// Recipe counts an operation of the recipe engine with its result, both of closed sets.
func (m *Metrics) Recipe(operation, result string) {
	if m != nil {
		m.recipes.WithLabelValues(operation, result).Inc()
	}
}

// Gauge shows what read returns whenever the metrics are asked for. name begins with takt_ and is used once; read must be fast and safe to call at any time.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	if m != nil {
		m.Registerer().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
}

// Registerer takes the counters of packages that bring their own. It is for the start of a process, by one goroutine.
func (m *Metrics) Registerer() prometheus.Registerer { return registerer{m} }

// Handler answers with all of them in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
