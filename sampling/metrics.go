package sampling

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taktworks/takt/isa95"
)

// gauges are how a sample is shown. A sample of which a part could not be read has no values of it.
var gauges = []struct {
	name, help, label string // label "" = one value
	part              string // of Sample.Unread
	values            func(s *Sample) map[string]float64
}{
	{"takt_job_orders", "Job orders that are not in EndState, by top state.", "state", "", func(s *Sample) map[string]float64 {
		all := make(map[string]float64)
		for _, state := range isa95.States() {
			if state.Top != "" && !state.IsEnd() {
				all[state.Top] = float64(s.Orders[state.Top])
			}
		}
		return all
	}},
	{"takt_oldest_waiting_seconds", "How long the order that waits longest has been in its state; those that run or are over do not wait.", "", "", func(s *Sample) map[string]float64 { return one(s.Waiting.Seconds()) }},
	{"takt_job_orders_ended_last_minute", "Job orders that ended in the minute of the sample, by how: ended, aborted.", "how", "", func(s *Sample) map[string]float64 {
		return map[string]float64{"ended": float64(s.Ended), "aborted": float64(s.Aborted)}
	}},
	{"takt_recipes_running", "Recipes that run.", "", "", func(s *Sample) map[string]float64 { return one(float64(s.Recipes)) }},
	{"takt_backlog_entries", "Entries of internal streams that are not done with: work (of the recipe engine), commands (to equipment), events (status events to send), changes (whose retained topics are not published; at most 100 are counted).", "stream", "", func(s *Sample) map[string]float64 {
		all := make(map[string]float64)
		for name, b := range s.Backlog {
			all[name] = float64(b.Entries)
		}
		return all
	}},
	{"takt_backlog_oldest_seconds", "Age of the oldest of these entries, 0 if there is none.", "stream", "", func(s *Sample) map[string]float64 {
		all := make(map[string]float64)
		for name, b := range s.Backlog {
			all[name] = b.Oldest.Seconds()
		}
		return all
	}},
	{"takt_instances", "Processes of takt serve with a sign of life; of those with --session-expiry 0 only such as have something in hand.", "", "", func(s *Sample) map[string]float64 { return one(float64(s.Instances)) }},
	{"takt_engines", "Processes of takt serve with the role engine and a sign of life.", "", "", func(s *Sample) map[string]float64 { return one(float64(s.Engines)) }},
	{"takt_timer_lateness_seconds", "How long the first time-out that is due waits: of a recipe, of a workflow instance, or of a delayed task.", "part", "", func(s *Sample) map[string]float64 {
		all := map[string]float64{"recipes": s.TimerLate.Seconds()}
		if s.Unread["tasks"] == "" {
			all["tasks"] = s.Tasks.Late.Seconds()
		}
		if s.Unread["workflows"] == "" {
			all["workflows"] = s.Workflows.TimerLate.Seconds()
		}
		return all
	}},
	{"takt_dead_letters", "What could not be handled and waits for an operator, by part.", "part", "", func(s *Sample) map[string]float64 {
		all := map[string]float64{"orders": float64(s.Dead.Orders)}
		if s.Unread["tasks"] == "" {
			all["tasks"] = float64(s.Dead.Tasks)
		}
		if s.Unread["workflows"] == "" {
			all["workflows"] = float64(s.Dead.Workflows)
		}
		return all
	}},
	{"takt_tasks_waiting", "Tasks that wait in a queue, of queues with any.", "queue", "tasks", func(s *Sample) map[string]float64 { return floats(s.Tasks.Waiting) }},
	{"takt_tasks_running", "Tasks that workers hold, of queues with any.", "queue", "tasks", func(s *Sample) map[string]float64 { return floats(s.Tasks.Running) }},
	{"takt_tasks_delayed", "Tasks that wait for a later time: due = for that alone, blocked = for a lock.", "why", "tasks", func(s *Sample) map[string]float64 {
		return map[string]float64{"due": float64(s.Tasks.Delayed - s.Tasks.Blocked), "blocked": float64(s.Tasks.Blocked)}
	}},
	{"takt_tasks_oldest_seconds", "Age of the oldest task in any queue.", "", "tasks", func(s *Sample) map[string]float64 { return one(s.Tasks.Oldest.Seconds()) }},
	{"takt_tasks_unserved", "1 while tasks wait in a queue for which no worker has slots.", "", "tasks", func(s *Sample) map[string]float64 {
		if s.Tasks.Unserved {
			return one(1)
		}
		return one(0)
	}},
	{"takt_tasks_ended", "Tasks that ended since the counters in Redis were made: done, dead.", "outcome", "tasks", func(s *Sample) map[string]float64 {
		return map[string]float64{"done": float64(s.Tasks.Done), "dead": float64(s.Tasks.Failed)}
	}},
	{"takt_workers", "Workers of tasks that are registered.", "", "tasks", func(s *Sample) map[string]float64 { return one(float64(s.Tasks.Workers)) }},
	{"takt_schedule_lateness_seconds", "How long the first slot of a schedule that is due waits.", "", "tasks", func(s *Sample) map[string]float64 { return one(s.Tasks.Schedule.Seconds()) }},
	{"takt_workflow_instances", "Workflow instances: active, and since the counters in Redis were made those of each end.", "state", "workflows", func(s *Sample) map[string]float64 {
		all := floats(s.Workflows.Ended)
		all["active"] = float64(s.Workflows.Active)
		return all
	}},
	{"takt_workflow_backlog", "Workflow tasks and activities that wait or run, and timers that have not fired: tasks, activities, timers.", "kind", "workflows", func(s *Sample) map[string]float64 {
		return map[string]float64{"tasks": float64(s.Workflows.Tasks), "activities": float64(s.Workflows.Activities), "timers": float64(s.Workflows.Timers)}
	}},
}

func one(v float64) map[string]float64 { return map[string]float64{"": v} }

func floats[K ~string](of map[K]int64) map[string]float64 {
	all := make(map[string]float64, len(of))
	for k, n := range of {
		all[string(k)] = float64(n)
	}
	return all
}

// Describe is that of a prometheus.Collector: all gauges.
func (s *Sampler) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

var descriptions = func() (all []*prometheus.Desc) {
	for _, g := range gauges {
		var labels []string
		if g.label != "" {
			labels = []string{g.label}
		}
		all = append(all, prometheus.NewDesc(g.name, g.help, labels, nil))
	}
	return all
}()

// Collect is that of a prometheus.Collector: the gauges of the last sample, none while another process samples. So each is there once, however many processes there are.
func (s *Sampler) Collect(to chan<- prometheus.Metric) {
	last := s.Last()
	if last == nil {
		return
	}
	for i, g := range gauges {
		if last.Unread[g.part] != "" {
			continue
		}
		values := g.values(last)
		for _, label := range slices.Sorted(maps.Keys(values)) {
			var labels []string
			if g.label != "" {
				labels = []string{label}
			}
			to <- prometheus.MustNewConstMetric(descriptions[i], prometheus.GaugeValue, values[label], labels...)
		}
	}
}
