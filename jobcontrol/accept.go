package jobcontrol

import (
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
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

// limit settles which limit of job orders counts: the delivered one first, then that of the program (D12).
func (o *Options) limit(a *jobstore.Acceptance) {
	switch {
	case o.Skip.Limit:
		a.Limit = -1
	case a.Limit < 0 && o.MaxDownloadableJobOrders > 0:
		a.Limit = o.MaxDownloadableJobOrders
	}
}
