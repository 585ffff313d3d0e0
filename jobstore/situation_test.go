package jobstore_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// What Why is judged by is read in two round trips, whatever the order waits for; a list takes two per page and one for its ids.
func TestWhyTakesTwoRoundTrips(t *testing.T) {
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := openShop(t, srv, jobstore.Options{})
	reader := openShop(t, srv, jobstore.Options{URL: proxy.URL, Prefix: s.keys.Prefix()})
	program, err := recipe.Compile([]byte(whyRecipe))
	if err != nil {
		t.Fatal(err)
	}
	s.move("cell-07", "waits", 3, released)
	s.move("cell-07", "stored", 2, isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready})
	for _, id := range []isa95.JobOrderID{"sent", "scans"} {
		s.move("cell-07", id, 1, released)
		snap := s.load(jobstore.Query{JobOrderID: id, Scope: "cell-07", Mailboxes: program.PullTypes()})
		force := 10
		snap.Job.JobOrder.JobOrderParameters = []isa95.Parameter{{ID: "force", Value: []byte("10")}}
		out := program.Start(snap.Job.RecipeOrder(), "WM-1", "1-0", snap.Mailboxes, s.InstallationTime())
		s.commit(snap, jobstore.Change{
			Transition: &jobstore.Transition{Method: isa95.Run, State: running, Order: &isa95.JobOrder{JobOrderID: string(id), Priority: &force, JobOrderParameters: snap.Job.JobOrder.JobOrderParameters}},
			Execution:  out.Docs.Execution, Due: out.Due, Recipe: []byte(whyRecipe), Commands: out.Commands,
		})
	}
	snap := s.load(jobstore.Query{JobOrderID: "scans", Scope: "cell-07", Mailboxes: program.PullTypes()})
	out := program.Answer(snap.Job.RecipeOrder(), recipe.Docs{Execution: snap.Execution, Mailboxes: snap.Mailboxes},
		recipe.Answer{CommandID: snap.Execution.Action("weld").CommandID, Result: []byte(`{"force":12}`)}, s.InstallationTime())
	s.commit(snap, jobstore.Change{Execution: out.Docs.Execution, Due: out.Due, Mailboxes: out.Docs.Mailboxes})
	s.run("cell-07", "broken") // its text is no recipe

	why := func(id isa95.JobOrderID) jobstore.Why {
		t.Helper()
		proxy.Reset()
		c, err := reader.Situation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if trips := proxy.Trips(); trips > 2 {
			t.Errorf("%s: %d round trips", id, trips)
		}
		if c.Job == nil {
			return jobstore.Why{}
		}
		return c.Why("takt")
	}
	expect := func(id isa95.JobOrderID, kind jobstore.WhyKind, parts ...string) {
		t.Helper()
		got := why(id)
		if len(got.Reasons) == 0 || got.Reasons[0].Kind != kind {
			t.Fatalf("%s: %+v, want %s", id, got, kind)
		}
		for _, part := range parts {
			if !strings.Contains(got.Reasons[0].Text, part) {
				t.Errorf("%s: %q lacks %q", id, got.Reasons[0].Text, part)
			}
		}
	}
	if got := why("none"); len(got.Reasons) > 0 {
		t.Errorf("an order that is not stored: %+v", got)
	}
	expect("stored", jobstore.WhyNotStarted)
	expect("sent", jobstore.WhyCommand, "attempt 1 of 3", "it times out in")
	expect("scans", jobstore.WhyEvent, "com.example.part.v1 of scale")
	expect("broken", jobstore.WhyRecipeLost, "cannot be read")
	expect("waits", jobstore.WhyNoEngine)
	if c, err := reader.Situation(t.Context(), "sent"); err != nil || !c.Unsent[c.Execution.Action("weld").CommandID] {
		t.Errorf("its command stands in the outbox: %v, %v", c.Unsent, err)
	}

	s.do("HSET", s.keys.Instances(), "a", "receiver,engine", "a/answers", "engine", "b", "receiver")
	s.do("SET", s.keys.Worker("a"), "token")
	s.do("SET", s.keys.Worker("b"), "token")
	expect("waits", jobstore.WhyForgotten)
	s.commit(s.load(jobstore.Query{JobOrderID: "sent", Scope: "cell-07"}), jobstore.Change{Work: []string{jobstore.WorkResume}})
	s.commit(s.load(jobstore.Query{JobOrderID: "waits", Scope: "cell-07"}), jobstore.Change{Work: []string{jobstore.WorkStart}})
	expect("waits", jobstore.WhyQueued, "behind 1 other; 1 process takes them")
	s.do("XGROUP", "CREATE", s.keys.SfcWork(), "sfc-engine", "0")
	s.do("XREADGROUP", "GROUP", "sfc-engine", "a", "STREAMS", s.keys.SfcWork(), ">")
	expect("waits", jobstore.WhyInWork, "in the hands of a, handed out 1 time")

	s.lastLookWas(15_000_000_000)
	expect("sent", jobstore.WhyStandstill, "no process could take answers of equipment for 1")

	proxy.Reset()
	list, err := reader.ListWhy(t.Context(), "cell-07", "takt")
	if err != nil {
		t.Fatal(err)
	}
	if trips := proxy.Trips(); trips > 3 {
		t.Errorf("a list of one page: %d round trips", trips)
	}
	var got []string
	for _, o := range list {
		got = append(got, o.JobOrder.JobOrderID+": "+o.Why.Reasons[0].Short)
	}
	if want := "scans: takt serve, sent: takt serve, waits: its start, stored: Start, broken: takt serve"; strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
	srv.Must(t, "SCRIPT", "FLUSH")
	if _, err := reader.Situation(t.Context(), "sent"); err != nil {
		t.Errorf("after the server forgot its scripts: %v", err)
	}
}
