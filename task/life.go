package task

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Reason is why a task does not run, and what to do.
type Reason struct {
	Text string `json:"text"`
	Next string `json:"next"`
}

// Why are the reasons why a task that waits, is delayed or is blocked does not run, the first of which holds it now; none of any other task. As Stats.
func (c *Client) Why(ctx context.Context, t *Task) ([]Reason, error) {
	if !slices.Contains([]State{StateWaiting, StateDelayed, StateBlocked}, t.State) {
		return nil, nil
	}
	s, err := c.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return t.why(&s), nil
}

func (t *Task) why(s *Stats) (all []Reason) {
	add := func(next, format string, args ...any) { all = append(all, Reason{fmt.Sprintf(format, args...), next}) }
	if i := slices.IndexFunc(s.Queues, func(q QueueStats) bool { return q.Queue == t.Queue }); i >= 0 && t.State == StateWaiting {
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
		add("Resume the type, or enable it in the configuration of tasks.", "Type %s is paused or not enabled, so workers delay its tasks.", t.Name)
	}
	switch {
	case t.State == StateBlocked:
		add("See who has the locks. The task is called when its turn has come; run now lets it try at once.", "It did not get its locks or limits, %d times so far.", t.Blocked)
	case t.State == StateDelayed && t.Unknown > 0:
		add("Start a worker that has a handler for the type.", "%d workers took it and had no handler for type %s.", t.Unknown, t.Name)
	case t.State == StateDelayed && len(t.History) > 0:
		add("Wait, or run it now.", "Attempt %d failed, and the next one begins when it is due.", t.History[len(t.History)-1].Attempt)
	case t.State == StateDelayed:
		add("Wait, or run it now.", "It is not due yet.")
	case len(all) == 0:
		add("Wait, or give workers more slots.", "It waits for a free slot of a worker: older tasks and those of higher priority come first.")
	}
	return all
}

// Moment is one of the life of a task.
type Moment struct {
	At    time.Time
	Text  string
	Error string // of an attempt that failed
	State string // what it is a sign of: active, failed, waits; "" = none of these
}

// Life is what is known of what happened to the task, the oldest first, and what comes next. It is empty if only its result is left.
func (t *Task) Life() (all []Moment) {
	add := func(at time.Time, state, failed, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, Moment{at, fmt.Sprintf(format, args...), failed, state})
		}
	}
	add(t.Enqueued, "", "", "submitted to queue %s", t.Queue)
	for _, f := range t.History {
		add(f.At, "failed", f.Error, "attempt %d failed", f.Attempt)
	}
	add(t.Since, "active", "", "attempt %d began on worker %s", max(t.Attempt, 1), t.Worker)
	add(t.Died, "failed", "", "gave up: it became a dead letter")
	add(t.Due, "waits", "", "attempt %d is due", max(t.Attempt, 1))
	add(t.Deadline, "", "", "deadline: it starts no later")
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}

// Span is what an attempt did over a time: State is failed, waits or active.
type Span struct {
	Attempt  int // from 1
	State    string
	From, To time.Time
}

// Spans are the attempts until now, or until the next one is due, without gaps. When one began is kept of the last alone, so the span of an earlier one has the wait before it, too.
func (t *Task) Spans(now time.Time) (all []Span) {
	from := t.Enqueued
	add := func(attempt int, state string, to time.Time) {
		if to.After(from) && !from.IsZero() {
			all = append(all, Span{max(attempt, 1), state, from, to})
			from = to
		}
	}
	for _, f := range t.History {
		add(f.Attempt, "failed", f.At)
	}
	switch t.State {
	case StateRunning:
		add(t.Attempt, "waits", t.Since)
		add(t.Attempt, "active", now)
	case StateDelayed, StateBlocked:
		add(t.Attempt, "waits", t.Due)
	case StateWaiting:
		add(t.Attempt, "waits", now)
	}
	return all
}

// Ended tells whether nothing more happens to the task.
func (t *Task) Ended() bool {
	return slices.Contains([]State{StateDone, StateDead, StateCancelled}, t.State)
}

// LastError is what its end, or else its last attempt, failed with; "" = no attempt failed.
func (t *Task) LastError() string {
	if t.Error != nil {
		return t.Error.Message
	} else if n := len(t.History); n > 0 {
		return t.History[n-1].Error
	}
	return ""
}
