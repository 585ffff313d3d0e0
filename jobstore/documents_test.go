package jobstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// large stores job orders with documents of size bytes and a bit more.
func (s *topicStore) large(scope isa95.Scope, n, size int) (ids []isa95.JobOrderID) {
	s.t.Helper()
	text, err := json.Marshal(strings.Repeat("x", size))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		id := isa95.JobOrderID(fmt.Sprintf("%s-%02d", scope, i))
		snap, err := s.Load(s.t.Context(), jobstore.Query{JobOrderID: id, Scope: scope})
		if err != nil {
			s.t.Fatal(err)
		}
		order := &isa95.JobOrder{JobOrderID: string(id), JobOrderParameters: []isa95.Parameter{{ID: "program", Value: text}}}
		change := jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, State: ready, Order: order}, Now: s.Now()}
		if err := s.Commit(s.t.Context(), snap, change); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// Of large documents some are read at once, whatever their number, over all scopes together. The others are read when they are asked for, again some.
func TestRetainedDocumentsAreBounded(t *testing.T) {
	const (
		size = 190_000
		fit  = jobstore.RetainedBytes / size // the rest of a document is little
	)
	s := newTopicStore(t)
	one, two := s.large("one", fit-2, size), s.large("two", fit, size)
	read, err := s.Retained(t.Context(), jobstore.RetainedQuery{Scope: "one", JobOrderIDs: one}, jobstore.RetainedQuery{Scope: "two", JobOrderIDs: two})
	if err != nil {
		t.Fatal(err)
	}
	jobs := append(read[0].Jobs, read[1].Jobs...)
	check := func(from, to int) {
		t.Helper()
		for i, j := range jobs {
			if want := i >= from && i < to; j.Read != want || (j.Job != nil) != want || j.Err != nil || !j.Listed {
				t.Errorf("%s: read %v, order %v, error %v, listed %v; read at once are %d to %d", j.JobOrderID, j.Read, j.Job != nil, j.Err, j.Listed, from, to)
			}
		}
	}
	check(0, fit)
	jobs = jobs[fit:]
	if err := s.RetainedDocuments(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	check(0, len(jobs))
}

// A document that alone is larger than what is read at once is read alone, also if it is of another kind than it should be. What is absent or no string counts nothing.
func TestRetainedDocumentsBeyondTheBound(t *testing.T) {
	s := newTopicStore(t)
	ids := s.large("m42", 5, 100)
	s.do("SET", s.keys.JobOrder(string(ids[1])), strings.Repeat("x", jobstore.RetainedBytes+1))
	s.do("DEL", s.keys.JobOrder(string(ids[2])))
	s.do("DEL", s.keys.JobOrder(string(ids[3])))
	s.do("LPUSH", s.keys.JobOrder(string(ids[3])), "x")
	jobs := s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: ids}).Jobs
	readTo := func(want int) {
		t.Helper()
		for i, j := range jobs {
			if j.Read != (i < want) {
				t.Fatalf("%s: read %v; want the first %d", j.JobOrderID, j.Read, want)
			}
		}
	}
	readTo(1)
	for _, next := range []struct{ from, to int }{{1, 2}, {2, 5}} {
		if err := s.RetainedDocuments(t.Context(), jobs[next.from:]); err != nil {
			t.Fatal(err)
		}
		readTo(next.to)
	}
	for i, want := range []struct{ order, failed bool }{{order: true}, {failed: true}, {}, {}, {order: true}} {
		if j := jobs[i]; (j.Job != nil) != want.order || (j.Err != nil) != want.failed {
			t.Errorf("%s: order %v, error %v", j.JobOrderID, j.Job != nil, j.Err)
		}
	}
}
