package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/task"
)

// OneTask is all that is known of a task.
type OneTask struct {
	*Frame
	Task task.Task     `json:"task"` // Since to the second
	Why  []task.Reason `json:"why"`  // it does not run

	Reference string        `json:"-"` // as it was asked for
	Timeline  template.HTML `json:"-"`
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
		return nil, &problem{http.StatusNotFound, "No such task, or it has ended", fmt.Sprintf("Task %s is not where it was put, and not among results, dead letters and the first and last tasks of each queue. It may have ended without a trace: a task that returns nothing, or keeps no result, leaves none, and a result expires. takt task watch shows tasks as they end. Or it waits in the middle of a long queue: takt task show %s looks at all of them.", id, id)}
	}
	if err != nil {
		return nil, err
	}
	o := &OneTask{Frame: c.newFrame(clipped(t.ID, nameShown), "Tasks"), Task: t, Why: []task.Reason{}, Reference: r.FormValue("ref")}
	o.polled(r)
	o.Ticks = t.State == task.StateRunning
	why, err := client.Why(ctx, &t)
	if err != nil {
		return nil, err
	}
	o.Why, o.Timeline = append(o.Why, why...), timeline(&t, o.Now)
	o.Task.Since = t.Since.Truncate(time.Second) // the server tells how long it is held: the rest differs from look to look
	return o, nil
}

// timeline draws the attempts of a task over time.
func timeline(t *task.Task, now time.Time) template.HTML {
	var bars []chart.Bar
	for _, s := range t.Spans(now) {
		bars = append(bars, chart.Bar{Lane: fmt.Sprintf("attempt %d", s.Attempt), Name: s.State, State: s.State, From: s.From.Sub(t.Enqueued), To: s.To.Sub(t.Enqueued)})
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

func whole(text string) string { return noted(text, valueShown) }

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

// Early tells whether it can be made due now, Dead whether it is a dead letter and not only its result.
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
