package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/task"
)

// OneTask is all that is known of a task.
type OneTask struct {
	*Frame
	Task task.Task `json:"task"` // Since to the second
	Why  []Reason  `json:"why"`  // it does not run

	Reference string        `json:"-"` // as it was asked for
	Timeline  template.HTML `json:"-"`
	Life      []Moment      `json:"-"`
}

// Reason is why a task does not run, and what to do.
type Reason struct {
	Text string `json:"text"`
	Next string `json:"next"`
}

// Moment is one of the life of a task.
type Moment struct {
	At                 time.Time
	Text, Detail, Tone string
}

// labelsShown is how many labels the page of a task shows.
const labelsShown = 20

func (c *Console) taskOne(ctx context.Context, client *task.Client, r *http.Request) (shown, error) {
	ref, err := task.ParseRef(r.FormValue("ref"))
	if err != nil {
		return nil, err
	}
	t, err := client.FindNear(ctx, ref)
	if errors.Is(err, task.ErrNotFound) {
		id := clipped(ref.ID, errorShown)
		return nil, &problem{http.StatusNotFound, "No such task", fmt.Sprintf("Task %s is not where it was put, and not among results, dead letters and the first and last tasks of each queue. It has ended and its result has expired, or it waits in the middle of a long queue: takt task show %s looks at all of them.", id, id)}
	}
	if err != nil {
		return nil, err
	}
	o := &OneTask{Frame: c.newFrame(clipped(t.ID, nameShown), "Tasks"), Task: t, Why: []Reason{}, Reference: r.FormValue("ref")}
	o.polled(r)
	o.Ticks = t.State == task.StateRunning
	if t.State == task.StateWaiting || o.Early() {
		s, err := client.Stats(ctx)
		if err != nil {
			return nil, err
		}
		o.Why = whyWaits(&t, &s)
	}
	o.Life, o.Timeline = life(&t), timeline(&t, o.Now)
	o.Task.Since = t.Since.Truncate(time.Second) // the server tells how long it is held: the rest differs from look to look
	return o, nil
}

// whyWaits are the reasons why a task does not run, the first of which holds it now.
func whyWaits(t *task.Task, s *task.Stats) (all []Reason) {
	add := func(next, format string, args ...any) { all = append(all, Reason{fmt.Sprintf(format, args...), next}) }
	if i := slices.IndexFunc(s.Queues, func(q task.QueueStats) bool { return q.Queue == t.Queue }); i >= 0 && t.State == task.StateWaiting {
		q := s.Queues[i]
		if q.Paused {
			add("Resume the queue.", "Queue %s is paused.", t.Queue)
		}
		if q.Unserved {
			add("Start a worker for this size.", "No worker that lives has slots for queue %s.", t.Queue)
		}
		if q.Rate > 0 {
			add("Wait, or raise the rate of the queue.", "At most %g tasks of queue %s begin in a second; %d wait.", q.Rate, t.Queue, q.Waiting)
		}
	}
	if slices.Contains(s.Paused, t.Name) {
		add("Resume the type, or enable it in the configuration of tasks.", "Type %s is paused or not enabled, so workers delay its tasks.", clipped(t.Name, nameShown))
	}
	switch {
	case t.State == task.StateBlocked:
		add("See who has the locks. The task is called when its turn has come; run now lets it try at once.", "It did not get its locks or limits, %d times so far.", t.Blocked)
	case t.State == task.StateDelayed && t.Unknown > 0:
		add("Start a worker that has a handler for the type.", "%d workers took it and had no handler for type %s.", t.Unknown, clipped(t.Name, nameShown))
	case t.State == task.StateDelayed && len(t.History) > 0:
		add("Wait, or run it now.", "Attempt %d failed, and the next one begins when it is due.", t.History[len(t.History)-1].Attempt)
	case t.State == task.StateDelayed:
		add("Wait, or run it now.", "It is not due yet.")
	case len(all) == 0:
		add("Wait, or give workers more slots.", "It waits for a free slot of a worker: older tasks and those of higher priority come first.")
	}
	return all
}

