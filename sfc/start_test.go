package sfc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

func change(m isa95.Method, state isa95.State, now time.Time) jobstore.Change {
	return jobstore.Change{Transition: &jobstore.Transition{Method: m, State: state}, Now: now}
}

// pushes is a recipe of so many commands, one after the other.
func pushes(n int) []byte {
	var steps, transitions, actions string
	sep := ""
	for i := range n {
		steps += fmt.Sprintf(`%s{"Name": "S%d", "Initial": %v}`, sep, i, i == 0)
		actions += fmt.Sprintf(`%s{"Name": "a%d", "Step": "S%d", "Qualifier": "N", "Interaction": "push_command", "TypeId": "go.v1", "TimeoutSeconds": 600}`, sep, i, i)
		if i > 0 {
			transitions += fmt.Sprintf(`{"Source": "S%d", "Target": "S%d", "Condition": "always", "Priority": 0}`, i-1, i)
			if i < n-1 {
				transitions += ","
			}
		}
		sep = ","
	}
	return []byte(`{"Steps": [` + steps + `], "Transitions": [` + transitions + `], "Actions": [` + actions + `]}`)
}

// A problem at the start is told: the order is aborted with a response that says why. What is not ours is left
// alone.
func TestStartProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, workMaster string
		prepare          func(*plant)
		state            string   // afterwards
		says             []string // in the response
		counted          Counted
	}{
		{name: "no work master named", state: "AllowedToStart_Ready", counted: Counted{OpStart, Left}},
		{
			name: "work master without a recipe of ours", workMaster: "WM", state: "AllowedToStart_Ready", counted: Counted{OpStart, Left},
			prepare: func(p *plant) { p.foreign("WM") },
		},
		{
			name: "unknown work master", workMaster: "WM-9", state: "Aborted", counted: Counted{OpAbort, OK},
			says: []string{"WM-9", "not known"},
		},
		{
			name: "broken recipe", workMaster: "WM", state: "Aborted", counted: Counted{OpAbort, OK},
			prepare: func(p *plant) {
				p.workMaster("WM", []byte(`{"Steps": [{"Name": "A", "Initial": false}], "Transitions": [], "Actions": []}`))
			},
			says: []string{"WM", "R0"},
		},
		{
			name: "no recipe in it", workMaster: "WM", state: "Aborted", counted: Counted{OpAbort, OK},
			prepare: func(p *plant) { p.workMaster("WM", nil) },
			says:    []string{"WM"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			if tc.prepare != nil {
				tc.prepare(p)
			}
			a := p.start("a", setup{})
			p.order("JO", tc.workMaster)
			eventually(t, "the entry is handled", func() bool { return a.counts.of(tc.counted.Operation, tc.counted.Result) == 1 })
			p.empty(keys.New(p.prefix).SfcWork())
			snap := p.load("JO")
			if got := snap.Job.State.String(); got != tc.state {
				t.Errorf("the order is %s, want %s", got, tc.state)
			}
			if tc.says != nil {
				text := responseError(t, snap.Response)
				t.Log(text)
				if !contains(text, tc.says...) {
					t.Errorf("the response says %q, want %q in it", text, tc.says)
				}
				if got := fmt.Sprint(p.history("JO")); got != "[StoreAndStart Abort ResultUpdate]" {
					t.Errorf("history %s", got)
				}
			}
			if snap.Execution != nil {
				t.Errorf("there is an execution: %+v", snap.Execution)
			}
			if len(p.cell.done("JO")) != 0 {
				t.Error("the equipment was commanded")
			}
		})
	}
}

// Store and then Start runs as StoreAndStart does; a RevokeStart in between leaves nothing running.
func TestStoreThenStart(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.workMaster("WM", pushes(2))
	order := &isa95.JobOrder{JobOrderID: "JO", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM"}}}
	p.call("JO", isa95.Store, order)
	p.call("JO", isa95.Start, nil)
	p.call("JO", isa95.RevokeStart, nil)
	a := p.start("a", setup{})
	p.empty(keys.New(p.prefix).SfcWork())
	if got := p.state("JO"); got != "NotAllowedToStart_Ready" || a.counts.of(OpStart, AlreadyHandled) != 1 {
		t.Errorf("after RevokeStart it is %s", got)
	}
	p.call("JO", isa95.Start, nil)
	p.await("JO", "End", "ResultUpdate")
	p.settled()
}

// An id that was cleared is used again: the execution document of the first use is no obstacle, and its commands have
// other ids.
func TestIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.workMaster("WM", pushes(1))
	p.start("a", setup{})
	ids := map[string]bool{}
	for round := range 3 {
		p.order("JO", "WM")
		eventually(t, "it ends", func() bool { return p.state("JO") == "Ended_Completed" })
		p.call("JO", isa95.Clear, nil)
		ids[p.load("JO").Execution.Action("a0").CommandID] = true
		if len(ids) != round+1 {
			t.Fatalf("round %d has the command id of another", round)
		}
	}
	if n := p.cell.published("JO", "a0"); n != 3 {
		t.Errorf("commanded %d times", n)
	}
}

// The recipe is frozen at the start: replacing or deleting the work master changes nothing for a running order.
func TestWorkMasterChangesWhileRunning(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"replaced", "deleted"} {
		t.Run(how, func(t *testing.T) {
			s := newSteps(t)
			drill := s.running("JO")
			if how == "replaced" {
				s.workMaster("WM", pushes(5))
			} else {
				s.configure(jobstore.Configuration{Scope: scope, ID: "WM", Delete: true})
			}
			ctx := t.Context()
			s.must(s.b.Answer(ctx, answerTo(drill, `{"depth":1}`))) // b has never seen the recipe
			s.must(s.b.Event(ctx, event07("probe.v1", "cell-07", "", `{}`)))
			s.must(s.b.Answer(ctx, answerTo(s.command("JO", "release"), `{}`)))
			if got := s.state("JO"); got != "Ended_Completed" {
				t.Errorf("the order is %s", got)
			}
			s.consistent()
		})
	}
}

