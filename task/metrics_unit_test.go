package task

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task/internal/wire"
)

func counted(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	testenv.Must(t, m.Write(&d))
	if d.Histogram != nil {
		return float64(d.Histogram.GetSampleCount())
	}
	return d.Counter.GetValue()
}

// unitWorker is a worker that never runs.
func unitWorker(m *Metrics) (*Worker, *run) {
	h := Define[int, int]("test:Unit").Handle(func(context.Context, *Job[int]) (int, error) { return 0, nil })
	w := &Worker{client: new(Client), opts: WorkerOptions{Metrics: m}, handlers: map[string]*Handler{h.Name(): &h}}
	w.control = newControl(w)
	w.meters = newMeters(m, w.handlers, map[Size]int{Medium: 1})
	r := &run{worker: w, handler: &h, entry: &stream.Entry{ID: "1-0"}, queue: "normal:medium", begun: time.Now(), msg: wire.Message{ID: "1", Name: h.Name()}}
	return w, r
}

// A run that did not get its locks is counted as blocked, not as done, and its handler took no time.
func TestBlockedIsNotCompleted(t *testing.T) {
	m := NewMetrics(nil)
	w, r := unitWorker(m)
	for _, kind := range outcomes {
		w.observe(r, &outcome{kind: kind, run: r})
	}
	w.observe(r, &outcome{kind: Blocked, run: r})
	for _, kind := range outcomes {
		want := 1.0
		if kind == Blocked {
			want = 2
		}
		if n := counted(t, m.runs.WithLabelValues("test:Unit", string(kind))); n != want {
			t.Errorf("%s: %v, want %v", kind, n, want)
		}
	}
	if n := counted(t, m.took.WithLabelValues("test:Unit").(prometheus.Metric)); n != 0 {
		t.Errorf("%v run times of handlers that were not called", n)
	}
}

// Counting a run allocates nothing, with metrics or without.
func TestCountingAllocatesNothing(t *testing.T) {
	for name, m := range map[string]*Metrics{"none": nil, "metrics": NewMetrics(nil)} {
		_, r := unitWorker(m)
		w, o := r.worker, &outcome{kind: Done, run: r}
		n := testing.AllocsPerRun(100, func() {
			w.meters.fetch(r.queue)
			w.meters.enter(r)
			w.meters.leave(r)
			w.meters.end(r, o, time.Second, time.Second)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// What a scheduler could not submit is counted, too.
func TestFailedSlotsAreCounted(t *testing.T) {
	m := NewMetrics(nil)
	m.slots(3, 2, 1)
	m.slots(0, 0, 1)
	for result, want := range map[string]float64{"fired": 3, "skipped": 2, "failed": 2} {
		if n := counted(t, m.scheduled.WithLabelValues(result)); n != want {
			t.Errorf("%s: %v, want %v", result, n, want)
		}
	}
	(*Metrics)(nil).slots(1, 1, 1) // counts nothing
}
