package jobstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// configure loads and configures, again on conflict.
func (s *shop) configure(c jobstore.Configuration) error {
	for {
		snap, err := s.Load(s.t.Context(), jobstore.Query{Holders: isa95.WorkMasterID(c.ID), Scope: c.Scope})
		if err != nil {
			return err
		}
		if err = s.Configure(s.t.Context(), c, snap, nil); !isConflict(err) {
			return err
		}
	}
}

// Scopes that take and leave one work master at the same time never leave the document without a holder, or a holder
// without the document.
func TestSharedWorkMasterAtOnce(t *testing.T) {
	s := newShop(t)
	var all sync.WaitGroup
	for i := range 6 {
		scope := isa95.Scope(fmt.Sprintf("m%d", i))
		all.Go(func() {
			for n := range 15 {
				c := jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: scope, ID: "WM-1", Delete: n%2 == 1}
				if !c.Delete {
					c.WorkMaster = &isa95.WorkMaster{ID: "WM-1"}
				}
				if err := s.configure(c); err != nil {
					t.Error(err)
				}
			}
			if i > 2 {
				if err := s.configure(jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: scope, ID: "WM-1", Delete: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, scope := range []isa95.Scope{"m0", "m1", "m2"} {
		if s.load(jobstore.Query{Scope: scope, WorkMaster: "WM-1"}).WorkMaster == nil {
			t.Errorf("%s runs nothing", scope)
		}
	}
	if n := s.number("EXISTS", s.keys.WorkMaster("WM-1")); n != 1 {
		t.Error("no document")
	}
	if got := s.stored(); len(got) != 7 {
		t.Errorf("stored %v", got)
	}
}

// A configuration and its reply are one commit; the second of two equal events conflicts and changes nothing.
func TestConfigureOnce(t *testing.T) {
	s := newShop(t)
	q := jobstore.Query{Source: "src", ID: "id-1", Scope: "m42"}
	first, second := s.load(q), s.load(q)
	add := jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "m42", ID: "EQ-1"}
	if err := s.Configure(t.Context(), add, first, &jobstore.Seen{}); err != nil {
		t.Fatal(err)
	}
	s.do("SREM", s.keys.ResourceList("equipment", "m42"), "EQ-1")
	stored := s.dumps()
	if err := s.Configure(t.Context(), add, second, &jobstore.Seen{}); !isConflict(err) {
		t.Errorf("err = %v, want a conflict", err)
	}
	if diff := cmp.Diff(stored, s.dumps()); diff != "" {
		t.Error(diff)
	}
	wm := jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: "m42", ID: "WM-1", WorkMaster: &isa95.WorkMaster{ID: "WM-1"}}
	if err := s.Configure(t.Context(), wm, s.load(q), nil); err == nil || isConflict(err) {
		t.Errorf("err = %v, want one that says what was not loaded", err)
	}
}

// All seven facts of an order are read, in their order, and each refuses.
func TestAcceptanceFacts(t *testing.T) {
	s := newShop(t)
	order := &isa95.JobOrder{
		WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-1"}, {}}, PhysicalAssetRequirements: []isa95.PhysicalAsset{{ID: "PA-1"}},
		PersonnelRequirements: []isa95.Personnel{{}, {ID: "PE-1"}}, EquipmentRequirements: []isa95.Equipment{{ID: "EQ-1"}},
		MaterialRequirements: []isa95.Material{{MaterialDefinitionID: "MD-1"}, {MaterialClassID: "MC-1"}},
	}
	s.move("m42", "JO-1", 0, ready)
	s.do("SET", s.keys.JobAcceptance("m42"), "1")
	refusal := func(update bool) string {
		return s.load(jobstore.Query{Scope: "m42", Acceptance: order}).Acceptance.Refusal(update)
	}
	var said []string
	said = append(said, refusal(false))
	s.do("DEL", s.keys.JobAcceptance("m42"))
	for _, c := range []jobstore.Configuration{
		{Kind: isa95.ConfigEquipment, ID: "EQ-1"}, {Kind: isa95.ConfigMaterialClass, ID: "MC-1"}, {Kind: isa95.ConfigMaterialDefinition, ID: "MD-1"},
		{Kind: isa95.ConfigPersonnel, ID: "PE-1"}, {Kind: isa95.ConfigPhysicalAsset, ID: "PA-1"}, {Kind: isa95.ConfigWorkMaster, ID: "WM-1", WorkMaster: &isa95.WorkMaster{ID: "WM-1"}},
	} {
		said = append(said, refusal(true))
		c.Scope = "m42"
		if err := s.configure(c); err != nil {
			t.Fatal(err)
		}
	}
	said = append(said, refusal(false))
	want := []string{
		"the station has 1 job orders, its MaxDownloadableJobOrders is 1", `equipment "EQ-1" is not known at this station`,
		`materialclass "MC-1" is not known at this station`, `materialdefinition "MD-1" is not known at this station`,
		`personnel "PE-1" is not known at this station`, `physicalasset "PA-1" is not known at this station`, `workmaster "WM-1" is not known at this station`, "",
	}
	if !slices.Equal(said, want) {
		t.Error(cmp.Diff(want, said))
	}
}
