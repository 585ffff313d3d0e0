package jobcontrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// An order for a scope that was never configured is refused with a text of its own, whatever it requires, and nothing is stored. One
// configuration event of any kind configures the scope, for good.
func TestScopeWithoutConfiguration(t *testing.T) {
	for kind, body := range map[isa95.ConfigKind]string{
		isa95.ConfigEquipment: `{"ID":"X-1"}`, isa95.ConfigMaterialClass: `{"MaterialClassID":"X-1"}`, isa95.ConfigMaterialDefinition: `{"MaterialDefinitionID":"X-1"}`,
		isa95.ConfigPersonnel: `{"ID":"X-1"}`, isa95.ConfigPhysicalAsset: `{"ID":"X-1"}`, isa95.ConfigWorkMaster: `{"ID":"X-1"}`,
		isa95.ConfigJobAcceptance: `{"max_downloadable_job_orders":5}`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			p := newPlant(t, jobcontrol.Options{})
			p.configuredOnly()
			p.configure(t, kind, "DELETE", body, isa95.NoError) // of nothing: that configures nothing
			before := p.snapshot(t)
			for _, order := range []string{order("JO-1"), `{"JobOrderID":"JO-1","WorkMasterID":[{"ID":"WM-1"}]}`} {
				for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
					reply := p.do(t, m, order, isa95.UnableToAccept)
					if want := "scope m42 has no configuration: deliver "; !strings.Contains(reply.ErrorMessage, want) {
						t.Errorf("%s: %q, want %q", m, reply.ErrorMessage, want)
					}
				}
			}
			if diff := cmp.Diff(before, p.snapshot(t)); diff != "" {
				t.Errorf("a refusal wrote:\n%s", diff)
			}
			p.configure(t, kind, "PUT", body, isa95.NoError)
			p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
			reply := p.do(t, isa95.Store, `{"JobOrderID":"JO-2","WorkMasterID":[{"ID":"WM-1"}]}`, isa95.UnableToAccept)
			if want := `workmaster "WM-1" is not known at this station`; !strings.Contains(reply.ErrorMessage, want) {
				t.Errorf("%q, want %q", reply.ErrorMessage, want)
			}
			p.configure(t, kind, "DELETE", body, isa95.NoError)
			p.do(t, isa95.Store, order("JO-3"), isa95.NoError)
		})
	}
}

// What version c91e236 configured counts, though it kept no set of scopes, and the first order notes it. What it stored goes on, wherever it was stored.
func TestScopesConfiguredByOlderBuild(t *testing.T) {
	keyOf := map[string][]string{"jobacceptance": {"SET", "", "5"}}
	for _, kind := range []string{"equipment", "materialclass", "materialdefinition", "personnel", "physicalasset", "workmaster"} {
		keyOf[kind] = []string{"SADD", "", "X-1"}
	}
	for kind, do := range keyOf {
		t.Run(kind, func(t *testing.T) {
			p := newPlant(t, jobcontrol.Options{})
			p.do(t, isa95.Store, order("JO-0"), isa95.NoError) // as the older build, which took orders for any scope
			p.configuredOnly()
			p.do(t, isa95.Store, order("JO-1"), isa95.UnableToAccept)
			p.do(t, isa95.Update, order("JO-0"), isa95.NoError)
			p.do(t, isa95.Start, "JO-0", isa95.NoError)
			p.do(t, isa95.Abort, "JO-0", isa95.NoError)
			p.do(t, isa95.Clear, "JO-0", isa95.NoError)
			do[1] = p.keys.ResourceList(kind, scope)
			if kind == "jobacceptance" {
				do[1] = p.keys.JobAcceptance(scope)
			}
			p.redis(t, do...)
			p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
			p.redis(t, "DEL", do[1])
			p.do(t, isa95.Store, order("JO-2"), isa95.NoError)
		})
	}
}

