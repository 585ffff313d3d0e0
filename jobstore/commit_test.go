package jobstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// full is a query for everything there is to read of one job order.
func full(scope isa95.Scope, id isa95.JobOrderID) jobstore.Query {
	return jobstore.Query{
		JobOrderID: id, Response: true, Source: "urn:example:mes", ID: "req-" + string(id), Scope: scope,
		Acceptance: &isa95.JobOrder{EquipmentRequirements: []isa95.Equipment{{ID: "EQ-1"}}, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-1"}}},
		Mailboxes:  []string{pullType}, Recipe: "abc", WorkMaster: "WM-1", Holders: "WM-1", CorrelationID: "corr-1",
	}
}

func TestLoadOfNothing(t *testing.T) {
	s := newShop(t)
	snap := s.load(full("m42", "JO-7"))
	if snap.Job != nil || snap.Execution != nil || snap.Response != nil || snap.Seen || snap.Reply != nil || len(snap.Mailboxes) != 0 ||
		snap.RecipeText != nil || snap.WorkMaster != nil || snap.Owner != "" || snap.Scope != "m42" || snap.JobOrderID != "JO-7" {
		t.Errorf("%+v", snap)
	}
	if a := snap.Acceptance; a.Limit != -1 || a.Live != 0 || a.Refusal(false) != `equipment "EQ-1" is not known at this station` {
		t.Errorf("%+v %q", a, a.Refusal(false))
	}
	if n := len(s.stored()); n != 0 {
		t.Errorf("a load wrote %d keys", n)
	}
}

// A key of another type is not taken for an absent one: Load names it, whichever it is.
func TestLoadNamesAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	for _, isRunning := range []bool{false, true} {
		s := newShop(t)
		k := s.keys
		q := full("m42", "JO")
		q.Running = isRunning
		s.commit(s.load(q), jobstore.Change{
			Transition: &jobstore.Transition{Method: isa95.StoreAndStart, Order: &isa95.JobOrder{JobOrderID: "JO"}, State: released}, Seen: &jobstore.Seen{},
		})
		for _, key := range []string{
			k.JobOrder("JO"), k.SfcExecution("JO"), k.JobResponse("JO-response"), k.SfcMailbox("m42", pullType), k.SfcRecipe(q.Recipe),
			k.Dedupe("m42", q.Source, q.ID), k.JobAcceptance("m42"), k.SfcCorrelation("corr-1"),
		} {
			was, _ := s.srv.Client.Do(t.Context(), s.srv.Client.B().Get().Key(key).Build()).ToString()
			s.do("DEL", key)
			s.do("RPUSH", key, "x")
			if _, err := s.Load(t.Context(), q); err == nil || !strings.Contains(err.Error(), "key "+key+": WRONGTYPE") || !jobstore.Final(err) {
				t.Errorf("%s is a list, running %v: %v", key, isRunning, err)
			}
			s.do("DEL", key)
			if was != "" {
				s.do("SET", key, was)
			}
		}
		if job := s.load(q).Job; job == nil || job.State != released {
			t.Errorf("the order is %+v", job)
		}
	}
}

