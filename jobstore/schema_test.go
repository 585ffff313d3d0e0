package jobstore_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// former is a form of job orders that never was: its priority was a text.
const former = "urn:test:ISA95JobOrderAndStateDataType:0"

func init() {
	jobstore.RegisterStep(former, func(members map[string]json.RawMessage) error {
		members["JobOrder"] = json.RawMessage(strings.Replace(string(members["JobOrder"]), `"Priority":"urgent"`, `"Priority":9`, 1))
		members["_dataschema"], _ = json.Marshal(isa95.SchemaJobOrderAndState)
		return nil
	})
}

// A document of an earlier form is read through its steps, and the next change writes the present form, with the members that no step knows. One of a later form is refused, stays as it is,
// and is named by the check.
func TestForms(t *testing.T) {
	s := newShop(t)
	s.move("m42", "JO-1", 0, ready)
	s.do("SADD", s.keys.ConfiguredScopes(), "m42")
	key := s.keys.JobOrder("JO-1")
	rewrite := func(schema string) string {
		doc, err := s.do("GET", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		doc = strings.Replace(doc, `"Priority":0`, `"Priority":"urgent","x-line":"L7"`, 1)
		doc = strings.Replace(doc, isa95.SchemaJobOrderAndState, schema, 1)
		s.do("SET", key, doc)
		return doc
	}
	rewrite(former)
	snap, err := s.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1", Scope: "m42"})
	if err != nil || snap.Job.JobOrder.PriorityOr0() != 9 {
		t.Fatalf("%+v, %v", snap.Job, err)
	}
	s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: "Test", State: released}})
	doc, err := s.do("GET", key).ToString()
	if err != nil || !strings.Contains(doc, `"Priority":9`) || !strings.Contains(doc, `"x-line":"L7"`) || !strings.Contains(doc, isa95.SchemaJobOrderAndState) {
		t.Errorf("%s, %v", doc, err)
	}
	later := rewrite("urn:test:of-next-year")
	if _, err := s.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1", Scope: "m42"}); !errors.Is(err, jobstore.ErrSchema) || !strings.Contains(err.Error(), "urn:test:of-next-year") {
		t.Error(err)
	}
	if problem := s.problems(jobstore.CheckOptions{})["joborder:JO-1"]; !strings.Contains(problem, "urn:test:of-next-year") {
		t.Errorf("check says %q", problem)
	}
	if doc, err := s.do("GET", key).ToString(); err != nil || doc != later {
		t.Errorf("%s, %v", doc, err)
	}
}
