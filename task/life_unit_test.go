package task

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The life of a task has what happened and what comes next in the order of time, and its spans fill the time from the submission on.
func TestLife(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	retried := Task{Ref: Ref{Queue: "normal:medium", Due: at(9)}, State: StateDelayed, Attempt: 3, Enqueued: at(1), History: []Failure{{1, at(2), "no"}, {2, at(5), "never"}}}
	if diff := cmp.Diff([]Moment{
		{at(1), "submitted to queue normal:medium", "", ""}, {at(2), "attempt 1 failed", "no", "failed"}, {at(5), "attempt 2 failed", "never", "failed"}, {at(9), "attempt 3 is due", "", "waits"},
	}, retried.Life()); diff != "" {
		t.Error(diff)
	}
	runs := Task{State: StateRunning, Worker: "w", Enqueued: at(1), Since: at(4)}
	for _, c := range []struct {
		of   Task
		want []Span
	}{
		{retried, []Span{{1, "failed", at(1), at(2)}, {2, "failed", at(2), at(5)}, {3, "waits", at(5), at(9)}}},
		{runs, []Span{{1, "waits", at(1), at(4)}, {1, "active", at(4), at(7)}}},
		{Task{State: StateWaiting, Enqueued: at(1)}, []Span{{1, "waits", at(1), at(7)}}},
		{Task{State: StateDone}, nil},
	} {
		if diff := cmp.Diff(c.want, c.of.Spans(at(7))); diff != "" {
			t.Errorf("%s: %s", c.of.State, diff)
		}
	}
}

// The first reason is what holds a task now.
func TestWhyItWaits(t *testing.T) {
	s := &Stats{Queues: []QueueStats{{Queue: "normal:medium", Paused: true, Unserved: true, Rate: 2, Waiting: 7}}, Paused: []string{"off"}}
	for _, c := range []struct {
		of   Task
		want []string
	}{
		{Task{State: StateWaiting, Ref: Ref{Queue: "normal:medium"}}, []string{"Queue normal:medium is paused.", "No worker that lives has slots for queue normal:medium.", "At most 2 tasks of queue normal:medium begin in a second; 7 wait."}},
		{Task{State: StateWaiting, Ref: Ref{Queue: "normal:large"}}, []string{"It waits for a free slot of a worker: older tasks and those of higher priority come first."}},
		{Task{State: StateDelayed, Name: "off"}, []string{"Type off is paused or not enabled, so workers delay its tasks.", "It is not due yet."}},
		{Task{State: StateDelayed, Name: "a", Unknown: 2}, []string{"2 workers took it and had no handler for type a."}},
		{Task{State: StateDelayed, History: []Failure{{Attempt: 4}}}, []string{"Attempt 4 failed, and the next one begins when it is due."}},
		{Task{State: StateBlocked, Blocked: 3}, []string{"It did not get its locks or limits, 3 times so far."}},
	} {
		var got []string
		for _, r := range c.of.why(s) {
			got = append(got, r.Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}