// One commit writes all that belongs to a transition, in the keys of the Persistence page.
func TestCommitWritesAll(t *testing.T) {
	for _, server := range []struct {
		name  string
		start func(testing.TB) *testenv.RedisServer
		embed bool
	}{{"redis-server", testenv.Redis, false}, {"miniredis", testenv.Miniredis, true}} {
		t.Run(server.name, func(t *testing.T) {
			s := openShop(t, server.start(t), jobstore.Options{Embedded: server.embed, Source: "urn:example:dcs", EventExpiry: time.Minute})
			now := time.Date(2026, 11, 21, 0, 29, 34, 189618000, time.UTC)
			priority := 3
			order := &isa95.JobOrder{JobOrderID: "JO-7", Priority: &priority}
			reply := cloudevent.New("type", "urn:example:dcs", "m42", now).WithData([]byte(`{"ReturnStatus":1}`), "schema")
			s.commit(s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: "id-1"}), jobstore.Change{
				Transition: &jobstore.Transition{Method: isa95.StoreAndStart, Order: order, State: released},
				Work:       []string{jobstore.WorkStart}, Seen: &jobstore.Seen{Reply: &reply}, Now: now, CorrelationID: "corr", CausationID: "id-1",
			})
			want := []string{
				"active-scopes set", "cededupe:3142031fb6296f4fb9a4c58bdeb406d4 string", "event:receiver:list stream",
				"jobhistory:JO-7 stream", "joborder:JO-7 string", "joborder:changes:_global stream", "joborder:changes:m42 stream", "joborder:list:m42 zset",
				"pubidx:m42 hash", "publisher:dirty set", "sfc:work stream",
			}
			if diff := cmp.Diff(want, s.stored()); diff != "" {
				t.Errorf("keys:\n%s", diff)
			}
			for key, text := range map[string]string{
				"joborder:JO-7": `{"JobOrder":{"JobOrderID":"JO-7","Priority":3},"State":[{"StateText":{"Locale":"en","Text":"AllowedToStart"},"StateNumber":2},{"StateText":{"Locale":"en","Text":"Ready"},"StateNumber":2}],"_dataschema":"` + isa95.SchemaJobOrderAndState + `","_scope":"m42","_event":{"sequence":1,"recordedtime":"2026-11-21T00:29:34.189618Z"}}`,
			} {
				if got, err := s.do("GET", s.keys.Prefix()+":"+key).ToString(); err != nil || got != text {
					t.Errorf("%s is %s, %v", key, got, err)
				}
			}
			changes, err := s.do("XRANGE", s.keys.Changes("m42"), "-", "+").AsXRange()
			if err != nil || len(changes) != 1 {
				t.Fatal(changes, err)
			}
			if diff := cmp.Diff(map[string]string{"change_type": "StoreAndStart", "job_order_id": "JO-7", "scope": "m42", "ts": "2026-11-21T00:29:34.189618+00:00"}, changes[0].FieldValues); diff != "" {
				t.Errorf("change:\n%s", diff)
			}
			work, err := s.do("XRANGE", s.keys.SfcWork(), "-", "+").AsXRange()
			if err != nil || cmp.Diff(map[string]string{"action": "start_recipe", "job_id": "JO-7", "scope": "m42"}, work[0].FieldValues) != "" {
				t.Errorf("work %v, %v", work, err)
			}
			events, err := s.do("XRANGE", s.keys.EventReceiver(), "-", "+").AsXRange()
			if err != nil {
				t.Fatal(err)
			}
			var event cloudevent.Event
			if err := json.Unmarshal([]byte(events[0].FieldValues["event"]), &event); err != nil {
				t.Fatal(err)
			}
			if event.Type != isa95.StatusEventType || event.DataSchema != isa95.StatusEventSchema || event.Source != "urn:example:dcs" || event.Subject != "m42" ||
				event.CorrelationID != "corr" || event.CausationID != "id-1" || event.ExpiryInterval != 60 || event.RecordedTime != "2026-11-21T00:29:34.189618Z" || event.Extensions["sequence"] != "0000000001" || event.Check() != nil {
				t.Errorf("event %+v", event)
			}
			snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: "id-1"})
			if !snap.Seen || snap.Reply == nil || snap.Reply.ID != reply.ID || string(snap.Reply.Data) != string(reply.Data) {
				t.Errorf("reply %+v", snap.Reply)
			}
			if diff := cmp.Diff(&jobstore.StoredOrder{JobOrder: order, State: released, Scope: "m42", Event: jobstore.EventMark{Sequence: 1, RecordedTime: "2026-11-21T00:29:34.189618Z"}}, snap.Job, cmpopts.IgnoreUnexported(jobstore.StoredOrder{})); diff != "" {
				t.Errorf("order:\n%s", diff)
			}
		})
	}
}

