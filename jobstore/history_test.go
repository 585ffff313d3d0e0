package jobstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// read is the whole history of an order.
func (s *shop) read(id isa95.JobOrderID) []jobstore.HistoryEntry {
	s.t.Helper()
	r := s.History(id)
	var all []jobstore.HistoryEntry
	for {
		entries, err := r.Next(s.t.Context(), 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
	}
}

// advance commits one more answer of the order's recipe, as the engine does, with a result of so many bytes.
func (s *shop) advance(id isa95.JobOrderID, attempt, bytes int) {
	s.t.Helper()
	snap := s.load(jobstore.Query{JobOrderID: id, Scope: "m42"})
	x := snap.Execution.Clone()
	x.Actions[0].Attempt, x.Actions[0].CommandID = attempt, recipe.CommandID(x.CorrelationID, "cut", 1, attempt)
	x.Actions[0].Result = fmt.Appendf(nil, `{"n":%d,"text":%q}`, attempt, strings.Repeat("x", bytes))
	s.commit(snap, jobstore.Change{Execution: x, Due: x.Due(), Facts: []recipe.Fact{{Kind: recipe.FactAnswer, Action: "cut", Iteration: 1, Attempt: attempt, Result: x.Actions[0].Result}}})
}

// One commit is one entry, with all that it did, and each state is rebuilt from the entries alone.
func TestHistory(t *testing.T) {
	s := newShop(t)
	s.run("m42", "JO-1")
	began := s.load(jobstore.Query{JobOrderID: "JO-1"}).Execution
	s.advance("JO-1", 2, 10)
	s.commit(s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42"}), jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Pause, State: isa95.State{Top: isa95.Interrupted, Sub: "Held"}}, CausationID: "id-7", Source: "urn:mes",
		Execution: s.load(jobstore.Query{JobOrderID: "JO-1"}).Execution.Pause(s.InstallationTime()),
	})
	type entry struct {
		Method        isa95.Method
		State, Source string
		Facts, Paused int
	}
	var got []entry
	history := s.read("JO-1")
	for i, e := range history {
		line := entry{Method: e.Method, State: e.State.String(), Source: e.Source + e.CausationID, Facts: len(e.Facts)}
		if e.Execution != nil && e.Execution.Paused {
			line.Paused = 1
		}
		if i > 0 && e.Before != history[i-1].Execution {
			t.Errorf("entry %d does not begin where the one before it ended", i)
		}
		got = append(got, line)
	}
	want := []entry{{Method: "Test", State: "AllowedToStart_Ready"}, {Method: "Run", State: "Running"}, {State: "Running", Facts: 1}, {Method: "Pause", State: "Interrupted_Held", Source: "urn:mesid-7", Paused: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(began, history[1].Execution, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after the start: %s", diff)
	}
	if text := string(history[2].Facts[0].Result); text != `{"n":2,"text":"xxxxxxxxxx"}` {
		t.Errorf("the result of the fact is %s", text)
	}
	if found := s.check(); len(found) != 0 {
		t.Error(found)
	}
}

// A long or large history keeps its newer half behind one snapshot, and reads on as if nothing had gone.
func TestHistoryIsShortened(t *testing.T) {
	for name, bound := range map[string][2]int64{"entries": {20, 1 << 30}, "bytes": {1000, 100_000}} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.run("m42", "JO-1")
			s.BoundHistories(bound[0], bound[1])
			for i := range 40 {
				s.advance("JO-1", i+2, 4000)
			}
			whole := s.read("JO-1")
			if err := s.ShortenHistories(t.Context(), []isa95.JobOrderID{"JO-1", "JO-none"}); err != nil {
				t.Fatal(err)
			}
			short := s.read("JO-1")
			if len(short) != 22 || !short[0].Snapshot { // the snapshot, the entry that it ends with, and the rest
				t.Fatalf("%d entries are left, %+v", len(short), short[0])
			}
			n := len(whole) - len(short) + 1
			for i, e := range short[1:] {
				if diff := cmp.Diff(whole[n+i].Execution.Encode(), e.Execution.Encode()); diff != "" || e.ID != whole[n+i].ID {
					t.Fatalf("entry %d: %s", i, diff)
				}
			}
			if err := s.ShortenHistories(t.Context(), []isa95.JobOrderID{"JO-1"}); err != nil {
				t.Fatal(err)
			}
			if found := s.check(); len(found) != 0 {
				t.Error(found)
			}
			if _, ok := jobstore.Recorded(short); ok {
				t.Error("a record begins in the middle")
			}
		})
	}
}

// The history goes with the documents, and is not that of an earlier use of the id.
func TestHistoryEndsWithItsOrder(t *testing.T) {
	s := newShop(t)
	s.run("m42", "JO-1")
	s.advance("JO-1", 2, 10)
	s.BoundHistories(1, 1)
	if err := s.ShortenHistories(t.Context(), []isa95.JobOrderID{"JO-1"}); err != nil {
		t.Fatal(err)
	}
	s.finish("m42", "JO-1")
	s.move("m42", "JO-1", 0, isa95.State{Top: isa95.EndState})
	within(t, "the history", s.number("PTTL", s.keys.History("JO-1")), 7*24*time.Hour)
	s.run("m42", "JO-1")
	if got := s.read("JO-1"); len(got) != 2 || got[0].Execution != nil || got[1].Method != isa95.Run {
		t.Errorf("%+v", got)
	}
	if s.number("PTTL", s.keys.History("JO-1")) != -1 || s.number("EXISTS", s.keys.HistoryStart("JO-1")) != 0 {
		t.Error("the new history expires, or has an old beginning")
	}
}

// A follower sees each entry once, as soon as it is committed.
func TestHistoryFollows(t *testing.T) {
	s := newShop(t)
	s.run("m42", "JO-1")
	r := s.History("JO-1")
	next := func(want int) []jobstore.HistoryEntry {
		t.Helper()
		entries, err := r.Next(t.Context(), time.Millisecond)
		if err != nil || len(entries) != want {
			t.Fatalf("%d entries, %v; want %d", len(entries), err, want)
		}
		return entries
	}
	next(2)
	next(0)
	s.advance("JO-1", 2, 10)
	if e := next(1)[0]; e.Execution.Actions[0].Attempt != 2 {
		t.Errorf("%+v", e)
	}
	s.do("XADD", s.keys.History("JO-2"), "*", "e", `{"x":{"c":"cut"},"i":1}`)
	if _, err := s.History("JO-2").Next(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "what it changes is not known") {
		t.Errorf("a change of nothing: %v", err)
	}
	s.do("XADD", s.keys.History("JO-1"), "*", "e", `{"x":{"0":1,"A":7},"i":1}`)
	if _, err := r.Next(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "is a number") {
		t.Errorf("an entry that cannot be read: %v", err)
	}
}
