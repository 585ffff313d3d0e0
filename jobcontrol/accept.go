package jobcontrol

import (
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// reduce returns the order without the requirements that are not checked, for the acceptance checks to look at.
func (skip Checks) reduce(order *isa95.JobOrder) *isa95.JobOrder {
	o := *order
	if skip.Equipment {
		o.EquipmentRequirements = nil
	}
	if skip.Personnel {
		o.PersonnelRequirements = nil
	}
	if skip.PhysicalAsset {
		o.PhysicalAssetRequirements = nil
	}
	if skip.WorkMaster {
		o.WorkMasterID = nil
	}
	if skip.MaterialClass || skip.MaterialDefinition {
		o.MaterialRequirements = slices.Clone(o.MaterialRequirements)
	}
	for i := range o.MaterialRequirements {
		if skip.MaterialClass {
			o.MaterialRequirements[i].MaterialClassID = ""
		}
		if skip.MaterialDefinition {
			o.MaterialRequirements[i].MaterialDefinitionID = ""
		}
	}
	return &o
}

// programBytes is the budget for compiled recipes of a receiver.
const programBytes = 16 << 20

// program is the recipe of ours that snap.WorkMaster holds, compiled; nil if it holds none, or one that cannot run: then the
// start says why.
func (r *Receiver) program(snap *jobstore.Snapshot) *recipe.Program {
	wm := snap.WorkMaster
	if wm == nil || wm.DataSchema != recipe.SchemaURI {
		return nil
	}
	program, _ := r.programs.Compile(wm.Data)
	return program
}

// limit settles which limit of job orders counts: the delivered one first, then that of the program.
func (o *Options) limit(a *jobstore.Acceptance) {
	switch {
	case o.Skip.Limit:
		a.Limit = -1
	case a.Limit < 0 && o.MaxDownloadableJobOrders > 0:
		a.Limit = o.MaxDownloadableJobOrders
	}
}