// A commit conflicts if anything it was decided on is not so any more, and then writes nothing.
func TestCommitConflictsES26(t *testing.T) {
	query := jobstore.Query{
		JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: "id-1", Mailboxes: []string{pullType},
		Acceptance: &isa95.JobOrder{EquipmentRequirements: []isa95.Equipment{{ID: "EQ-1"}}},
	}
	known := func(s *shop) {
		s.do("SADD", s.keys.ResourceList("equipment", "m42"), "EQ-1")
		s.do("SET", s.keys.JobAcceptance("m42"), "2")
	}
	for _, test := range []struct {
		name            string
		before, between func(s *shop)
	}{
		{"stored meanwhile", known, func(s *shop) { s.move("m42", "JO-7", 0, ready) }},
		{"moved meanwhile", func(s *shop) { known(s); s.move("m42", "JO-7", 0, ready) }, func(s *shop) { s.move("m42", "JO-7", 0, released) }},
		{"deleted meanwhile", func(s *shop) { known(s); s.move("m42", "JO-7", 0, ready) }, func(s *shop) { s.do("DEL", s.keys.JobOrder("JO-7")) }},
		{"recipe started meanwhile", known, func(s *shop) { s.run("m42", "JO-7") }},
		{"recipe went on meanwhile", func(s *shop) { known(s); s.run("m42", "JO-7") }, func(s *shop) {
			x := s.load(jobstore.Query{JobOrderID: "JO-7"}).Execution.Pause(s.Now())
			s.do("SET", s.keys.SfcExecution("JO-7"), string(x.Encode()))
		}},
		{"command handled meanwhile", known, func(s *shop) { s.do("SET", s.keys.Dedupe("m42", "src", "id-1"), "1") }},
		{"mailbox changed meanwhile", known, func(s *shop) { s.do("SET", s.keys.SfcMailbox("m42", pullType), `{"waiting":[],"events":[]}`) }},
		{"equipment removed meanwhile", known, func(s *shop) { s.do("SREM", s.keys.ResourceList("equipment", "m42"), "EQ-1") }},
		{"limit reached meanwhile", known, func(s *shop) { s.move("m42", "JO-8", 0, ready); s.move("m42", "JO-9", 0, ready) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShop(t)
			test.before(s)
			snap := s.load(query)
			if why := snap.Acceptance.Refusal(snap.Job != nil); why != "" {
				t.Fatal(why)
			}
			test.between(s)
			stored := s.dumps()
			err := s.Commit(t.Context(), snap, jobstore.Change{
				Transition: &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-7"}, State: ready},
				Acceptance: snap.Acceptance, Seen: &jobstore.Seen{}, Mailboxes: map[string]*recipe.Mailbox{pullType: {Events: []recipe.PullEvent{{ID: "e"}}}}, Now: s.Now(),
			})
			if !isConflict(err) {
				t.Errorf("err = %v, want a conflict", err)
			}
			if diff := cmp.Diff(stored, s.dumps()); diff != "" {
				t.Errorf("a conflict wrote:\n%s", diff)
			}
		})
	}
}

// A scope that loses its configuration between the decision and the commit does not get the order.
func TestCommitDependsOnConfiguration(t *testing.T) {
	s := newShop(t)
	if err := s.configure(jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "m42", ID: "EQ-1"}); err != nil {
		t.Fatal(err)
	}
	snap := s.load(jobstore.Query{JobOrderID: "JO-1", Scope: "m42", Acceptance: &isa95.JobOrder{}, Configured: true})
	if why := snap.Acceptance.Refusal(false); why != "" {
		t.Fatal(why)
	}
	s.do("SREM", s.keys.ConfiguredScopes(), "m42")
	err := s.Commit(t.Context(), snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-1"}, State: ready}, Acceptance: snap.Acceptance, Now: s.Now(),
	})
	if !isConflict(err) || !strings.Contains(err.Error(), "configured-scopes") {
		t.Errorf("err = %v, want a conflict at configured-scopes", err)
	}
}

