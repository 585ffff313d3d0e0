package jobstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// workMaster is WM-1 with a recipe that text tells from others.
func workMaster(text string) *isa95.WorkMaster {
	return &isa95.WorkMaster{ID: "WM-1", Data: fmt.Appendf(nil, `{"Steps":[%q]}`, text), DataSchema: "urn:x"}
}

// deliver hands WM-1 over to a scope, or removes it there with the text "", and returns what that changes.
func (s *shop) deliver(scope isa95.Scope, text string) jobstore.Delivery {
	s.t.Helper()
	c := jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: scope, ID: "WM-1", Delete: text == ""}
	if text != "" {
		c.WorkMaster = workMaster(text)
	}
	snap := s.load(jobstore.Query{Scope: scope, Holders: "WM-1"})
	d, err := s.Delivery(c, snap)
	if err == nil {
		err = s.Configure(s.t.Context(), c, snap, nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// textOf is the text in a work master, "" for none.
func textOf(w *isa95.WorkMaster) string {
	if w == nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(w.Data), `{"Steps":["`), `"]}`)
}

func (s *shop) runs(scope isa95.Scope) string {
	s.t.Helper()
	return textOf(s.load(jobstore.Query{Scope: scope, WorkMaster: "WM-1"}).WorkMaster)
}

func (s *shop) wantRuns(want map[isa95.Scope]string) {
	s.t.Helper()
	for scope, want := range want {
		if got := s.runs(scope); got != want {
			s.t.Errorf("%s runs %q, want %q", scope, got, want)
		}
	}
}

// shared is the text in workmaster:WM-1, which other programs read.
func (s *shop) shared() string {
	s.t.Helper()
	doc, err := s.do("GET", s.keys.WorkMaster("WM-1")).AsBytes()
	if err != nil {
		return ""
	}
	w := new(isa95.WorkMaster)
	if err := isa95.Unmarshal(doc, w); err != nil {
		s.t.Fatal(err)
	}
	return textOf(w)
}

