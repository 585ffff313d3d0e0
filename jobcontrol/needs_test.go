package jobcontrol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// tightening needs the parameter torque_min_nm for a condition, and turns for a command; unit it can do without.
var tightening = strings.NewReplacer(
	`"Condition":"always"`, `"Condition":"actions.clamp.result.torque >= job.parameters.torque_min_nm"`,
	`"Transitions":[`, `"Transitions":[{"Source":"load","Target":"load","Condition":"otherwise","Priority":2},`,
	`"TypeId":"com.example.cut.v1"`, `"TypeId":"com.example.cut.v1","Parameters":{"turns":{"$value":"job.parameters.turns"},"unit":{"$value":"job.parameters.unit ?? 'nm'"}}`,
).Replace(linear)

func orderWith(id string, parameters string) string {
	return fmt.Sprintf(`{"JobOrderID":%q,"WorkMasterID":[{"ID":"WM-1"}],"JobOrderParameters":[%s]}`, id, parameters)
}

// An order without what its recipe needs is refused before the machine works, and the answer names it.
func TestNeededParametersAreChecked(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("WM-1", tightening), isa95.NoError)
	before := p.snapshot(t)
	const torque, turns = `{"ID":"torque_min_nm","Value":85.50}`, `{"ID":"turns","Value":3}`
	for parameters, want := range map[string]string{
		"":                                      "parameters torque_min_nm, turns are missing",
		turns:                                   "parameter torque_min_nm is missing",
		`{"ID":"torque_min_nm"},` + turns:       "parameter torque_min_nm is missing",
		torque + `,{"ID":"turns","Value":null}`: "parameter turns is missing",
		torque + `,{"Subparameters":[` + turns + `]}`: "parameter turns is missing",
	} {
		for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
			if reply := p.do(t, m, orderWith("JO-1", parameters), isa95.UnableToAccept); !strings.Contains(reply.ErrorMessage, want) {
				t.Errorf("%s: %q, want %q", parameters, reply.ErrorMessage, want)
			}
		}
	}
	if diff := cmp.Diff(before, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
	p.do(t, isa95.Store, orderWith("JO-1", torque+","+turns), isa95.NoError)
	if reply := p.do(t, isa95.Update, orderWith("JO-1", torque), isa95.UnableToAccept); !strings.Contains(reply.ErrorMessage, "parameter turns is missing") {
		t.Errorf("Update: %q", reply.ErrorMessage)
	}
	p.do(t, isa95.Update, orderWith("JO-1", turns+","+torque), isa95.NoError)
	snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1"})
	if err != nil {
		t.Fatal(err)
	}
	program, err := recipe.Compile([]byte(tightening))
	if err != nil {
		t.Fatal(err)
	}
	if want := program.SHA(); len(snap.Job.JudgedBy) != 64 {
		t.Errorf("judged by %q, want %q", snap.Job.JudgedBy, want)
	}
	p.do(t, isa95.Start, "JO-1", isa95.NoError)
	if after, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1"}); err != nil || after.Job.JudgedBy != snap.Job.JudgedBy {
		t.Errorf("after Start judged by %q, %v", after.Job.JudgedBy, err)
	}

	p.do(t, isa95.Store, `{"JobOrderID":"JO-2"}`, isa95.NoError) // no work master
	p.configure(t, isa95.ConfigWorkMaster, "PUT", `{"ID":"WM-1","dataschema":"urn:other","data":{}}`, isa95.NoError)
	p.do(t, isa95.Store, orderWith("JO-3", ""), isa95.NoError) // a recipe of others
	if snap, err = p.store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-3"}); err != nil || snap.Job.JudgedBy != jobstore.JudgedByNone {
		t.Errorf("judged by %q, %v", snap.Job.JudgedBy, err)
	}
}

// An order is accepted by the recipe that it was judged by: a delivery in between makes the decision anew.
func TestAcceptanceDependsOnTheRecipe(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("WM-1", linear), isa95.NoError)
	ctx, o := t.Context(), &isa95.JobOrder{JobOrderID: "JO-1", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-1"}}}
	snap, err := p.store.Load(ctx, jobstore.Query{JobOrderID: "JO-1", Scope: scope, Acceptance: o, WorkMaster: "WM-1"})
	if err != nil {
		t.Fatal(err)
	}
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("WM-1", tightening), isa95.NoError)
	err = p.store.Commit(ctx, snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, Order: o, State: isa95.State{Top: isa95.NotAllowedToStart, Sub: "Ready"}},
		Acceptance: snap.Acceptance, WorkMaster: true, Now: p.store.Now(),
	})
	if !errors.Is(err, jobstore.ErrConflict) {
		t.Errorf("%v", err)
	}
	if got := p.state(t, "JO-1"); got != "" {
		t.Errorf("the order is %s", got)
	}
}