// A limit is not held against an order that is counted already, nor a requirement against one that does not ask for it.
func TestCommitDoesNotConflict(t *testing.T) {
	s := newShop(t)
	s.do("SET", s.keys.JobAcceptance("m42"), "1")
	s.move("m42", "JO-7", 0, ready)
	snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Acceptance: &isa95.JobOrder{}})
	if why := snap.Acceptance.Refusal(true); why != "" {
		t.Fatal(why)
	}
	s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Update, Order: &isa95.JobOrder{JobOrderID: "JO-7"}, State: ready}, Acceptance: snap.Acceptance})
}

// An id that is used again after Clear begins anew: response, execution and expiry of the old order are gone, in the same commit
// .
func TestIDUsedAgainES9(t *testing.T) {
	for _, scope := range []isa95.Scope{"m42", "m43"} {
		t.Run(string(scope), func(t *testing.T) {
			s := newShop(t)
			s.run("m42", "JO-7")
			s.finish("m42", "JO-7")
			s.move("m42", "JO-7", 0, ended)
			s.move(scope, "JO-7", 5, ready)
			snap := s.load(jobstore.Query{JobOrderID: "JO-7", Response: true})
			if snap.Job.State != ready || snap.Job.Scope != scope || snap.Execution != nil || snap.Response != nil {
				t.Errorf("%+v", snap)
			}
			if ttl := s.number("PTTL", s.keys.JobOrder("JO-7")); ttl != -1 {
				t.Errorf("the new order expires in %d ms", ttl)
			}
			if n := s.number("ZCARD", s.keys.JobOrderList(string(scope))); n != 1 {
				t.Errorf("%d orders listed", n)
			}
			var entry jobstore.IndexEntry
			text, err := s.do("HGET", s.keys.PubIndex(string(scope)), "JO-7").ToString()
			if err := errors.Join(err, json.Unmarshal([]byte(text), &entry)); err != nil || entry.Gone || entry.Result != "" || entry.Order == "" {
				t.Errorf("index %s, %v", text, err)
			}
			if scope == "m43" {
				text, err := s.do("HGET", s.keys.PubIndex("m42"), "JO-7").ToString()
				if err != nil || text != `{"gone":true}` {
					t.Errorf("old scope: index %s, %v", text, err)
				}
			}
			s.run(scope, "JO-7")
			s.finish(scope, "JO-7")
			if got := s.load(jobstore.Query{JobOrderID: "JO-7", Response: true}); got.Response == nil || got.Response.JobResponseID != "JO-7-response" {
				t.Errorf("response %+v", got.Response)
			}
			if ttl := s.number("PTTL", s.keys.JobResponse("JO-7-response")); ttl != -1 {
				t.Errorf("the new response expires in %d ms", ttl)
			}
			s.wantSound()
		})
	}
}

func (s *shop) wantSound() {
	s.t.Helper()
	violations, err := s.Check(s.t.Context(), jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range violations {
		s.t.Error(v)
	}
}

// In EndState an order leaves every index at once, and its documents expire after the retention, by themselves.
func TestRetentionD5(t *testing.T) {
	t.Run("default", func(t *testing.T) {
		s := newShop(t)
		s.run("m42", "JO-7")
		s.finish("m42", "JO-7")
		s.move("m42", "JO-7", 0, ended)
		s.move("m42", "JO-8", 0, ready)
		s.move("m42", "JO-8", 0, ended) // cancelled
		week := 7 * 24 * time.Hour
		for _, key := range []string{s.keys.JobOrder("JO-7"), s.keys.JobResponse("JO-7-response"), s.keys.SfcExecution("JO-7"), s.keys.JobOrder("JO-8")} {
			within(t, key, s.number("PTTL", key), week)
		}
		for _, key := range []string{s.keys.JobOrderList("m42"), s.keys.JobResponseList("m42"), s.keys.ResponsesByState("m42", "Ended_Completed"), s.keys.SfcActiveJobs(), s.keys.SfcTimers(), s.keys.SfcMailbox("m42", pullType)} {
			if s.number("EXISTS", key) != 0 {
				t.Errorf("%s is left over", key)
			}
		}
		s.do("DEL", s.keys.SfcOutbox())
		s.wantSound()
	})
	t.Run("one second", func(t *testing.T) {
		s := openShop(t, testenv.Redis(t), jobstore.Options{EndStateRetention: time.Second, ReplyRetention: time.Second})
		s.run("m42", "JO-7")
		s.finish("m42", "JO-7")
		snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: "id-1"})
		s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Clear, State: ended}, Seen: &jobstore.Seen{}})
		eventually(t, "documents expire", func() bool {
			return s.number("EXISTS", s.keys.JobOrder("JO-7"), s.keys.JobResponse("JO-7-response"), s.keys.SfcExecution("JO-7"), s.keys.Dedupe("m42", "src", "id-1")) == 0
		})
		s.move("m42", "JO-7", 0, ready)
		s.wantSound()
	})
}

