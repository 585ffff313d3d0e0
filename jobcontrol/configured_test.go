package jobcontrol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
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