// life is what is known of what happened to a task, the oldest first, and what comes next.
func life(t *task.Task) (all []Moment) {
	add := func(at time.Time, tone, detail, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, Moment{at, fmt.Sprintf(format, args...), detail, tone})
		}
	}
	add(t.Enqueued, "calm", "", "submitted to queue %s", t.Queue)
	for _, f := range t.History {
		add(f.At, "failed", whole(f.Error), "attempt %d failed", f.Attempt)
	}
	add(t.Since, "active", "", "attempt %d began on worker %s", max(t.Attempt, 1), clipped(t.Worker, nameShown))
	add(t.Died, "failed", "", "gave up: it became a dead letter")
	add(t.Due, "waits", "", "attempt %d is due", max(t.Attempt, 1))
	add(t.Deadline, "calm", "", "deadline: it starts no later")
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}

// timeline draws attempts over time. When one began is kept of the last alone, so the bar of an earlier one has the wait before it, too.
func timeline(t *task.Task, now time.Time) template.HTML {
	from, bars := t.Enqueued, []chart.Bar(nil)
	bar := func(attempt int, name, state string, to time.Time) {
		if to.After(from) && !from.IsZero() {
			bars = append(bars, chart.Bar{Lane: fmt.Sprintf("attempt %d", max(attempt, 1)), Name: name, State: state, From: from.Sub(t.Enqueued), To: to.Sub(t.Enqueued)})
			from = to
		}
	}
	for _, f := range t.History {
		bar(f.Attempt, "failed", "failed", f.At)
	}
	switch t.State {
	case task.StateRunning:
		bar(t.Attempt, "waited", "waits", t.Since)
		bar(t.Attempt, "runs", "active", now)
	case task.StateDelayed, task.StateBlocked:
		bar(t.Attempt, string(t.State), "waits", t.Due)
	case task.StateWaiting:
		bar(t.Attempt, "waits", "waits", now)
	}
	if len(bars) == 0 {
		return ""
	}
	return template.HTML(chart.GanttFragment(bars, "")) // package chart escapes all texts
}

// pretty is JSON for people, whole a text that is cut if it is long: JSON has it whole.
func pretty(raw json.RawMessage) string {
	var text bytes.Buffer
	if len(raw) > valueShown || json.Indent(&text, raw, "", "  ") != nil {
		return whole(string(raw))
	}
	return whole(text.String())
}

func whole(text string) string {
	if len(text) <= valueShown {
		return text
	}
	return shorten(text, valueShown) + " (cut: the JSON of this page has all of it)"
}

// Labels are those of the submitter, cut; the system's own begin with an underscore.
func (o *OneTask) Labels() map[string]string {
	labels := make(map[string]string)
	for name, value := range o.Task.Labels {
		if !strings.HasPrefix(name, "_") && len(labels) < labelsShown {
			labels[clipped(name, nameShown)] = clipped(value, errorShown)
		}
	}
	return labels
}

// Ended tells whether nothing more happens to it, Early whether it can be made due now, Dead whether it is a dead letter and not only its result.
func (o *OneTask) Ended() bool {
	return slices.Contains([]task.State{task.StateDone, task.StateDead, task.StateCancelled}, o.Task.State)
}
func (o *OneTask) Early() bool {
	return o.Task.State == task.StateDelayed || o.Task.State == task.StateBlocked
}
func (o *OneTask) Dead() bool { return !o.Task.Died.IsZero() }

func runTask(client *task.Client, ctx context.Context, text string) error {
	ref, err := task.ParseRef(text)
	if err != nil {
		return err
	}
	return client.RunNow(ctx, ref)
}

func (c *Console) cancelTask(ctx context.Context, client *task.Client, r *http.Request) (*Result, error) {
	ref, err := task.ParseRef(r.PostForm.Get("ref"))
	if err != nil {
		return nil, err
	}
	outcome, err := client.Cancel(ctx, ref)
	if err != nil {
		return nil, err
	}
	text := map[task.CancelOutcome]string{
		task.CancelledNow: "Task %s was cancelled.", task.CancelTold: "Task %s is to be cancelled: the worker that has it, or takes it, ends it.", task.CancelTooLate: "Task %s had ended before.",
	}[outcome]
	return done(ref.ID, taskPath(ref.ID), text, clipped(ref.ID, nameShown)), nil
}
