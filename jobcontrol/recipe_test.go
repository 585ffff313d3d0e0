package jobcontrol_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

const pullType = "com.example.part.v1"

// running brings a job order into Running with a recipe in execution: one action is done, one command is at the equipment,
// one event is awaited.
func (p *plant) running(t testing.TB, id string) *recipe.Execution {
	t.Helper()
	ctx, now := t.Context(), p.store.Now()
	p.do(t, isa95.StoreAndStart, order(id), isa95.NoError)
	snap, err := p.store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope, Mailboxes: []string{pullType}})
	if err != nil {
		t.Fatal(err)
	}
	x := &recipe.Execution{
		JobID: id, Scope: scope, WorkMasterID: "WM-1", CurrentStep: "cut", CorrelationID: recipe.CorrelationID(id, "1-1"),
		ActiveSteps: []string{"cut"}, Recipe: strings.Repeat("a", 64), StartedAt: now.Add(-time.Minute).UnixMilli(),
		Actions: []recipe.ActionEntry{
			{Name: "clamp", State: recipe.ActionCompleted, TypeID: "com.example.clamp.v1", Attempt: 1, Iteration: 1, FirstAttempt: 1, Result: []byte(`{"torque":12.50}`)},
			{Name: "cut", State: recipe.ActionDispatched, TypeID: "com.example.cut.v1", Attempt: 1, Iteration: 1, FirstAttempt: 1,
				DispatchedAt: now.UnixMilli(), Deadline: now.Add(time.Minute).UnixMilli(), ResendAt: now.Add(20 * time.Second).UnixMilli()},
			{Name: "part", State: recipe.ActionWaiting, TypeID: pullType, Iteration: 1, Deadline: now.Add(time.Minute).UnixMilli()},
		},
	}
	x.Actions[1].CommandID = recipe.CommandID(x.CorrelationID, "cut", 1, 1)
	box := &recipe.Mailbox{}
	if had := snap.Mailboxes[pullType]; had != nil {
		box = had.Clone()
	}
	box.Waiting = append(box.Waiting, recipe.Waiting{JobID: id, Action: "part", CorrelationID: x.CorrelationID, Since: x.StartedAt})
	err = p.store.Commit(ctx, snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Run, State: isa95.State{Top: isa95.Running}},
		Execution:  x, Due: x.Due(), Recipe: []byte(linear), Mailboxes: map[string]*recipe.Mailbox{pullType: box},
		Commands: []recipe.Command{{ID: x.Actions[1].CommandID, JobID: id, Scope: scope, Action: "cut", Deadline: now.Add(time.Minute)}},
		Now:      now,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.redis(t, "DEL", p.keys.SfcWork(), p.keys.SfcOutbox(), p.keys.EventReceiver(), p.keys.Changes(scope), p.keys.ChangesAll())
	return x
}

func (p *plant) load(t testing.TB, id string) *jobstore.Snapshot {
	t.Helper()
	snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope, Response: true, Mailboxes: []string{pullType}})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func (p *plant) changeTypes(t testing.TB) []string {
	t.Helper()
	var types []string
	for _, fields := range p.entries(t, p.keys.ChangesAll()) {
		types = append(types, fields["change_type"])
	}
	return types
}

