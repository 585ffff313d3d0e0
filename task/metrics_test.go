package task_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

func shown(reg *prometheus.Registry) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// Counts by type and outcome, run time, queue latency, what runs, waits and is promoted.
func TestMetrics(t *testing.T) {
	e := newEnv(t)
	reg := prometheus.NewRegistry()
	m := task.NewMetrics(reg)
	flaky := task.Define[int, int]("test:Flaky", task.Small, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 2}))
	stranger := task.Define[int, int]("test:Stranger", task.Small)
	held, release := make(chan struct{}), make(chan struct{})
	hold := task.Define[int, int]("test:Hold", task.Small)
	e.start(task.WorkerOptions{Metrics: m, Concurrency: map[task.Size]int{task.Small: 4}}, echoing(),
		flaky.Handle(func(context.Context, *task.Job[int]) (int, error) { return 0, errors.New("no") }),
		hold.Handle(func(context.Context, *task.Job[int]) (int, error) { close(held); <-release; return 0, nil }))
	for range 3 {
		done(e, send(e, echo, "x"))
	}
	refused(t, "not dead", errOf(send(e, flaky, 1).Await(e.ctx())))
	send(e, echo, "later", task.In(time.Hour))
	h := send(e, hold, 1)
	wait(t, "it runs", held)
	for _, want := range []string{
		`takt_task_runs_total{outcome="done",task="test:Echo"} 3`,
		`takt_task_runs_total{outcome="retried",task="test:Flaky"} 2`,
		`takt_task_runs_total{outcome="dead",task="test:Flaky"} 1`,
		`takt_task_runs_total{outcome="done",task="test:Flaky"} 0`,
		`takt_task_run_seconds_count{task="test:Echo"} 3`,
		`takt_task_run_seconds_count{task="unknown"} 0`,
		`takt_task_wait_seconds_count{task="test:Flaky"} 3`,
		`takt_task_in_flight{size="small"} 1`,
		`takt_task_fetched_total{queue="normal:small"} 7`,
		`takt_task_promoted_total 2`,
		`takt_task_delayed_pending 1`,
		`takt_task_promotion_late_seconds_count 2`,
		`takt_task_stuck_total{task="test:Echo"} 0`,
	} {
		e.must("PUBLISH", e.key("tasks:control"), "look")
		e.eventually(want, func() bool { return strings.Contains(shown(reg), want+"\n") })
	}
	send(e, stranger, 1)
	e.eventually("it is unknown", func() bool { // how often by now nobody can say
		text := shown(reg)
		return strings.Contains(text, `{outcome="unknown",task="unknown"} `) && !strings.Contains(text, `{outcome="unknown",task="unknown"} 0`)
	})
	if text := shown(reg); strings.Contains(text, "Stranger") {
		t.Error("the name of a task without a handler is a label")
	}
	close(release)
	done(e, h)
	e.eventually("nothing runs", func() bool { return strings.Contains(shown(reg), `takt_task_in_flight{size="small"} 0`) })
}

// The wait of a delayed task begins when it is due, not when it was submitted.
func TestWaitOfADelayedTask(t *testing.T) {
	long.Test(t, "compares times of the machine")
	e := newEnv(t)
	events := make(chan task.Event, 1)
	e.start(task.WorkerOptions{Observe: func(ev task.Event) { events <- ev }}, echoing())
	const delay = 1500 * time.Millisecond
	submitted := time.Now()
	send(e, echo, "x", task.In(delay))
	if ev, all := wait(t, "run", events), time.Since(submitted); ev.Wait > all-delay+100*time.Millisecond { // two clocks are read
		t.Errorf("Wait %v of %v: its delay is in it", ev.Wait, all)
	}
}

// A scheduler counts the slots that it submits, and those that it leaves out.
func TestSchedulerCountsSlots(t *testing.T) {
	e := newEnv(t)
	reg := prometheus.NewRegistry()
	e.schedules(task.SchedulerOptions{Metrics: task.NewMetrics(reg)})
	e.ok(e.client.AddSchedule(e.ctx(), task.ScheduleEntry{Name: "often", Task: "test:Nobody", Spec: "every 100ms", Queue: "normal:small"}))
	e.eventually("the first is submitted", func() bool { return strings.Contains(shown(reg), `takt_task_scheduled_total{result="fired"} 1`+"\n") })
	e.eventually("the next are skipped, for it still waits", func() bool {
		text := shown(reg)
		return strings.Contains(text, `{result="skipped"} `) && !strings.Contains(text, `{result="skipped"} 0`)
	})
	if text := shown(reg); !strings.Contains(text, `{result="fired"} 1`+"\n") || !strings.Contains(text, `{result="failed"} 0`+"\n") {
		t.Error(text)
	}
}
