package task

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what the workers of a process count, for Prometheus; one for all workers on the same prefix. Labels take values from closed sets only: the names of
// handlers and "unknown", outcomes, queues, sizes. A nil *Metrics counts nothing.
//
//	takt_task_runs_total{task,outcome}     ends of runs. A blocked, snoozed, returned or parked run is counted as that, and not as done
//	takt_task_run_seconds{task}            time that handlers took
//	takt_task_wait_seconds{task}           time from a task's submission, or from when it was moved to its queue because it was due, to the start of its handler
//	takt_task_in_flight{size}              handlers that run now
//	takt_task_fetched_total{queue}         tasks taken from the queues
//	takt_task_stuck_total{task}            handlers that ignored the end of their context for longer than WorkerOptions.Margin
//	takt_task_promoted_total               delayed tasks moved to their queues by this process
//	takt_task_promotion_late_seconds       how late the first of them was each time
//	takt_task_delayed_pending              delayed tasks of the prefix, looked at every five seconds
//	takt_task_scheduled_total{result}      occurrences of periodic tasks: fired, skipped, failed
type Metrics struct {
	runs      *prometheus.CounterVec
	took      *prometheus.HistogramVec
	wait      *prometheus.HistogramVec
	inFlight  *prometheus.GaugeVec
	fetched   *prometheus.CounterVec
	stuck     *prometheus.CounterVec
	promoted  prometheus.Counter
	late      prometheus.Histogram
	delayed   prometheus.Gauge
	scheduled *prometheus.CounterVec
}

// Bounds of the histograms in seconds: of runs from a millisecond to an hour, of waiting from a quarter of a millisecond to an hour.
var (
	runBounds  = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
	waitBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5, 15, 60, 300, 1800, 3600}
)

// NewMetrics makes the counters and registers them with reg; nil = nowhere. Like MustRegister it panics if reg has any of these names already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	histogram := func(name, help string, bounds []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}
	}
	m := &Metrics{
		runs:      prometheus.NewCounterVec(counter("takt_task_runs_total", "Ends of runs, by task type and outcome."), []string{"task", "outcome"}),
		took:      prometheus.NewHistogramVec(histogram("takt_task_run_seconds", "Time that handlers took.", runBounds), []string{"task"}),
		wait:      prometheus.NewHistogramVec(histogram("takt_task_wait_seconds", "Time from a task's submission, or from its move to its queue when it was due, to the start of its handler.", waitBounds), []string{"task"}),
		inFlight:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "takt_task_in_flight", Help: "Handlers that run now, by size."}, []string{"size"}),
		fetched:   prometheus.NewCounterVec(counter("takt_task_fetched_total", "Tasks taken from the queues."), []string{"queue"}),
		stuck:     prometheus.NewCounterVec(counter("takt_task_stuck_total", "Handlers that ignored the end of their context."), []string{"task"}),
		promoted:  prometheus.NewCounter(counter("takt_task_promoted_total", "Delayed tasks moved to their queues by this process.")),
		late:      prometheus.NewHistogram(histogram("takt_task_promotion_late_seconds", "How late the first delayed task of each move was.", waitBounds)),
		delayed:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "takt_task_delayed_pending", Help: "Delayed tasks that wait to be due."}),
		scheduled: prometheus.NewCounterVec(counter("takt_task_scheduled_total", "Occurrences of periodic tasks, by result."), []string{"result"}),
	}
	if reg != nil {
		reg.MustRegister(m.runs, m.took, m.wait, m.inFlight, m.fetched, m.stuck, m.promoted, m.late, m.delayed, m.scheduled)
	}
	return m
}

// slots counts what a scheduler did with occurrences of periodic tasks: how many it submitted, left out because of a policy, or could not submit.
func (m *Metrics) slots(fired, skipped, failed int) {
	if m == nil {
		return
	}
	m.scheduled.WithLabelValues("fired").Add(float64(fired))
	m.scheduled.WithLabelValues("skipped").Add(float64(skipped))
	m.scheduled.WithLabelValues("failed").Add(float64(failed))
}

// moved counts delayed tasks that were moved to their queues; late is how long the first of them had been due.
func (m *Metrics) moved(n int64, late time.Duration) {
	if m == nil || n == 0 {
		return
	}
	m.promoted.Add(float64(n))
	m.late.Observe(max(late, 0).Seconds())
}

// meters are the counters of one worker, looked up once, so that a run costs a few additions.
type meters struct {
	handlers map[*Handler]*meter
	unknown  *meter // of tasks that no handler is for, or that cannot be read
	inFlight map[Size]prometheus.Gauge
	fetched  map[Queue]prometheus.Counter
}

// meter counts the runs of one handler.
type meter struct {
	runs       map[Outcome]prometheus.Counter
	took, wait prometheus.Observer
	stuck      prometheus.Counter
}

// unknownTask is the label of tasks without a handler: their names come from outside, and could be any number.
const unknownTask = "unknown"

var outcomes = []Outcome{Done, Dead, Cancelled, Retried, Snoozed, Blocked, Unknown, Returned, Parked}

func newMeters(m *Metrics, handlers map[string]*Handler, sizes map[Size]int) *meters {
	if m == nil {
		return nil
	}
	all := &meters{
		handlers: make(map[*Handler]*meter), unknown: m.meter(unknownTask),
		inFlight: make(map[Size]prometheus.Gauge), fetched: make(map[Queue]prometheus.Counter),
	}
	for name, h := range handlers {
		all.handlers[h] = m.meter(name)
	}
	for size := range sizes {
		all.inFlight[size] = m.inFlight.WithLabelValues(string(size))
		for _, p := range Priorities() {
			q := queueOf(p, size)
			all.fetched[q] = m.fetched.WithLabelValues(string(q))
		}
	}
	return all
}

func (m *Metrics) meter(name string) *meter {
	one := &meter{runs: make(map[Outcome]prometheus.Counter), took: m.took.WithLabelValues(name), wait: m.wait.WithLabelValues(name), stuck: m.stuck.WithLabelValues(name)}
	for _, o := range outcomes {
		one.runs[o] = m.runs.WithLabelValues(name, string(o))
	}
	return one
}

func (m *meters) of(h *Handler) *meter {
	if one := m.handlers[h]; one != nil {
		return one
	}
	return m.unknown
}

func (m *meters) fetch(q Queue) {
	if m != nil {
		m.fetched[q].Inc()
	}
}

func (m *meters) enter(r *run) {
	if m != nil {
		m.inFlight[r.queue.size()].Inc()
	}
}

func (m *meters) leave(r *run) {
	if m != nil {
		m.inFlight[r.queue.size()].Dec()
	}
}

// end counts the end of a run. What took its time, and waited for its start, is only what was started.
func (m *meters) end(r *run, o *outcome, wait, took time.Duration) {
	if m == nil {
		return
	}
	one := m.of(r.handler)
	one.runs[o.kind].Inc()
	if r.ctx != nil {
		one.took.Observe(took.Seconds())
		one.wait.Observe(wait.Seconds())
	}
}

func (m *meters) found(s stuckRun) {
	if m != nil {
		m.of(s.run.handler).stuck.Inc()
	}
}
