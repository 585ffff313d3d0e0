package jobstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// events are the status events of a job order in the order of their commits.
func (s *shop) events(id isa95.JobOrderID) []cloudevent.Event {
	s.t.Helper()
	var all []cloudevent.Event
	for _, stream := range []string{s.keys.EventReceiver()} {
		entries, err := s.do("XRANGE", stream, "-", "+").AsXRange()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, entry := range entries {
			var e cloudevent.Event
			if err := json.Unmarshal([]byte(entry.FieldValues["event"]), &e); err != nil {
				s.t.Fatal(err)
			}
			if entry.FieldValues["job_order_id"] == string(id) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b cloudevent.Event) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func sequences(events []cloudevent.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Extensions["sequence"])
	}
	return all
}

// The status events of an order are numbered from 1 without gaps, from each process and in each stream; the numbers go on
// when the id is stored again, and recordedtime does not fall along them although the clocks of two processes differ.
func TestSequenceOfStatusEvents(t *testing.T) {
	srv := testenv.Redis(t)
	one := openShop(t, srv, jobstore.Options{})
	other := openShop(t, srv, jobstore.Options{Prefix: one.keys.Prefix()})
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i, state := range []isa95.State{released, running, completed, ended, released, ended} {
		s, at := one, now.Add(time.Duration(i)*time.Second)
		if i%2 == 1 {
			s, at = other, at.Add(-3*time.Second) // its clock is behind
		}
		snap := s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
		c := jobstore.Change{Now: at, Transition: &jobstore.Transition{Method: "Test", Order: &isa95.JobOrder{JobOrderID: "JO-1"}, State: state}}
		if state.Clearable() {
			c.Response = jobstore.NewResponse(snap.Job, nil, state, at)
		}
		s.commit(snap, c)
	}
	one.move("m42", "JO-2", 0, released)

	events := one.events("JO-1")
	want := []string{"0000000001", "0000000002", "0000000003", "0000000004", "0000000005", "0000000006"}
	if d := cmp.Diff(want, sequences(events)); d != "" {
		t.Errorf("sequence: %s", d)
	}
	if !slices.IsSortedFunc(events, func(a, b cloudevent.Event) int { return strings.Compare(a.RecordedTime, b.RecordedTime) }) {
		t.Errorf("recordedtime falls: %+v", events)
	}
	if got := fmt.Sprint(sequences(one.events("JO-2"))); got != "[0000000001]" {
		t.Errorf("another order: %s", got)
	}
}