// Abort and Stop end the recipe in the commit that ends the order: nothing runs on, nothing is left that would bring it
// back, and the response holds what there is.
func TestEndingReachesTheRecipeES3(t *testing.T) {
	for _, test := range []struct {
		method isa95.Method
		state  string
		failed bool
		data   []isa95.Parameter
	}{
		{isa95.Abort, "Aborted", true, []isa95.Parameter{{ID: "clamp.torque", Value: []byte("12.50")}, {ID: "error", Value: []byte(`"aborted by urn:example:mes"`)}}},
		{isa95.Stop, "Ended_Completed", false, []isa95.Parameter{{ID: "clamp.torque", Value: []byte("12.50")}}},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(string(test.method), func(t *testing.T) {
				p := newPlant(t, jobcontrol.Options{})
				began := p.running(t, "JO-7")
				p.running(t, "JO-8")
				if paused {
					p.do(t, isa95.Pause, "JO-7", isa95.NoError)
					p.redis(t, "DEL", p.keys.EventReceiver(), p.keys.ChangesAll())
				}
				p.do(t, test.method, "JO-7", isa95.NoError)
				snap := p.load(t, "JO-7")
				x := snap.Execution
				if x.Failed != test.failed || x.Completed == test.failed || !x.Due().IsZero() || x.Paused {
					t.Errorf("execution %s", x.Encode())
				}
				if snap.Job.State.String() != test.state {
					t.Errorf("state %s", snap.Job.State)
				}
				r := snap.Response
				if r == nil {
					t.Fatal("no response")
				}
				if diff := cmp.Diff(test.data, r.JobResponseData); diff != "" {
					t.Errorf("results:\n%s", diff)
				}
				if want := time.UnixMilli(began.StartedAt).UTC().Format("2006-01-02T15:04:05.000Z"); r.StartTime != want || r.EndTime == "" {
					t.Errorf("times %s %s, want to start at %s", r.StartTime, r.EndTime, want)
				}
				if score, err := p.redis(t, "ZSCORE", p.keys.JobResponseList(scope), "JO-7-response").AsFloat64(); err != nil || score != float64(began.StartedAt) {
					t.Errorf("the response is listed at %v, %v, want %d", score, err, began.StartedAt)
				}
				if got, want := p.changeTypes(t), []string{string(test.method), "ResultUpdate"}; !slices.Equal(got, want) {
					t.Errorf("changes %v, want %v", got, want)
				}
				for what, left := range map[string]bool{
					"active":                    yes(t, p, "SISMEMBER", p.keys.SfcActiveJobs(), "JO-7"),
					"timer":                     !isNil(p.redis(t, "ZSCORE", p.keys.SfcTimers(), "JO-7").Error()),
					"correlation, for ever":     p.env.Number(t, "PTTL", p.keys.SfcCorrelation(began.CorrelationID)) == -1,
					"other job's timer is gone": isNil(p.redis(t, "ZSCORE", p.keys.SfcTimers(), "JO-8").Error()),
				} {
					if left {
						t.Errorf("left over: %s", what)
					}
				}
				if work := p.entries(t, p.keys.SfcWork()); len(work) != 1 || work[0]["action"] != jobstore.WorkResume || work[0]["job_id"] != "JO-7" {
					t.Errorf("work %v: nobody takes the job that is over out of the mailbox", work)
				}
				events := p.events(t)
				var told isa95.StatusEvent
				if len(events) != 1 {
					t.Fatalf("events %v", events)
				}
				if err := isa95.Unmarshal(events[0].Data, &told); err != nil || cmp.Diff(r, told.JobResponse) != "" {
					t.Errorf("told %s", events[0].Data)
				}
				p.wantSound(t)

				p.do(t, isa95.Clear, "JO-7", isa95.NoError)
				for _, key := range []string{p.keys.JobOrder("JO-7"), p.keys.JobResponse("JO-7-response"), p.keys.SfcExecution("JO-7")} {
					if ttl, err := p.redis(t, "PTTL", key).AsInt64(); err != nil || ttl <= 0 {
						t.Errorf("D5: %s expires in %d ms, %v", key, ttl, err)
					}
				}
				p.wantSound(t)
			})
		}
	}
}

// Pause makes the timers stand still, Resume sets them again and wakes the engine, each in the commit of the order.
func TestPauseReachesTheRecipeES3(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.running(t, "JO-7")
	p.do(t, isa95.Pause, "JO-7", isa95.NoError)
	snap := p.load(t, "JO-7")
	if !snap.Execution.Paused || snap.Job.State.String() != "Interrupted_Suspended" {
		t.Errorf("%s %s", snap.Job.State, snap.Execution.Encode())
	}
	if !isNil(p.redis(t, "ZSCORE", p.keys.SfcTimers(), "JO-7").Error()) {
		t.Error("a paused recipe has a timer")
	}
	if !yes(t, p, "SISMEMBER", p.keys.SfcActiveJobs(), "JO-7") || len(p.entries(t, p.keys.SfcWork())) != 0 || len(snap.Mailboxes[pullType].Waiting) != 1 {
		t.Error("a paused recipe is not forgotten, nor woken")
	}
	p.wantSound(t)

	p.do(t, isa95.Resume, "JO-7", isa95.NoError)
	snap = p.load(t, "JO-7")
	if snap.Execution.Paused || snap.Job.State.String() != "Running" {
		t.Errorf("%s %s", snap.Job.State, snap.Execution.Encode())
	}
	if score, err := p.redis(t, "ZSCORE", p.keys.SfcTimers(), "JO-7").AsFloat64(); err != nil || int64(score) != snap.Execution.Due().UnixMilli() {
		t.Errorf("timer at %v, %v, want %v", score, err, snap.Execution.Due())
	}
	work := p.entries(t, p.keys.SfcWork())
	if len(work) != 1 || work[0]["action"] != jobstore.WorkResume || work[0]["job_id"] != "JO-7" {
		t.Errorf("work %v", work)
	}
}