// An earlier version took orders for scopes whose names are topic levels of Takt's own by now. Every method ends them, and takt check names the reason; a scope that the
// store does not have is not begun under such a name.
func TestReservedScopesOfOlderBuild(t *testing.T) {
	for _, reserved := range []isa95.Scope{"replies", "private"} {
		t.Run(string(reserved), func(t *testing.T) {
			p := newPlant(t, jobcontrol.Options{})
			at := func(m isa95.Method, body string, want isa95.ReturnStatus) cloudevent.Event {
				t.Helper()
				e := call(m, body)
				e.Subject, e.Delivery.Topic = string(reserved), "app/jobs/"+string(reserved)+"/commands"
				e.Delivery.ResponseTopic = "app/jobs/" + string(reserved) + "/replies/mes-1"
				reply := p.answer(t, e)
				wantStatus(t, reply, want)
				return reply
			}
			for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
				reply := at(m, order("JO-1"), isa95.InvalidRequest)
				if reply.ErrorKind != cloudevent.KindPropertyInvalid || !strings.Contains(reply.ErrorMessage, string(reserved)) || !strings.Contains(reply.ErrorMessage, "another name") {
					t.Errorf("%s: %s %q", m, reply.ErrorKind, reply.ErrorMessage)
				}
			}
			e := config(isa95.ConfigEquipment, "PUT", `{"ID":"E"}`)
			e.Subject, e.Delivery.Topic = string(reserved), "app/jobs/commands"
			wantStatus(t, p.answer(t, e), isa95.InvalidRequest)
			if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
				t.Errorf("a refusal wrote:\n%s", diff)
			}

			older := func(id string, s isa95.State) {
				t.Helper()
				snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: reserved})
				if err != nil {
					t.Fatal(err)
				}
				change := jobstore.Change{Transition: &jobstore.Transition{Method: "test", Order: &isa95.JobOrder{JobOrderID: id}, State: s}, Now: p.store.Now()}
				if err := p.store.Commit(t.Context(), snap, change); err != nil {
					t.Fatal(err)
				}
			}
			older("JO-1", isa95.State{Top: isa95.NotAllowedToStart, Sub: "Ready"})
			older("JO-2", isa95.State{Top: isa95.Running})
			older("JO-3", isa95.State{Top: isa95.Running})
			problems := func() (found []string) {
				violations, err := p.store.Check(t.Context(), jobstore.CheckOptions{Grace: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range violations {
					found = append(found, v.String())
				}
				return found
			}
			if found := problems(); len(found) != 1 || !strings.Contains(found[0], "3 job orders of scope "+string(reserved)) || !strings.Contains(found[0], "reserved") || !strings.Contains(found[0], "another name") {
				t.Errorf("takt check: %q", found)
			}
			at(isa95.Update, `{"JobOrderID":"JO-1","Priority":4}`, isa95.NoError)
			at(isa95.Start, "JO-1", isa95.NoError)
			at(isa95.RevokeStart, "JO-1", isa95.NoError)
			at(isa95.Cancel, "JO-1", isa95.NoError)
			at(isa95.Pause, "JO-2", isa95.NoError)
			at(isa95.Resume, "JO-2", isa95.NoError)
			at(isa95.Stop, "JO-2", isa95.NoError)
			at(isa95.RequestJobResponseByJobOrderID, "JO-2", isa95.NoError)
			at(isa95.Clear, "JO-2", isa95.NoError)
			at(isa95.Abort, "JO-3", isa95.NoError)
			at(isa95.Clear, "JO-3", isa95.NoError)
			e = config(isa95.ConfigEquipment, "DELETE", `{"ID":"E"}`)
			e.Subject, e.Delivery.Topic = string(reserved), "app/jobs/commands"
			wantStatus(t, p.answer(t, e), isa95.NoError)
			if found := problems(); len(found) != 0 {
				t.Errorf("takt check of an emptied scope: %q", found)
			}
		})
	}
}