// A recipe without actions is over when it starts; one whose first condition fails, too. Run and End, or Abort, are
// both told.
func TestOverAtTheStart(t *testing.T) {
	t.Parallel()
	steps := func(condition string) []byte {
		return fmt.Appendf(nil, `{
		  "Steps": [{"Name": "A", "Initial": true}, {"Name": "B", "Initial": false}],
		  "Transitions": [{"Source": "A", "Target": "B", "Condition": %q, "Priority": 0}], "Actions": []}`, condition)
	}
	for condition, want := range map[string]string{
		"always":         "[AllowedToStart_Ready Running Ended_Completed+response]",
		"8 / step.t > 1": "[AllowedToStart_Ready Running Aborted+response]", // by 0
	} {
		t.Run(condition, func(t *testing.T) {
			p := newPlant(t)
			p.workMaster("WM", steps(condition))
			p.order("JO", "WM")
			p.start("a", setup{})
			eventually(t, "it ends", func() bool { return p.load("JO").Job.State.Clearable() })
			p.settled()
			if got := fmt.Sprint(p.statuses("JO")); got != want {
				t.Errorf("status events %s, want %s", got, want)
			}
			if condition != "always" && !contains(responseError(t, p.load("JO").Response), condition) {
				t.Errorf("the response says %q", responseError(t, p.load("JO").Response))
			}
		})
	}
}

// An entry whose handling fails stays pending and is done when that is mended; one that always fails ends its order and
// becomes a dead letter.
func TestHandlerFailureKeepsTheEntry(t *testing.T) {
	t.Parallel()
	for _, mended := range []bool{true, false} {
		t.Run(fmt.Sprintf("mended=%v", mended), func(t *testing.T) {
			p := newPlant(t)
			bracketCell(p.cell)
			p.workMaster("WM", []byte(bracket))
			k := keys.New(p.prefix)
			wrong := k.SfcMailbox(string(scope), "part.v1") // a list where a document should be: another program's key
			p.redis.Must(t, "RPUSH", wrong, "x")
			attempts := 1000
			if !mended {
				attempts = 2
			}
			p.start("a", setup{store: func(o *jobstore.Options) { o.MaxDeliveries = attempts }})
			p.order("JO", "WM")
			if mended {
				eventually(t, "the entry waits", func() bool { return p.redis.Number(t, "XLEN", k.SfcWork()) == 1 })
				p.redis.Must(t, "DEL", wrong)
				p.cell.emit(event07("part.v1", "cell-07", "", `{"n":1}`))
				p.finished("JO")
				return
			}
			p.await("JO", "Abort", "ResultUpdate")
			if text := responseError(t, p.load("JO").Response); !contains(text, "WRONGTYPE") {
				t.Errorf("the response says %q", text)
			}
			p.empty(k.SfcWork())
			if n := p.redis.Number(t, "XLEN", k.DeadLetter(k.SfcWork())); n != 1 {
				t.Errorf("%d dead letters", n)
			}
			p.redis.Must(t, "DEL", wrong)
		})
	}
}

// A recipe text that is lost, or that this version cannot compile, ends the order instead of leaving it for ever.
func TestRecipeTextLost(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	s.redis.Must(t, "DEL", keys.New(s.prefix).SfcRecipe(s.load("JO").Execution.Recipe))
	s.must(s.b.Answer(t.Context(), answerTo(drill, `{}`)))
	if snap := s.load("JO"); snap.Job.State.Top != isa95.Aborted || !contains(responseError(t, snap.Response), "no longer stored") {
		t.Errorf("the order is %s", snap.Job.State)
	}
	for _, typ := range []string{"part.v1", "probe.v1"} {
		snap, err := s.mes.Load(t.Context(), jobstore.Query{Scope: scope, Mailboxes: []string{typ}})
		s.must(err)
		if box := snap.Mailboxes[typ]; box != nil && len(box.Waiting) > 0 {
			t.Errorf("mailbox %s still has %+v", typ, box.Waiting)
		}
	}
	s.consistent()
}

// Two stations have recipes under one id: each order runs that of its station, whichever was delivered last, and an
// order that was started goes on as it began.
func TestStationsRunTheirOwnRecipes(t *testing.T) {
	t.Parallel()
	p := newSilent(t)
	p.workMaster("WM", pushes(2))
	p.order("JO-1", "WM")
	a := p.start("a", setup{idle: true})
	a.takeWork()
	p.workMasterAt("cell-33", "WM", pushes(3))
	p.order("JO-2", "WM")
	p.judged("cell-33", jobstore.JudgedByNone, "JO-3")
	a.takeWork()
	stored := func(text []byte) string {
		var compact bytes.Buffer
		p.must(json.Compact(&compact, text))
		return jobstore.Hash(compact.Bytes())
	}
	own, other := stored(pushes(2)), stored(pushes(3))
	for id, want := range map[string]string{"JO-1": own, "JO-2": own, "JO-3": other} {
		if x := p.load(id).Execution; x == nil || x.Recipe != want {
			t.Errorf("%s runs %v, want recipe %s", id, x, want)
		}
	}
}
