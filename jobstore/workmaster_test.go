package jobstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// older is what version c91e236 does with work masters: one document for all scopes, and the list of those that have it.
type older struct{ *shop }

func (o older) holders() (scopes []string) {
	o.t.Helper()
	text, err := o.do("GET", o.keys.WorkMasterScopes("WM-1")).ToString()
	if err != nil {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &scopes); err != nil {
		o.t.Fatal(err)
	}
	return scopes
}

func (o older) deliver(scope, text string) {
	o.t.Helper()
	scopes := slices.DeleteFunc(o.holders(), func(held string) bool { return held == scope })
	if text == "" {
		o.do("SREM", o.keys.WorkMasterList(scope), "WM-1")
		if len(scopes) == 0 {
			o.do("DEL", o.keys.WorkMaster("WM-1"), o.keys.WorkMasterScopes("WM-1"))
			return
		}
	} else {
		scopes = append(scopes, scope)
		slices.Sort(scopes)
		o.do("SET", o.keys.WorkMaster("WM-1"), string(contentOf(text)))
		o.do("SADD", o.keys.WorkMasterList(scope), "WM-1")
	}
	list, _ := json.Marshal(scopes)
	o.do("SET", o.keys.WorkMasterScopes("WM-1"), string(list))
}

func (o older) runs() string {
	o.t.Helper()
	doc, err := o.do("GET", o.keys.WorkMaster("WM-1")).AsBytes()
	if err != nil {
		return ""
	}
	w := new(isa95.WorkMaster)
	if err := isa95.Unmarshal(doc, w); err != nil {
		o.t.Fatal(err)
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
		{"m42", "one", jobstore.Delivery{Change: "new", After: hash("one")}, map[isa95.Scope]string{"m42": "one", "": "one"}, "one"},
		{"m43", "two", jobstore.Delivery{Change: "new", After: hash("two"), Others: 1}, map[isa95.Scope]string{"m42": "one", "m43": "two", "": "two"}, "two"},
		{"m44", "one", jobstore.Delivery{Change: "new", After: hash("one"), Others: 2}, map[isa95.Scope]string{"m42": "one", "m43": "two", "m44": "one"}, "one"},
		{"m42", "three", jobstore.Delivery{Change: "changed", Before: hash("one"), After: hash("three"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "three"},
		{"m43", "two", jobstore.Delivery{Change: "unchanged", Before: hash("two"), After: hash("two"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "two"},
		{"m45", "", jobstore.Delivery{Change: "unchanged", Others: 3}, map[isa95.Scope]string{"m42": "three", "m43": "two", "m44": "one"}, "two"},
		{"m43", "", jobstore.Delivery{Change: "removed", Before: hash("two"), Others: 2}, map[isa95.Scope]string{"m42": "three", "m44": "one"}, "three"},
		{"m42", "", jobstore.Delivery{Change: "removed", Before: hash("three"), Others: 1}, map[isa95.Scope]string{"m44": "one"}, "one"},
		{"m44", "", jobstore.Delivery{Change: "removed", Before: hash("one")}, map[isa95.Scope]string{"m42": "", "m44": "", "": ""}, ""},
	} {
		if diff := cmp.Diff(step.want, s.deliver(step.scope, step.text)); diff != "" {
			t.Errorf("%s %q: %s", step.scope, step.text, diff)
		}
		s.wantRuns(step.runs)
		if got := (older{s}).runs(); got != step.doc {
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

// What version c91e236 delivered is run as before, and becomes the content of each scope that has it when another delivery
// replaces the document.
func TestWorkMastersOfOlderBuild(t *testing.T) {
	s := newShop(t)
	old := older{s}
	old.deliver("m42", "one")
	old.deliver("m43", "one")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "one"})
	s.deliver("m44", "two")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "one", "m44": "two"})
	if d := s.deliver("m43", "three"); d.Change != "changed" || d.Before != jobstore.Hash(workMaster("one").Data) || d.Others != 2 {
		t.Errorf("%+v", d)
	}
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "three", "m44": "two"})
	if got := old.runs(); got != "three" {
		t.Errorf("the older build runs %q", got)
	}
}

// contentOf is WM-1 as it is stored.
func contentOf(text string) []byte {
	return fmt.Appendf(nil, `{"ID":"WM-1","data":{"Steps":[%q]},"dataschema":"urn:x","_dataschema":%q}`, text, isa95.ConfigWorkMaster.Schema())
}

// wantReferences wants references to count in exactly these of the scopes m42 to m45. Nothing is delivered to m45: it runs the last delivery to another.
func (s *shop) wantReferences(want ...isa95.Scope) {
	s.t.Helper()
	for _, scope := range []isa95.Scope{"m42", "m43", "m44", "m45"} {
		snap := s.load(jobstore.Query{Scope: scope, WorkMaster: "WM-1"})
		if got := snap.WorkMaster != nil && snap.References; got != slices.Contains(want, scope) {
			s.t.Errorf("%s: references count: %t", scope, got)
		}
	}
}

// References count in what a build that knows them delivered. What version c91e236 delivered has none until it is delivered again, also
// with the same content, and also when it has become the content of a pointer.
func TestReferencesBeginWithADelivery(t *testing.T) {
	s := newShop(t)
	old := older{s}
	s.deliver("m44", "zero")
	s.wantReferences("m42", "m43", "m44", "m45") // they have none of their own
	s.deliver("m44", "")
	old.deliver("m42", "one")
	old.deliver("m43", "one")
	s.wantReferences() // one document for every scope
	s.deliver("m44", "two")
	s.wantReferences("m44", "m45")
	s.deliver("m44", "one") // the content of the others, delivered by this build
	s.wantReferences("m44", "m45")
	if d := s.deliver("m43", "one"); d.Change != "unchanged" {
		t.Errorf("%+v", d)
	}
	s.wantReferences("m43", "m44", "m45")
	old.deliver("m44", "three")
	s.wantReferences()
	s.deliver("m42", "three")
	s.wantReferences("m42", "m45")
	s.wantFound()
}

// A delivery of what an older build had delivered leaves the orders alone that such a build accepted: it does not judge them, and they were
// made for the recipe as it is written. One that changes the recipe is meant for all orders.
func TestDeliveredAgainForReferences(t *testing.T) {
	s := newShop(t)
	wantAsWritten := func(unjudged, judged bool) {
		t.Helper()
		for by, want := range map[string]bool{"": unjudged, jobstore.JudgedByNone: judged, strings.Repeat("a", 64): judged} {
			for _, scope := range []isa95.Scope{"m42", "m45"} { // m45 has no delivery of its own
				snap := s.load(jobstore.Query{Scope: scope, WorkMaster: "WM-1"})
				snap.Job = &jobstore.StoredOrder{JudgedBy: by}
				if got := snap.StartsAsWritten(); got != want {
					t.Errorf("%s, judged by %q: starts as written: %t", scope, by, got)
				}
			}
		}
	}
	older{s}.deliver("m42", "one")
	wantAsWritten(true, true)
	for range 2 {
		s.deliver("m42", "one")
		wantAsWritten(true, false)
	}
	for range 2 {
		s.deliver("m42", "two")
		wantAsWritten(false, false)
	}
	s.wantFound()
}

// An older build beside this one writes the shared document alone. It counts for each scope, as it does for the older build,
// until the next delivery to that scope; what was delivered to others after it leaves it alone.
func TestOlderBuildBeside(t *testing.T) {
	s := newShop(t)
	old := older{s}
	s.deliver("m42", "one")
	s.deliver("m43", "two")
	old.deliver("m43", "three")
	s.wantRuns(map[isa95.Scope]string{"m42": "three", "m43": "three", "": "three"})
	s.wantFound("wmx:delivered:WM-1: workmaster:WM-1 was written by an older build or another program after the last delivery, and counts for the 2 scopes that list it")
	s.deliver("m42", "one")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "three"})
	s.wantFound()

	// The same content under an older build is a delivery too, though the document had it already.
	s.deliver("m43", "two")
	old.deliver("m42", "two")
	s.wantRuns(map[isa95.Scope]string{"m42": "two", "m43": "two"})

	// An older build removes it in one scope, then in the last.
	s.deliver("m42", "one")
	old.deliver("m43", "")
	s.deliver("m44", "four")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m44": "four"})
	if got := old.holders(); !slices.Equal(got, []string{"m42", "m44"}) {
		t.Errorf("holders %v", got)
	}
	old.deliver("m42", "")
	old.deliver("m44", "")
	s.wantRuns(map[isa95.Scope]string{"m42": "", "m44": "", "": ""})
	s.deliver("m42", "five")
	s.wantRuns(map[isa95.Scope]string{"m42": "five"})
	s.wantFound()
	s.deliver("m42", "")
	if got := s.number("EXISTS", s.keys.WorkMasterDelivered("WM-1"), s.keys.WorkMaster("WM-1"), s.keys.WorkMasterScopes("WM-1")); got != 0 {
		t.Errorf("%d keys are left over", got)
	}
}

