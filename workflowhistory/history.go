// Package workflowhistory reads the history of a workflow for people and programs: each event with name and decoded value, and activities, timers, signals and other workflows
// over time. It knows the events of go-workflows; those of other libraries have what of it they have. It reads Redis through package workflow and writes nothing.
package workflowhistory

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/workflow"
)

// History is what happened in one execution of a workflow, and what is going on in it.
type History struct {
	Detail   workflow.Detail    `json:"execution"`
	Waits    string             `json:"waits_for,omitempty"`    // Detail.Standing
	Next     *workflow.Instance `json:"continued_as,omitempty"` // execution that took over
	Timeline []Span             `json:"timeline"`               // of Last
	Earlier  int64              `json:"events_before"`          // that came before them
	Last     []workflow.Event   `json:"history"`                // the last events

	Lines    []Entry `json:"-"` // of Last
	Came     string  `json:"-"` // of one that has finished: its result, or its error
	Metadata string  `json:"-"` // "" = none; go-workflows says {} of programs that use none
}

// Read reads an execution, with Execution "" the newest one of the instance, and at most most of its last events; 0 = all. Errors are those of Client.Detail and Client.History.
func Read(ctx context.Context, client *workflow.Client, i workflow.Instance, most int64) (*History, error) {
	d, err := client.Detail(ctx, i)
	if err != nil {
		return nil, err
	}
	earlier := int64(0)
	if most > 0 {
		earlier = max(0, d.LastSequence-most)
	}
	events, err := client.History(ctx, d.Instance, earlier)
	if err != nil {
		return nil, err
	}
	h := Of(d, events)
	h.Earlier = earlier
	return h, nil
}

// Of is what the events of an execution say, without Earlier.
func Of(d workflow.Detail, events []workflow.Event) *History {
	h := &History{Detail: d, Waits: d.Standing(), Timeline: spans(events, &d.Info), Last: append([]workflow.Event{}, events...)}
	var r Reader
	for i := range events {
		h.Lines = append(h.Lines, r.Entry(&events[i]))
	}
	if text := string(d.Metadata); text != "{}" {
		h.Metadata = text
	}
	switch {
	case d.State == workflow.ContinuedAsNew:
		for i := range events {
			if next := read(&events[i]).Continued; next != "" {
				h.Next = &workflow.Instance{ID: d.ID, Execution: next}
			}
		}
	case d.State == workflow.Finished && len(events) > 0:
		h.Came = h.Lines[len(events)-1].Value
	}
	return h
}

// Open is an open activity or timer.
type Open struct {
	Entry
	Place string // where it is, or when it is due
}

// Open are the first most open activities, and as many timers.
func (h *History) Open(most int) (all []Open) {
	for _, a := range h.Detail.Activities[:min(len(h.Detail.Activities), most)] {
		line := Open{EntryOf(&a.Event), fmt.Sprintf("%s in queue %s", a.Place, a.Queue)}
		if a.Worker != "" {
			line.Place = "runs on " + a.Worker
		}
		all = append(all, line)
	}
	for _, t := range h.Detail.Timers[:min(len(h.Detail.Timers), most)] {
		line := Open{EntryOf(&t.Event), "due at " + t.At.UTC().Format(time.DateTime)}
		line.Value = ""
		all = append(all, line)
	}
	return all
}
