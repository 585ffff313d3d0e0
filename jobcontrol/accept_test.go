package jobcontrol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// requirements are one unknown id for each of the checks 2 to 7, and the switch of the check.
var requirements = []struct {
	kind, member string
	off          jobcontrol.Checks
}{
	{"equipment", `"EquipmentRequirements":[{"ID":""},{"ID":"no"}]`, jobcontrol.Checks{Equipment: true}},
	{"materialclass", `"MaterialRequirements":[{"MaterialClassID":"no"}]`, jobcontrol.Checks{MaterialClass: true}},
	{"materialdefinition", `"MaterialRequirements":[{"MaterialDefinitionID":"no"}]`, jobcontrol.Checks{MaterialDefinition: true}},
	{"personnel", `"PersonnelRequirements":[{"ID":"no"}]`, jobcontrol.Checks{Personnel: true}},
	{"physicalasset", `"PhysicalAssetRequirements":[{"ID":"no"}]`, jobcontrol.Checks{PhysicalAsset: true}},
	{"workmaster", `"WorkMasterID":[{"ID":"no"}]`, jobcontrol.Checks{WorkMaster: true}},
}

// Each unknown kind is refused and named, each switch turns its own check off (row 28), and empty requirements pass (row 31).
func TestAcceptanceChecks(t *testing.T) {
	on := newPlant(t, jobcontrol.Options{})
	for _, r := range requirements {
		for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
			reply := on.do(t, m, `{"JobOrderID":"JO-1",`+r.member+`}`, isa95.UnableToAccept)
			if want := r.kind + ` "no" is not known`; !strings.Contains(reply.ErrorMessage, want) {
				t.Errorf("%s: %q", r.kind, reply.ErrorMessage)
			}
		}
	}
	on.do(t, isa95.Store, `{"JobOrderID":"JO-1","EquipmentRequirements":[],"MaterialRequirements":[{}],"PersonnelRequirements":[{"ID":""}],"WorkMasterID":[{}]}`, isa95.NoError)
	for _, r := range requirements {
		on.do(t, isa95.Update, `{"JobOrderID":"JO-1",`+r.member+`}`, isa95.UnableToAccept)
	}
	for i, r := range requirements {
		off := plantOn(t, on.env, storeOptions(), jobcontrol.Options{Skip: r.off})
		off.do(t, isa95.Store, `{"JobOrderID":"JO-1",`+r.member+`}`, isa95.NoError)
		other := requirements[(i+1)%len(requirements)]
		off.do(t, isa95.Store, `{"JobOrderID":"JO-2",`+other.member+`}`, isa95.UnableToAccept)
	}
}

// The checks run in their order: the first that fails is the one that is named.
func TestAcceptanceOrder(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{MaxDownloadableJobOrders: 1})
	p.do(t, isa95.Store, order("JO-0"), isa95.NoError)
	all := `"WorkMasterID":[{"ID":"no"}],"PhysicalAssetRequirements":[{"ID":"no"}],"PersonnelRequirements":[{"ID":"no"}],"MaterialRequirements":[{"MaterialDefinitionID":"no"},{"MaterialClassID":"no"}],"EquipmentRequirements":[{"ID":"no"}]`
	reply := p.do(t, isa95.Store, `{"JobOrderID":"JO-1",`+all+`}`, isa95.UnableToAccept)
	if !strings.Contains(reply.ErrorMessage, "MaxDownloadableJobOrders is 1") {
		t.Errorf("first: %q", reply.ErrorMessage)
	}
	var off jobcontrol.Checks
	off.Limit = true
	for _, r := range requirements {
		q := plantOn(t, p.env, storeOptions(), jobcontrol.Options{Skip: off})
		reply := q.do(t, isa95.Store, `{"JobOrderID":"JO-1",`+all+`}`, isa95.UnableToAccept)
		if !strings.Contains(reply.ErrorMessage, r.kind+" ") {
			t.Errorf("with %+v off: %q, want %s", off, reply.ErrorMessage, r.kind)
		}
		switch r.kind {
		case "equipment":
			off.Equipment = true
		case "materialclass":
			off.MaterialClass = true
		case "materialdefinition":
			off.MaterialDefinition = true
		case "personnel":
			off.Personnel = true
		case "physicalasset":
			off.PhysicalAsset = true
		case "workmaster":
			off.WorkMaster = true
		}
	}
	q := plantOn(t, p.env, storeOptions(), jobcontrol.Options{Skip: off})
	q.do(t, isa95.Store, `{"JobOrderID":"JO-1",`+all+`}`, isa95.NoError)
}

