package jobstore_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// An order is encoded once for each of its revisions: when it comes, and when it is updated. All changes of its state in between carry the
// stored bytes on, into the document, the events and the revision that the retained topic is compared by.
func TestOrderIsEncodedOncePerRevision(t *testing.T) {
	s := newShop(t)
	key := s.keys.JobOrder("JO-1")
	doc := func() string {
		t.Helper()
		text, err := s.do("GET", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	state := func(to isa95.State) {
		t.Helper()
		snap := s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
		s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: "Test", State: to}})
	}
	s.move("m42", "JO-1", 3, released)
	const encoded, marked = `{"JobOrderID":"JO-1","Priority":3}`, `{"Priority":3,"JobOrderID":"JO-1"}` // no encoding of ours has this order of members
	written := doc()
	if !strings.HasPrefix(written, `{"JobOrder":`+encoded+`,"State":[`) {
		t.Fatal(written)
	}
	s.do("SET", key, strings.Replace(written, encoded, marked, 1))
	state(running)
	state(isa95.State{Top: isa95.Interrupted, Sub: isa95.Suspended})
	if now := doc(); !strings.HasPrefix(now, `{"JobOrder":`+marked+`,"State":[{`) || !strings.Contains(now, `"_scope":"m42"`) {
		t.Errorf("the document: %s", now)
	}
	events := s.events("JO-1")
	if n := len(events); n != 3 || !bytes.HasPrefix(events[2].Data, []byte(`{"JobOrder":`+marked+`,"JobState":[{`)) {
		t.Errorf("%d events, the last: %s", n, events[n-1].Data)
	}
	index, err := s.do("HGET", s.keys.PubIndex("m42"), "JO-1").ToString()
	if err != nil || !strings.Contains(index, `"order":"`+jobstore.Revision([]byte(marked))+`"`) {
		t.Errorf("the index: %s, %v", index, err)
	}
	read, err := s.Retained(t.Context(), jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: []isa95.JobOrderID{"JO-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := read[0].Jobs[0].Job.Text(); err != nil || string(text) != marked {
		t.Errorf("to be published: %s, %v", text, err)
	}
	s.move("m42", "JO-1", 3, running) // with the order, as Update has
	if now := doc(); !strings.HasPrefix(now, `{"JobOrder":`+encoded+`,"State":[`) {
		t.Errorf("after an update: %s", now)
	}

	// A document without the mark of events, or in a form of another program, is encoded anew.
	for _, other := range []string{
		`{"JobOrder":` + marked + `,"State":[{"StateText":{"Text":"Running"},"StateNumber":3}],"_scope":"m42"}`,
		`{"State":[{"StateText":{"Text":"Running"},"StateNumber":3}],"JobOrder":` + marked + `,"_scope":"m42","_event":{"sequence":7,"recordedtime":"2026-11-23T04:00:00Z"}}`,
	} {
		s.do("SET", key, other)
		state(running)
		if now := doc(); !strings.HasPrefix(now, `{"JobOrder":`+encoded+`,"State":[`) {
			t.Errorf("of another program: %s", now)
		}
	}
}

// What stands in an order is never taken for the members of the document behind it.
func TestOrderThatLooksLikeADocument(t *testing.T) {
	s := newShop(t)
	for _, description := range []string{
		`,"State":[`, `"},"State":[],"_scope":"other"`, `{"JobOrder":{},"State":[{}]}`, `\",\"State\":[`,
	} {
		order := &isa95.JobOrder{
			JobOrderID: "JO-1", Description: []isa95.LocalizedText{{Text: description}},
			JobOrderParameters: []isa95.Parameter{{ID: "p", Value: []byte(`{"a":1,"State":[{"b":2}],"_scope":"other"}`)}},
		}
		snap := s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
		s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: "Test", Order: order, State: released}})
		for _, to := range []isa95.State{running, released} {
			snap = s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
			s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: "Test", State: to}})
		}
		snap = s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
		want, err := isa95.Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := snap.Job.Text(); err != nil || !bytes.Equal(got, want) || snap.Job.Scope != "m42" || snap.Job.State != released {
			t.Errorf("%s: %s %v, at %s, %s", description, got, err, snap.Job.Scope, snap.Job.State)
		}
	}
}
