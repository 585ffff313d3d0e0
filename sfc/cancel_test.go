package sfc

import (
	"slices"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

const drilling = `{
	"Steps": [{"Name": "Drill", "Initial": true}], "Transitions": [],
	"Actions": [{"Name": "drill", "Step": "Drill", "Qualifier": "N", "Interaction": "push_command", "TypeId": "drill.v1", "TimeoutSeconds": 600,
		"Cancel": {"TypeId": "retract.v1", "TimeoutSeconds": 600}}]
}`

// sentAs are the commands of a type that reached the cell, repetitions too.
func (c *cell) sentAs(typ string) []cloudevent.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.sent), func(e cloudevent.Event) bool { return e.Type != typ })
}

// Abort and Stop reach the machine: the cancel command of an unanswered action leaves with their commit, under one id until it is answered, whatever instance lives. The answer
// stands in the execution, also when the order was cleared before, and changes nothing else.
func TestCancelReachesTheMachine(t *testing.T) {
	for _, m := range []isa95.Method{isa95.Abort, isa95.Stop} {
		t.Run(string(m), func(t *testing.T) {
			p := newSilent(t)
			p.workMaster("WM", []byte(drilling))
			first := p.start("one", setup{})
			p.order("JO-1", "WM")
			eventually(t, "the command", func() bool { return len(p.cell.sentAs("drill.v1")) == 1 })
			drill := p.cell.sentAs("drill.v1")[0]
			p.empty(keys.New(p.prefix).SfcOutbox())
			first.stop() // what the commit leaves is for another instance
			p.call("JO-1", m, nil)
			response := p.load("JO-1").Response
			p.start("two", setup{})
			eventually(t, "the cancel command", func() bool { return len(p.cell.sentAs("retract.v1")) == 1 })
			cancel := p.cell.sentAs("retract.v1")[0]
			if cancel.ID != recipe.CancelID(drill.ID) || cancel.CausationID != drill.ID || string(cancel.Data) != `{"JobOrderID":"JO-1","Action":"drill","Attempt":1}` {
				t.Errorf("%s of %s: %s", cancel.ID, cancel.CausationID, cancel.Data)
			}
			p.call("JO-1", isa95.Clear, nil)
			p.cell.mu.Lock()
			p.cell.answers[cancel.ID] = reaction{result: `{"at":"home"}`}
			p.cell.mu.Unlock()
			p.repeatNow(cancel.ID)
			p.settled()
			snap := p.load("JO-1")
			if c := snap.Execution.Cancels; len(c) != 1 || c[0].State != recipe.ActionCompleted || string(c[0].Result) != `{"at":"home"}` {
				t.Errorf("%+v", c)
			}
			if ttl, err := p.redis.Must(t, "PTTL", keys.New(p.prefix).SfcExecution("JO-1")).AsInt64(); err != nil || ttl <= 0 {
				t.Errorf("the execution of a cleared order stays: %d, %v", ttl, err)
			}
			if now := snap.Response; now == nil || now.EndTime != response.EndTime {
				t.Errorf("%+v, was %+v", now, response)
			}
			var past []string
			entries, err := p.mes.History("JO-1").Next(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				for _, f := range e.Facts {
					past = append(past, f.Text(nil))
				}
				if len(e.Facts) > 0 && e.Facts[0].Kind == recipe.FactCanceled && e.CausationID == "" {
					t.Error("the history does not name the answer to the cancel command")
				}
			}
			if want := []string{"step Drill", "action drill: command", "action drill: cancel command, for attempt 1", `action drill: answer {"at":"home"} to its cancel command`}; !slices.Equal(past, want) {
				t.Errorf("the history has %q, want %q", past, want)
			}
			for _, again := range p.cell.sentAs("retract.v1") {
				if again.ID != cancel.ID || string(again.Data) != string(cancel.Data) {
					t.Errorf("repeated as %s %s", again.ID, again.Data)
				}
			}
		})
	}
}

// A cancel command that is not answered in its time is given up, and the execution says so.
func TestCancelUnanswered(t *testing.T) {
	p := newSilent(t)
	p.workMaster("WM", []byte(drilling))
	one := p.start("one", setup{})
	p.order("JO-1", "WM")
	eventually(t, "the command", func() bool { return len(p.cell.sentAs("drill.v1")) == 1 })
	p.call("JO-1", isa95.Abort, nil)
	eventually(t, "the cancel command", func() bool { return len(p.cell.sentAs("retract.v1")) == 1 })
	id := p.cell.sentAs("retract.v1")[0].ID
	route, err := one.store.Route(t.Context(), id)
	p.must(err)
	late := *route.Cancel
	late.Deadline = one.store.InstallationTime() // as if its 600 s were over
	route.Cancel = &late
	one.routes.put(id, route)
	p.repeatNow(id)
	p.settled()
	if c := p.load("JO-1").Execution.Cancels; len(c) != 1 || c[0].State != recipe.ActionFailed || c[0].Error != "no answer within 600 s" {
		t.Errorf("%+v", c)
	}
}
