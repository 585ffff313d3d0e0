package jobstore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// A document of an earlier schema goes from step to step as it is read. It is written in the current form when it changes, with the members that nothing knows.
func TestEarlierSchemaIsBroughtUpToDate(t *testing.T) {
	rename := func(from, to, schema string) jobstore.SchemaStep {
		return func(old []byte) ([]byte, string, error) {
			return bytes.ReplaceAll(old, []byte(`"`+from+`":`), []byte(`"`+to+`":`)), schema, nil
		}
	}
	s := newShop(t)
	s.move("m42", "JO-7", 3, ready)
	s = openShop(t, s.srv, jobstore.Options{Prefix: s.keys.Prefix(), Schemas: jobstore.Schemas{
		"urn:order:1": rename("Rank", "Urgency", "urn:order:2"),
		"urn:order:2": rename("Urgency", "Priority", isa95.SchemaJobOrderAndState),
	}})
	key := s.keys.JobOrder("JO-7")
	doc, err := s.do("GET", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	old := strings.NewReplacer(isa95.SchemaJobOrderAndState, "urn:order:1", `"Priority":3`, `"Rank":3,"Future":[1.0]`).Replace(doc)
	s.do("SET", key, old)
	snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42"})
	if snap.Job.JobOrder.PriorityOr0() != 3 {
		t.Errorf("read %+v", snap.Job.JobOrder)
	}
	if found := s.check(); len(found) > 0 {
		t.Errorf("check: %v", found)
	}
	if after, _ := s.do("GET", key).ToString(); after != old {
		t.Errorf("reading wrote %s", after)
	}
	s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Start, State: released}})
	after, err := s.do("GET", key).ToString()
	if err != nil || !strings.Contains(after, `"Priority":3,"Future":[1.0]`) || !strings.Contains(after, isa95.SchemaJobOrderAndState) || strings.Contains(after, "urn:order") {
		t.Errorf("%s, %v", after, err)
	}
}

// What a newer version wrote is refused with its schema wherever it is read, stays as it is, and is reported by a check. So is what steps do not lead out of.
func TestNewerSchemaIsLeftUntouched(t *testing.T) {
	s := newShop(t)
	s.move("m42", "JO-7", 0, completed)
	wm := jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: "m42", ID: "WM-1", WorkMaster: &isa95.WorkMaster{ID: "WM-1"}}
	if err := s.Configure(t.Context(), wm, s.load(jobstore.Query{Scope: "m42", Holders: "WM-1"}), nil); err != nil {
		t.Fatal(err)
	}
	contents, err := s.do("KEYS", s.keys.WorkMasterContent("*")).AsStrSlice()
	if err != nil || len(contents) != 1 {
		t.Fatal(contents, err)
	}
	loop := jobstore.Schemas{"urn:a": func(old []byte) ([]byte, string, error) { return old, "urn:a", nil }}
	for key, query := range map[string]jobstore.Query{
		s.keys.JobOrder("JO-7"):             {JobOrderID: "JO-7"},
		s.keys.JobResponse("JO-7-response"): {JobOrderID: "JO-7", Response: true},
		contents[0]:                         {Scope: "m42", WorkMaster: "WM-1"},
	} {
		doc, err := s.do("GET", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		before, rest, _ := strings.Cut(doc, `"_dataschema":"`)
		_, after, _ := strings.Cut(rest, `"`)
		s.do("SET", key, before+`"_dataschema":"urn:newer"`+after)
		stored := s.dumps()
		_, err = s.Load(t.Context(), query)
		schema, ok := errors.AsType[*jobstore.SchemaError](err)
		if document, named := errors.AsType[*jobstore.DocumentError](err); !ok || !named || schema.Schema != "urn:newer" || document.Key != key {
			t.Errorf("%s: %v", key, err)
		}
		reported := false
		for _, v := range s.check() {
			reported = reported || v.Key == key && strings.Contains(v.Problem, "urn:newer") && strings.Contains(v.Next, "leave it")
		}
		if !reported {
			t.Errorf("%s is not reported by %v", key, s.check())
		}
		if diff := cmp.Diff(stored, s.dumps()); diff != "" {
			t.Error(diff)
		}
		s.do("SET", key, before+`"_dataschema":"urn:a"`+after)
		turning := openShop(t, s.srv, jobstore.Options{Prefix: s.keys.Prefix(), Schemas: loop})
		if _, err := turning.Load(t.Context(), query); err == nil || !strings.Contains(err.Error(), "lead back") {
			t.Errorf("%s: %v", key, err)
		}
		s.do("SET", key, doc)
	}
}