// The limit that was delivered counts, also without one in the program, and before it (rows 29, 30); it counts orders that
// live, and does not stand in the way of an Update.
func TestLimitD12(t *testing.T) {
	t.Run("delivered", func(t *testing.T) {
		p := newPlant(t, jobcontrol.Options{})
		p.configure(t, isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":2}`, isa95.NoError)
		p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
		p.do(t, isa95.StoreAndStart, order("JO-2"), isa95.NoError)
		p.do(t, isa95.Store, order("JO-3"), isa95.UnableToAccept)
		p.do(t, isa95.Update, order("JO-1"), isa95.NoError)
		p.do(t, isa95.Cancel, "JO-2", isa95.NoError)
		p.do(t, isa95.Store, order("JO-3"), isa95.NoError)
		p.do(t, isa95.Abort, "JO-3", isa95.NoError)
		p.do(t, isa95.Store, order("JO-4"), isa95.UnableToAccept) // aborted, not cleared: still there
		p.do(t, isa95.Clear, "JO-3", isa95.NoError)
		p.do(t, isa95.Store, order("JO-3"), isa95.NoError) // used again
		p.do(t, isa95.Store, order("JO-5"), isa95.UnableToAccept)
		p.configure(t, isa95.ConfigJobAcceptance, "DELETE", ``, isa95.NoError)
		p.do(t, isa95.Store, order("JO-5"), isa95.NoError)
	})
	t.Run("delivered beats the program's", func(t *testing.T) {
		p := newPlant(t, jobcontrol.Options{MaxDownloadableJobOrders: 1})
		p.configure(t, isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":2}`, isa95.NoError)
		p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
		p.do(t, isa95.Store, order("JO-2"), isa95.NoError)
		p.do(t, isa95.Store, order("JO-3"), isa95.UnableToAccept)
	})
	t.Run("the program's", func(t *testing.T) {
		p := newPlant(t, jobcontrol.Options{MaxDownloadableJobOrders: 1})
		p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
		p.do(t, isa95.Store, order("JO-2"), isa95.UnableToAccept)
		e := call(isa95.Store, order("JO-2"))
		e.Subject, e.Delivery.Topic = "m43", ""
		wantStatus(t, p.answer(t, e), isa95.NoError)
	})
	t.Run("zero takes none", func(t *testing.T) {
		p := newPlant(t, jobcontrol.Options{})
		p.configure(t, isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":0}`, isa95.NoError)
		p.do(t, isa95.Store, order("JO-1"), isa95.UnableToAccept)
	})
	t.Run("off", func(t *testing.T) {
		p := newPlant(t, jobcontrol.Options{Skip: jobcontrol.Checks{Limit: true}, MaxDownloadableJobOrders: 1})
		p.configure(t, isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":0}`, isa95.NoError)
		p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
		p.do(t, isa95.Store, order("JO-2"), isa95.NoError)
	})
}

// At a limit of five, five of forty commands that come at once pass.
func TestLimitIsExact(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.configure(t, isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":5}`, isa95.NoError)
	var all sync.WaitGroup
	replies := make(chan isa95.ReturnStatus, 40)
	for i := range 40 {
		all.Go(func() {
			replies <- status(t, p.answer(t, call(isa95.Store, order(fmt.Sprintf("JO-%d", i)))))
		})
	}
	all.Wait()
	close(replies)
	count := make(map[isa95.ReturnStatus]int)
	for s := range replies {
		count[s]++
	}
	if count[isa95.NoError] != 5 || count[isa95.UnableToAccept] != 35 {
		t.Errorf("%v, want 5 and 35", count)
	}
	p.wantSound(t)
}

// A requirement that is removed between the check and the commit is met there.
func TestRequirementRemovedMeanwhile(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for i := range 30 {
		p.configure(t, isa95.ConfigEquipment, "PUT", `{"ID":"EQ-1"}`, isa95.NoError)
		id := fmt.Sprintf("JO-%d", i)
		var both sync.WaitGroup
		var stored isa95.ReturnStatus
		both.Go(func() {
			stored = status(t, p.answer(t, call(isa95.Store, fmt.Sprintf(`{"JobOrderID":%q,"EquipmentRequirements":[{"ID":"EQ-1"}]}`, id))))
		})
		both.Go(func() { p.answer(t, config(isa95.ConfigEquipment, "DELETE", `{"ID":"EQ-1"}`)) })
		both.Wait()
		if stored != isa95.NoError && stored != isa95.UnableToAccept {
			t.Fatalf("%s: %v", id, stored)
		}
		if (stored == isa95.NoError) != (p.state(t, id) != "") {
			t.Fatalf("%s: answered %v, stored %q", id, stored, p.state(t, id))
		}
	}
}
