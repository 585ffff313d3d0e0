package jobstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

func ids(orders []jobstore.StoredOrder) []string {
	var all []string
	for _, o := range orders {
		all = append(all, o.JobOrder.JobOrderID)
	}
	return all
}

// Higher ISA-95 priority first, then by id; scopes apart; orders in EndState are not listed.
func TestListD22(t *testing.T) {
	s := newShop(t)
	for id, priority := range map[isa95.JobOrderID]int{"a": 0, "b": 7, "c": -1, "d": 7, "e": 3} {
		s.move("m42", id, priority, ready)
	}
	s.move("m42", "gone", 9, ready)
	s.move("m42", "gone", 9, ended)
	s.move("other.line", "x", 1, ready)
	list, err := s.List(t.Context(), "m42")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "d", "e", "a", "c"}; !slices.Equal(ids(list), want) {
		t.Errorf("%v, want %v", ids(list), want)
	}
	if scopes, err := s.Scopes(t.Context()); err != nil || !slices.Equal(scopes, []isa95.Scope{"m42", "other.line"}) {
		t.Errorf("scopes %v, %v", scopes, err)
	}
	s.do("SADD", s.keys.ConfiguredScopes(), "m42", "new", "retired")
	s.do("SET", s.keys.PubSeq("retired"), "7")
	want := map[isa95.Scope]bool{"m42": true, "other.line": true, "new": true, "retired": false}
	if stations, err := s.Stations(t.Context()); err != nil || !maps.Equal(stations, want) {
		t.Errorf("stations %v, %v, want %v", stations, err, want)
	}
	if none, err := s.List(t.Context(), "nowhere"); err != nil || none != nil {
		t.Errorf("%v, %v", none, err)
	}
}

// A list goes over pages, and one order that cannot be read costs only itself.
func TestLongListD1(t *testing.T) {
	s := newShop(t)
	doc, err := s.do("GET", func() string { s.move("m42", "JO-0", 0, ready); return s.keys.JobOrder("JO-0") }()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 1200; i++ {
		id := fmt.Sprintf("JO-%d", i)
		s.do("SET", s.keys.JobOrder(id), strings.ReplaceAll(doc, "JO-0", id))
		s.do("ZADD", s.keys.JobOrderList("m42"), fmt.Sprint(i), id)
	}
	s.do("SET", s.keys.JobOrder("JO-700"), "{")
	s.do("DEL", s.keys.JobOrder("JO-701")) // expired meanwhile
	list, err := s.List(t.Context(), "m42")
	var unreadable *jobstore.DocumentError
	if !errors.As(err, &unreadable) || unreadable.Key != s.keys.JobOrder("JO-700") {
		t.Errorf("err = %v", err)
	}
	if len(list) != 1198 {
		t.Errorf("%d orders", len(list))
	}
}

func TestResponsesByState(t *testing.T) {
	s := newShop(t)
	for _, id := range []isa95.JobOrderID{"JO-2", "JO-1"} {
		s.move("m42", id, 0, aborted)
	}
	s.move("m42", "JO-3", 0, completed)
	s.move("m43", "JO-4", 0, aborted)
	query := func(states ...isa95.State) (got []string) {
		t.Helper()
		responses, err := s.ResponsesByState(t.Context(), "m42", states)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range responses {
			got = append(got, r.JobOrderID)
		}
		return got
	}
	for _, test := range []struct {
		states []isa95.State
		want   []string
	}{
		{nil, nil}, {[]isa95.State{aborted}, []string{"JO-1", "JO-2"}}, {[]isa95.State{completed}, []string{"JO-3"}},
		{[]isa95.State{completed, aborted}, []string{"JO-1", "JO-2", "JO-3"}}, {[]isa95.State{{Top: isa95.Ended}}, nil},
	} {
		if diff := cmp.Diff(test.want, query(test.states...)); diff != "" {
			t.Errorf("%v:\n%s", test.states, diff)
		}
	}
	s.do("SET", s.keys.JobResponse("JO-1-response"), "[")
	responses, err := s.ResponsesByState(t.Context(), "m42", []isa95.State{aborted})
	var unreadable *jobstore.DocumentError
	if !errors.As(err, &unreadable) || len(responses) != 1 || responses[0].JobOrderID != "JO-2" {
		t.Errorf("%v, %v", responses, err)
	}
	for i := range 1500 {
		id := fmt.Sprintf("many-%04d", i)
		s.do("SET", s.keys.JobResponse(id), `{"JobOrderID":"`+id+`"}`)
		s.do("SADD", s.keys.ResponsesByState("m42", "Running"), id)
	}
	if got := query(running); len(got) != 1000 || got[0] != "many-0000" {
		t.Errorf("%d responses, want 1000 (spec 2.4)", len(got))
	}
}

func TestWatch(t *testing.T) {
	s := newShop(t)
	if last, err := s.LastChange(t.Context(), "m42"); err != nil || last != "0" {
		t.Errorf("%q, %v", last, err)
	}
	s.move("m42", "JO-1", 0, ready)
	last, err := s.LastChange(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	s.move("m42", "JO-1", 0, aborted)
	s.move("m43", "JO-2", 0, ready)
	changes, err := s.Watch(t.Context(), "", last, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %s %s", c.Type, c.JobOrderID, c.Scope))
		if _, err := time.Parse(time.RFC3339, c.Time); err != nil || c.ID == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if want := []string{"Test JO-1 m42", "ResultUpdate JO-1 m42", "Test JO-2 m43"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if changes, err = s.Watch(t.Context(), "m43", "0", time.Second); err != nil || len(changes) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
	if changes, err = s.Watch(t.Context(), "", s.newest(), 10*time.Millisecond); err != nil || changes != nil {
		t.Errorf("%v, %v: nothing changed", changes, err)
	}
}

func (s *shop) newest() string {
	s.t.Helper()
	last, err := s.LastChange(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}