// A removal leaves what an older build wrote for the scopes that stay.
func TestRemovalBesideOlderBuild(t *testing.T) {
	s := newShop(t)
	s.deliver("m42", "one")
	s.deliver("m43", "two")
	older{s}.deliver("m43", "three")
	s.deliver("m43", "")
	s.wantRuns(map[isa95.Scope]string{"m42": "three"})
	if got := (older{s}).runs(); got != "three" {
		t.Errorf("the older build runs %q", got)
	}
}

// A document that no one can read counts for no scope longer than it stands there.
func TestUnreadableWorkMaster(t *testing.T) {
	s := newShop(t)
	s.deliver("m42", "one")
	s.do("SET", s.keys.WorkMaster("WM-1"), "{")
	if _, err := s.Load(t.Context(), jobstore.Query{Scope: "m42", WorkMaster: "WM-1"}); err == nil {
		t.Error("no error")
	}
	s.deliver("m43", "two")
	s.wantRuns(map[isa95.Scope]string{"m42": "one", "m43": "two"})
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
		{[]string{"HDEL", s.keys.WorkMasterDelivered("WM-1"), "m42"}, "wmx:delivered:WM-1: scope m42 lists the work master and has no delivery"},
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
	if _, err := s.Load(t.Context(), jobstore.Query{Scope: "m42", WorkMaster: "WM-1"}); err == nil || !strings.Contains(err.Error(), "is not a number and a hash") {
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
		{"delivery after an older build's", func(s *shop) { older{s}.deliver("m42", "one") }, func(s *shop) { s.deliver("m42", "two") }, true},
		{"older build's delivery after an older build's", func(s *shop) { older{s}.deliver("m42", "one") }, func(s *shop) { older{s}.deliver("m42", "two") }, true},
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
