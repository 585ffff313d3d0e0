package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/workflow"
)

// eventData is what the events of go-workflows have in common; those of other libraries have what of it they have.
type eventData struct {
	Name      string                          `json:"name"`
	Attempt   int                             `json:"attempt"`
	Inputs    []payload                       `json:"inputs"`
	Result    payload                         `json:"result"`
	Arg       payload                         `json:"arg"`
	At        time.Time                       `json:"at"`
	Reason    string                          `json:"reason"`
	Continued string                          `json:"continued_execution_id"`
	Child     map[string]any                  `json:"sub_workflow_instance"`
	Error     *struct{ Type, Message string } `json:"error"`
}

// payload is a value: base64 of JSON as go-workflows writes it, or JSON.
type payload string

func (p *payload) UnmarshalJSON(text []byte) error {
	var raw []byte
	if json.Unmarshal(text, &raw) == nil && json.Valid(raw) {
		text = raw
	}
	*p = payload(text)
	return nil
}

func readData(e *workflow.Event) (d eventData) {
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		d = eventData{} // of another library
	}
	return d
}

// text is what came with an event, in a line; that of an event of another library is its data.
func (d *eventData) text(data json.RawMessage) string {
	var all []string
	for _, in := range d.Inputs {
		all = append(all, string(in))
	}
	text := cmp.Or(strings.Join(all, ", "), string(d.Result), string(d.Arg), d.Reason)
	switch id, _ := d.Child["instance_id"].(string); {
	case d.Error != nil:
		text = strings.TrimPrefix(d.Error.Type+": "+d.Error.Message, ": ")
	case text == "" && id != "":
		text = id
	case text == "" && !d.At.IsZero():
		text = "at " + d.At.UTC().Format("2006-01-02 15:04:05.000")
	case text == "" && d.Name == "" && d.Continued == "":
		text = string(bytes.TrimSpace(data))
	}
	return text
}

// Happened is an event for a table.
type Happened struct {
	Sequence, Ref    int64
	Time             time.Time
	Type, Name, Text string
	Place            string // of an open activity
}

// How much of a value and a name a table shows, in bytes; JSON has all of it. With spansDrawn they keep a page below 60 kB when all of it is markup to be escaped.
const (
	valueBrief = 120
	nameBrief  = 48
	spansDrawn = 50
)

func happened(e *workflow.Event) Happened {
	d := readData(e)
	return Happened{Sequence: e.Sequence, Ref: e.Ref, Time: e.Time, Type: brief(e.Type, 60), Name: brief(d.Name, nameBrief), Text: brief(d.text(e.Data), valueBrief)}
}

// pastOf are the newest events of a history, the newest first; ends have the name of what they end.
func pastOf(history []workflow.Event) (past []Happened) {
	names := make(map[int64]string)
	for i := range history {
		h := happened(&history[i])
		if ends[h.Type] != "" {
			h.Name = cmp.Or(h.Name, names[h.Ref])
		} else if kinds[h.Type] != "" {
			names[h.Ref] = h.Name
		}
		past = append(past, h)
	}
	past = past[max(0, len(past)-eventsShown):]
	slices.Reverse(past)
	return past
}

// Span is something in a timeline: an activity, a timer, another workflow that was started, or a signal, which takes no time.
type Span struct {
	Kind  string    `json:"kind"` // activity, timer, child or signal
	Name  string    `json:"name"`
	Ref   int64     `json:"ref,omitempty"`
	State string    `json:"state"` // active, done, failed, canceled
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"` // zero: it has not ended

	child workflow.Instance
}

// kinds are the beginnings and ends of spans, as go-workflows names its events.
var kinds = map[string]string{
	"ActivityScheduled": "activity", "TimerScheduled": "timer", "SubWorkflowScheduled": "child", "SignalReceived": "signal",
}

var ends = map[string]string{
	"ActivityCompleted": "done", "ActivityFailed": "failed", "TimerFired": "done", "TimerCanceled": "canceled", "SubWorkflowCompleted": "done", "SubWorkflowFailed": "failed",
}

// spansOf pairs the events of a history. What an execution left open when it ended is over with it.
func spansOf(history []workflow.Event, of *workflow.Info) (all []Span) {
	open := make(map[int64]int)
	for i := range history {
		e := &history[i]
		if state := ends[e.Type]; state != "" {
			if n, ok := open[e.Ref]; ok {
				all[n].State, all[n].End = state, e.Time
				delete(open, e.Ref)
			}
			continue
		}
		kind := kinds[e.Type]
		if kind == "" {
			continue
		}
		d := readData(e)
		s := Span{Kind: kind, Name: cmp.Or(d.Name, kind), Ref: e.Ref, State: "active", Begin: e.Time}
		if kind == "signal" {
			s.State, s.End, s.Ref = "done", e.Time, 0
		} else {
			open[e.Ref] = len(all)
		}
		if made := workflow.Children(history[i : i+1]); len(made) > 0 {
			s.child = made[0]
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

// drawSpans draws the last spans below the execution itself: one lane for each activity, child and timer of a name, and one for the signals.
func drawSpans(spans []Span, of *workflow.Info, now time.Time) (drawn template.HTML, left int) {
	left = max(0, len(spans)-spansDrawn)
	spans = spans[left:]
	begin, end := of.Created, now
	if of.Ended != nil {
		end = *of.Ended
	}
	if len(spans) > 0 && (left > 0 || of.LastSequence > eventsRead || spans[0].Begin.Before(begin)) { // clocks differ
		begin = spans[0].Begin
	}
	since := func(t time.Time) time.Duration { return max(0, t.Sub(begin)).Round(time.Millisecond) }
	whole := chart.Bar{Lane: "workflow", Name: cmp.Or(of.Name, of.ID), State: "active", From: since(of.Created), To: since(end)}
	if of.Ended != nil {
		whole.State = map[workflow.Outcome]string{workflow.Completed: "done", workflow.Failed: "failed", workflow.Terminated: "failed"}[of.Outcome]
	}
	bars := []chart.Bar{whole}
	for _, s := range spans {
		b := chart.Bar{Lane: s.Kind + " " + brief(s.Name, nameBrief), State: s.State, From: since(s.Begin), To: since(end)}
		if !s.End.IsZero() {
			b.To = since(s.End)
		}
		switch s.Kind {
		case "signal":
			b.Lane, b.Name = "signals", brief(s.Name, nameBrief)
		case "child":
			b.Name, b.Href = brief(s.child.ID, nameBrief), instancePath(s.child)
		}
		bars = append(bars, b)
	}
	return template.HTML(chart.GanttFragment(bars, "")), left // package chart escapes all texts
}