// An equipment event is known by its scope, too: that of another station with the same source and id is another one.
func TestEventsBelongToScopes(t *testing.T) {
	s := newShop(t)
	event := func(scope isa95.Scope, id string) jobstore.Query {
		return jobstore.Query{JobOrderID: "JO-7", Scope: scope, Source: "src", ID: id, Mailboxes: []string{pullType}}
	}
	seen := func(scope isa95.Scope, id string, want bool) {
		t.Helper()
		if got := s.load(event(scope, id)).Seen; got != want {
			t.Errorf("event %s of %s: seen %v, want %v", id, scope, got, want)
		}
	}
	s.commit(s.load(event("m42", "id-1")), jobstore.Change{Seen: &jobstore.Seen{}})
	seen("m42", "id-1", true)
	seen("m43", "id-1", false)
	s.commit(s.load(event("m43", "id-1")), jobstore.Change{Seen: &jobstore.Seen{}})
	seen("m43", "id-1", true)

	s.commit(s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42"}), jobstore.Change{Taken: []recipe.PullEvent{{Source: "src", ID: "id-2"}}})
	seen("m42", "id-2", true)
	seen("m43", "id-2", false)
}

func TestReplyRetention(t *testing.T) {
	s := newShop(t)
	s.commit(s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: "id-1"}), jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-7"}, State: ready}, Seen: &jobstore.Seen{},
	})
	within(t, "reply", s.number("PTTL", s.keys.Dedupe("m42", "src", "id-1")), 2*time.Hour)
	snap := s.load(jobstore.Query{Scope: "m42", Source: "src", ID: "id-1", Mailboxes: []string{pullType}})
	if !snap.Seen || snap.Reply != nil {
		t.Errorf("seen %v, reply %v: an event is not answered", snap.Seen, snap.Reply)
	}
	if snap = s.load(jobstore.Query{Source: "src", ID: "id-2"}); snap.Seen {
		t.Error("another id was not seen")
	}
}

// A response is listed by its start as a number; text that is no time counts as none, and nothing fails half way.
func TestResponseScoreES18(t *testing.T) {
	s := newShop(t)
	for id, test := range map[isa95.JobOrderID]struct {
		start string
		want  float64
	}{
		"JO-1": {"2026-05-04T06:00:00Z", 1777874400000}, "JO-2": {"2026-05-04T08:00:00+02:00", 1777874400000},
		"JO-3": {"", 0}, "JO-4": {"early in the morning", 0},
	} {
		s.move("m42", id, 0, ready)
		r := &isa95.JobResponse{JobResponseID: string(jobstore.ResponseID(id)), JobOrderID: string(id), StartTime: test.start, JobState: aborted.Elements()}
		s.commit(s.load(jobstore.Query{JobOrderID: id, Scope: "m42"}), jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Abort, State: aborted}, Response: r})
		if score, err := s.do("ZSCORE", s.keys.JobResponseList("m42"), r.JobResponseID).AsFloat64(); err != nil || score != test.want {
			t.Errorf("%q: score %v, %v, want %v", test.start, score, err, test.want)
		}
		if diff := cmp.Diff(r, s.load(jobstore.Query{JobOrderID: id, Response: true}).Response); diff != "" {
			t.Errorf("%q: stored\n%s", test.start, diff)
		}
	}
}