// Each scope runs what was last delivered to it, whatever others get under the same id; a delivery says what it changes.
func TestScopesRunTheirOwn(t *testing.T) {
	s := newShop(t)
	hash := func(text string) string { return jobstore.Hash(workMaster(text).Data) }
	for _, step := range []struct {
		scope isa95.Scope
		text  string
		want  jobstore.Delivery
		runs  map[isa95.Scope]string
		doc   string
	}{
		{"m42", "one", jobstore.Delivery{Change: "new", After: hash("one")}, map[isa95.Scope]string{"m42": "one"}, "one"},
		{"m43", "two", jobstore.Delivery{Change: "new", After: hash("two"), Others: 1}, map[isa95.Scope]string{"m42": "one", "m43": "two"}, "two"},
		{"m44", "one", jobstore.Delivery{Change: "new", After: hash("one"), Others: 2}, map[isa95.Scope]string{"m42": "one", "m43": "two", "m44": "one"}, "one"},
		{"m42", "three", jobstore.Delivery{Change: "changed", Before: hash("one"), After: hash("three"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "three"},
		{"m43", "two", jobstore.Delivery{Change: "unchanged", Before: hash("two"), After: hash("two"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "two"},
		{"m45", "", jobstore.Delivery{Change: "unchanged", Others: 3}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "two"},
		{"m43", "", jobstore.Delivery{Change: "removed", Before: hash("two"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m44": "one"}, "three"},
		{"m42", "", jobstore.Delivery{Change: "removed", Before: hash("three"), Others: 1}, map[isa95.Scope]string{"m44": "one"}, "one"},
		{"m44", "", jobstore.Delivery{Change: "removed", Before: hash("one")}, map[isa95.Scope]string{"m42": "", "m44": ""}, ""},
	} {
		if diff := cmp.Diff(step.want, s.deliver(step.scope, step.text)); diff != "" {
			t.Errorf("%s %q: %s", step.scope, step.text, diff)
		}
		s.wantRuns(step.runs)
		if got := s.shared(); got != step.doc {
			t.Errorf("%s %q: workmaster:WM-1 has %q, want the last delivery to those that have it, %q", step.scope, step.text, got, step.doc)
		}
		found, err := s.Check(t.Context(), jobstore.CheckOptions{})
		if err != nil || len(found) != 0 {
			t.Errorf("%s %q: %v, %v", step.scope, step.text, found, err)
		}
	}
	for _, key := range s.stored() {
		key, _, _ = strings.Cut(key, " ")
		if key == "configured-scopes" {
			continue
		}
		if !strings.HasPrefix(key, "wmx:content:") {
			t.Errorf("%s is left over", key)
		}
		within(t, key, s.number("PTTL", s.keys.Prefix()+":"+key), 7*24*60*60*1e9)
	}
}

// A content that is delivered again before it expired stays.
func TestContentThatComesBack(t *testing.T) {
	s := newShop(t)
	s.deliver("m42", "one")
	s.deliver("m42", "two")
	s.deliver("m43", "one")
	s.deliver("m42", "one")
	s.deliver("m43", "two")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "two"})
	for _, key := range s.stored() {
		key, _, _ = strings.Cut(key, " ")
		if got := s.number("PTTL", s.keys.Prefix()+":"+key); got != -1 {
			t.Errorf("%s expires", key)
		}
	}
}

// wantFound wants exactly these findings of Check, each by the begin of its text.
func (s *shop) wantFound(want ...string) {
	s.t.Helper()
	found, err := s.Check(s.t.Context(), jobstore.CheckOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) != len(want) {
		s.t.Errorf("found %v, want %q", found, want)
		return
	}
	for i, v := range found {
		if text := strings.ReplaceAll(v.String(), s.keys.Prefix()+":", ""); !strings.HasPrefix(text, want[i]) {
			s.t.Errorf("found %q, want %q", text, want[i])
		}
	}
}

// Check reports pointers without content, contents that are not what their name says, and pointers that cannot be read.
func TestCheckOfWorkMasters(t *testing.T) {
	s := newShop(t)
	s.deliver("m42", "one")
	s.deliver("m43", "two")
	pointer, err := s.do("HGET", s.keys.WorkMasterDelivered("WM-1"), "m42").ToString()
	if err != nil {
		t.Fatal(err)
	}
	content := s.keys.WorkMasterContent(strings.Fields(pointer)[1])
	for _, damage := range []struct {
		do   []string
		want string
	}{
		{[]string{"SET", content, "{}"}, "wmx:content:" + strings.Fields(pointer)[1] + ": has another hash"},
		{[]string{"DEL", content}, "wmx:delivered:WM-1: scope m42 runs content " + strings.Fields(pointer)[1][:12] + ", which is missing"},
		{[]string{"HSET", s.keys.WorkMasterDelivered("WM-1"), "m42", "x"}, "wmx:delivered:WM-1: field m42 cannot be read"},
		{[]string{"HDEL", s.keys.WorkMasterDelivered("WM-1"), ""}, "wmx:delivered:WM-1: field \"\" cannot be read"},
		{[]string{"SREM", s.keys.WorkMasterList("m43"), "WM-1"}, "wmx:delivered:WM-1: scope m43 has a delivery and does not list the work master"},
	} {
		s.do(damage.do...)
		s.wantFound(damage.want)
		s.deliver("m42", "")
		s.deliver("m42", "one")
		s.deliver("m43", "two")
		s.wantFound()
	}
}

// A missing content is named; nothing else is run in its place.
func TestContentLost(t *testing.T) {
	s := newShop(t)
	s.deliver("m42", "one")
	s.deliver("m43", "two")
	pointer, _ := s.do("HGET", s.keys.WorkMasterDelivered("WM-1"), "m42").ToString()
	s.do("DEL", s.keys.WorkMasterContent(strings.Fields(pointer)[1]))
	_, err := s.Load(t.Context(), jobstore.Query{Scope: "m42", WorkMaster: "WM-1"})
	if err == nil || !strings.Contains(err.Error(), `is missing, though it is what scope "m42" runs as work master "WM-1"`) {
		t.Errorf("err = %v", err)
	}
	s.do("HSET", s.keys.WorkMasterDelivered("WM-1"), "m42", "x")
	if _, err := s.Load(t.Context(), jobstore.Query{Scope: "m42", WorkMaster: "WM-1"}); err == nil || !strings.Contains(err.Error(), "is not a number and two hashes") {
		t.Errorf("err = %v", err)
	}
}

// A decision that was made on a work master conflicts with a delivery to its scope, and with no delivery to another.
func TestCommitDependsOnWorkMaster(t *testing.T) {
	for _, test := range []struct {
		name     string
		before   func(s *shop)
		then     func(s *shop)
		conflict bool
	}{
		{"delivery to another scope", func(s *shop) { s.deliver("m42", "one") }, func(s *shop) { s.deliver("m43", "two") }, false},
		{"delivery", func(s *shop) { s.deliver("m42", "one") }, func(s *shop) { s.deliver("m42", "two") }, true},
		{"removal", func(s *shop) { s.deliver("m42", "one") }, func(s *shop) { s.deliver("m42", "") }, true},
		{"first delivery", func(*shop) {}, func(s *shop) { s.deliver("m42", "one") }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShop(t)
			test.before(s)
			snap := s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42", WorkMaster: "WM-1"})
			test.then(s)
			err := s.Commit(t.Context(), snap, jobstore.Change{
				Transition: &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-1"}, State: released}, WorkMaster: true, Now: s.Now(),
			})
			if isConflict(err) != test.conflict || err != nil && !test.conflict {
				t.Errorf("err = %v, want a conflict: %v", err, test.conflict)
			}
		})
	}
}