// Without a recipe of ours another program runs the order: Abort and Stop write a response all the same, Resume wakes
// nobody.
func TestWithoutRecipe(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, m := range []isa95.Method{isa95.Abort, isa95.Stop} {
		id := "JO-" + string(m)
		p.put(t, id, isa95.State{Top: isa95.Interrupted, Sub: isa95.Held})
		p.do(t, isa95.Resume, id, isa95.NoError)
		p.do(t, m, id, isa95.NoError)
		r := p.load(t, id).Response
		if r == nil || r.JobResponseID != id+"-response" || r.JobOrderID != id || r.EndTime == "" || r.StartTime != "" || r.JobResponseData != nil {
			t.Errorf("%s: response %+v", m, r)
		}
	}
	if work := p.entries(t, p.keys.SfcWork()); len(work) != 0 {
		t.Errorf("work %v", work)
	}
	p.wantSound(t)
}

// An engine that ends the recipe at the same time and the MES that aborts it exclude each other, whoever comes first.
func TestAbortAgainstEndES26(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	x := p.running(t, "JO-7")
	engine := p.load(t, "JO-7") // the engine has read, and decides
	p.do(t, isa95.Abort, "JO-7", isa95.NoError)
	done := x.Stop(p.store.Now())
	end, _ := isa95.Next(engine.Job.State, isa95.End)
	change := jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.End, State: end}, Execution: done,
		Response: jobstore.NewResponse(engine.Job, done, end, p.store.Now()), Now: p.store.Now(),
	}
	if err := p.store.Commit(t.Context(), engine, change); !isConflict(err) {
		t.Fatalf("err = %v, want a conflict", err)
	}
	if got := p.state(t, "JO-7"); got != "Aborted" {
		t.Errorf("state %s", got)
	}
	// and the other way round
	x = p.running(t, "JO-8")
	engine = p.load(t, "JO-8")
	done = x.Stop(p.store.Now())
	change.Execution, change.Response = done, jobstore.NewResponse(engine.Job, done, end, p.store.Now())
	if err := p.store.Commit(t.Context(), engine, change); err != nil {
		t.Fatal(err)
	}
	p.do(t, isa95.Abort, "JO-8", isa95.InvalidStatus)
	if got := p.state(t, "JO-8"); got != "Ended_Completed" {
		t.Errorf("state %s", got)
	}
}

// Qualifiers that are not carried out are refused at delivery, by rule; a recipe that asks to run them as N is taken, and
// the reply says so.
func TestQualifiersThatAreNotCarriedOut(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, q := range []string{"L", "D", "S", "R", "P0"} {
		text := strings.Replace(linear, `"Qualifier":"N"`, `"Qualifier":"`+q+`"`, 1)
		reply := p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("WM-"+q, text), isa95.InvalidRequest)
		if reply.ErrorKind != cloudevent.KindPayloadInvalid || !strings.Contains(reply.ErrorMessage, "R037") || !strings.Contains(reply.ErrorMessage, "clamp") {
			t.Errorf("%s: %s %q", q, reply.ErrorKind, reply.ErrorMessage)
		}
		e := config(isa95.ConfigWorkMaster, "PUT", workMaster("WM-"+q, strings.Replace(text, `{"Steps"`, `{"Semantics":"compat","Steps"`, 1)))
		reply = p.answer(t, e)
		if status(t, reply) != isa95.NoError || reply.ErrorKind != "" || !strings.Contains(reply.ErrorMessage, "R037") || !strings.Contains(reply.ErrorMessage, q+", which runs as N") {
			t.Errorf("%s with compat: %s %s %q", q, reply.Data, reply.ErrorKind, reply.ErrorMessage)
		}
	}
	for _, q := range []string{"N", "P", "P1"} {
		reply := p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("WM-"+q, strings.ReplaceAll(linear, `"Qualifier":"N"`, `"Qualifier":"`+q+`"`)), isa95.NoError)
		if reply.ErrorMessage != "" {
			t.Errorf("%s: %q", q, reply.ErrorMessage)
		}
	}
}
