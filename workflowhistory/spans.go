package workflowhistory

import (
	"cmp"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/workflow"
)

// Span is something in a timeline: an activity, a timer, another workflow that was started, or a signal, which takes no time.
type Span struct {
	Kind  string            `json:"kind"` // activity, timer, child or signal
	Name  string            `json:"name"`
	Ref   int64             `json:"ref,omitempty"`
	State string            `json:"state"` // active, done, failed, canceled
	Begin time.Time         `json:"begin"`
	End   time.Time         `json:"end,omitzero"`   // zero: it has not ended
	Child workflow.Instance `json:"child,omitzero"` // that was started
}

// kinds are the beginnings and ends of spans, as go-workflows names its events.
var kinds = map[string]string{
	"ActivityScheduled": "activity", "TimerScheduled": "timer", workflow.EventSubScheduled: "child", workflow.EventSignal: "signal",
}

var ends = map[string]string{
	"ActivityCompleted": "done", "ActivityFailed": "failed", workflow.EventTimerFired: "done", "TimerCanceled": "canceled", "SubWorkflowCompleted": "done", "SubWorkflowFailed": "failed",
}

// spans pairs the events of a history. What an execution left open when it ended is over with it.
func spans(history []workflow.Event, of *workflow.Info) []Span {
	all := []Span{}
	open := make(map[int64]int)
	for i := range history {
		e := &history[i]
		if state := ends[e.Type]; state != "" {
			if n, ok := open[e.Ref]; ok {
				all[n].State, all[n].End = state, e.Time
				if due := read(e).At; e.Type == workflow.EventTimerFired && due.After(e.Time) { // go-workflows writes the time of scheduling
					all[n].End = due
				}
				delete(open, e.Ref)
			}
			continue
		}
		kind := kinds[e.Type]
		if kind == "" {
			continue
		}
		s := Span{Kind: kind, Name: cmp.Or(read(e).Name, kind), Ref: e.Ref, State: "active", Begin: e.Time}
		if kind == "signal" {
			s.State, s.End, s.Ref = "done", e.Time, 0
		} else {
			open[e.Ref] = len(all)
		}
		if made := workflow.Children(history[i : i+1]); len(made) > 0 {
			s.Child = made[0]
		}
		all = append(all, s)
	}
	if of.Ended != nil {
		for _, n := range open {
			all[n].State, all[n].End = "canceled", *of.Ended
		}
	}
	return all
}

// Bars are the execution itself and the last most spans below, for a Gantt chart: one lane for each activity, child and timer of a name, and one for the signals. What has not ended goes on
// until Detail.Now. If anything is left out, time begins with the first of the spans. href is the address of a child.
func (h *History) Bars(most int, href func(workflow.Instance) string) []chart.Bar {
	of, spans := &h.Detail.Info, h.Timeline[max(0, len(h.Timeline)-most):]
	begin, end := of.Created, h.Detail.Now
	if of.Ended != nil {
		end = *of.Ended
	}
	if len(spans) > 0 && (len(spans) < len(h.Timeline) || h.Earlier > 0 || spans[0].Begin.Before(begin)) { // clocks differ
		begin = spans[0].Begin
	}
	since := func(t time.Time) time.Duration { return max(0, t.Sub(begin)).Round(time.Millisecond) }
	whole := chart.Bar{Lane: "workflow", Name: cmp.Or(of.Name, of.ID), State: "active", From: since(of.Created), To: since(end)}
	if of.Ended != nil {
		whole.State = map[workflow.Outcome]string{workflow.Completed: "done", workflow.Failed: "failed", workflow.Terminated: "failed"}[of.Outcome]
	}
	bars := []chart.Bar{whole}
	for _, s := range spans {
		b := chart.Bar{Lane: s.Kind + " " + s.Name, State: s.State, From: since(s.Begin), To: since(end)}
		if !s.End.IsZero() {
			b.To = since(s.End)
		}
		switch s.Kind {
		case "signal":
			b.Lane, b.Name = "signals", s.Name
		case "child":
			b.Name, b.Href = s.Child.ID, href(s.Child)
		}
		bars = append(bars, b)
	}
	return bars
}