// What a recipe needs is found again: by its command, by its correlation id, by its text; when the recipe is over, only late answers
// and events find it, and nobody else gets them.
func TestExecution(t *testing.T) {
	s := newShop(t)
	x := s.run("m42", "JO-7")
	snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Mailboxes: []string{pullType, "other"}, Recipe: x.Recipe, CorrelationID: x.CorrelationID})
	if snap.Owner != "JO-7" || string(snap.RecipeText) != `{"Steps":[]}` || len(snap.Mailboxes) != 1 || snap.Mailboxes[pullType].Waiting[0].JobID != "JO-7" {
		t.Errorf("%+v", snap)
	}
	if diff := cmp.Diff(string(x.Encode()), string(snap.Execution.Encode())); diff != "" {
		t.Errorf("execution:\n%s", diff)
	}
	route, err := s.Route(t.Context(), x.Actions[0].CommandID)
	if want := (jobstore.Route{JobOrderID: "JO-7", Scope: "m42", Recipe: x.Recipe}); err != nil || route != want {
		t.Errorf("route %+v, %v", route, err)
	}
	within(t, "route", s.number("PTTL", s.keys.SfcCommand(x.Actions[0].CommandID)), 24*time.Hour+time.Minute)
	if _, err := s.Route(t.Context(), "never"); !errors.Is(err, jobstore.ErrNotFound) {
		t.Errorf("err = %v, want ErrNotFound", err)
	}
	if ttl := s.number("PTTL", s.keys.SfcMailbox("m42", pullType)); ttl != -1 {
		t.Errorf("a mailbox somebody waits in expires in %d ms", ttl)
	}
	s.finish("m42", "JO-7")
	snap = s.load(jobstore.Query{JobOrderID: "JO-7", Mailboxes: []string{pullType}, Scope: "m42", CorrelationID: x.CorrelationID})
	if snap.Owner != "JO-7" || len(snap.Mailboxes) != 0 || !snap.Execution.Completed {
		t.Errorf("%+v", snap)
	}
	within(t, "correlation id", s.number("PTTL", s.keys.SfcCorrelation(x.CorrelationID)), 24*time.Hour)
	if _, err := s.Route(t.Context(), x.Actions[0].CommandID); err != nil {
		t.Errorf("late answers are not known: %v", err)
	}
	s.commit(snap, jobstore.Change{Mailboxes: map[string]*recipe.Mailbox{pullType: {Events: []recipe.PullEvent{{ID: "e", Until: 1}}}}})
	within(t, "early events", s.number("PTTL", s.keys.SfcMailbox("m42", pullType)), 25*time.Hour)
}

// Documents that cannot be read are named, and nothing is written over them.
func TestUnreadableD1(t *testing.T) {
	s := newShop(t)
	q := full("m42", "JO-7")
	for key, docs := range map[string][]string{
		s.keys.JobOrder("JO-7"):              {"", "[]", "{", `{"State":[]}`, `{"JobOrder":{},"State":[{"StateText":{"Text":"Paused"}}]}`},
		s.keys.SfcExecution("JO-7"):          {"", "[]", "{"},
		s.keys.JobResponse("JO-7-response"):  {"", "[]", "{"},
		s.keys.Dedupe("m42", q.Source, q.ID): {"", "[]", "{", "2"},
		s.keys.SfcMailbox("m42", pullType):   {"", "5", "{"},
	} {
		for _, doc := range docs {
			s.do("SET", key, doc)
			_, err := s.Load(t.Context(), q)
			var unreadable *jobstore.DocumentError
			if doc == "" && err == nil && key == s.keys.WorkMaster("WM-1") {
				continue // an empty body is an object with all defaults
			}
			if !errors.As(err, &unreadable) || unreadable.Key != key {
				t.Errorf("%s = %q: %v", key, doc, err)
			}
			if jobstore.Away(err) || isConflict(err) {
				t.Errorf("%s = %q: %v", key, doc, err)
			}
		}
		s.do("DEL", key)
	}
	s.do("SADD", s.keys.JobOrder("JO-7"), "x")
	if _, err := s.Load(t.Context(), q); err == nil || jobstore.Away(err) {
		t.Errorf("err = %v", err)
	}
}

func TestAway(t *testing.T) {
	s := newShop(t)
	snap := s.load(full("m42", "JO-7"))
	if err := s.srv.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, loaded := s.Load(t.Context(), full("m42", "JO-7"))
	committed := s.Commit(t.Context(), snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-7"}, State: ready}})
	_, scopes := s.Scopes(t.Context())
	_, routed := s.Route(t.Context(), "x")
	for what, err := range map[string]error{"Load": loaded, "Commit": committed, "Scopes": scopes, "Route": routed} {
		if !jobstore.Away(err) {
			t.Errorf("%s: %v is not Away", what, err)
		}
	}
	if jobstore.Away(nil) || jobstore.Away(jobstore.ErrConflict) || jobstore.Away(jobstore.ErrNotFound) {
		t.Error("what was decided is not Away")
	}
}

func TestOptions(t *testing.T) {
	srv := testenv.Redis(t)
	for name, o := range map[string]jobstore.Options{
		"EndStateRetention": {EndStateRetention: time.Millisecond}, "ReplyRetention": {ReplyRetention: -1},
		"WorkerTTL": {WorkerTTL: time.Millisecond}, "ChangeCap": {ChangeCap: 5}, "MaxDeliveries": {MaxDeliveries: -1},
	} {
		o.URL, o.Instance = srv.URL, "x"
		if s, err := jobstore.Open(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		} else if !slices.Contains([]string{name}, fieldOf(err)) {
			t.Errorf("%s: %v does not name it", name, err)
		}
	}
}

// fieldOf is the second word of an error of Options.
func fieldOf(err error) string {
	var pkg, field string
	_, _ = fmt.Sscan(err.Error(), &pkg, &field)
	return field
}

func BenchmarkLoadAndCommit(b *testing.B) {
	s := newShop(b)
	s.move("m42", "JO-7", 0, ready)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		snap := s.load(jobstore.Query{JobOrderID: "JO-7", Scope: "m42", Source: "src", ID: fmt.Sprint(i)})
		s.commit(snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Update, State: ready}, Seen: &jobstore.Seen{}})
	}
}

// A route that is there is kept; one that has expired is made anew, once, and lives as long as one of a new command.
func TestKeepRoute(t *testing.T) {
	s := newShop(t)
	x := s.run("m42", "JO-7")
	id := x.Actions[0].CommandID
	c := recipe.Command{ID: id, Deadline: s.Now().Add(time.Minute), Again: true}
	fresh := jobstore.Route{JobOrderID: "JO-7", Scope: "m42", Recipe: x.Recipe, Token: "fresh"}
	if route, err := s.KeepRoute(t.Context(), c, fresh); err != nil || route.Token != "" {
		t.Errorf("%+v, %v: the route that is there has no token", route, err)
	}
	s.do("DEL", s.keys.SfcCommand(id))
	if route, err := s.KeepRoute(t.Context(), c, fresh); err != nil || route != fresh {
		t.Errorf("%+v, %v", route, err)
	}
	within(t, "route", s.number("PTTL", s.keys.SfcCommand(id)), 24*time.Hour+time.Minute)
	fresh.Token = "later"
	if route, err := s.KeepRoute(t.Context(), c, fresh); err != nil || string(route.Token) != "fresh" {
		t.Errorf("%q, %v", string(route.Token), err)
	}
	s.do("SET", s.keys.SfcCommand(id), "{")
	var unreadable *jobstore.DocumentError
	if _, err := s.KeepRoute(t.Context(), c, fresh); !errors.As(err, &unreadable) {
		t.Errorf("err = %v, want a DocumentError", err)
	}
}
