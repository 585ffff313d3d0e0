package jobstore

import (
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// WorkMaster is the first work master that the order names, "" if it names none: the one whose recipe it runs.
func (o *StoredOrder) WorkMaster() isa95.WorkMasterID { return WorkMasterOf(o.JobOrder) }

// WorkMasterOf is StoredOrder.WorkMaster of an order that is not stored yet.
func WorkMasterOf(o *isa95.JobOrder) isa95.WorkMasterID {
	for _, ref := range o.WorkMasterID {
		if ref.ID != "" {
			return isa95.WorkMasterID(ref.ID)
		}
	}
	return ""
}

// RecipeOrder is what the conditions and the Parameters of a recipe may see of the order: parameters that it has itself,
// by their id.
func (o *StoredOrder) RecipeOrder() recipe.Order {
	parameters := make(map[string]any, len(o.JobOrder.JobOrderParameters))
	for _, p := range o.JobOrder.JobOrderParameters {
		if p.ID != "" {
			parameters[p.ID] = p.Value
		}
	}
	return recipe.Order{
		ID: o.JobOrder.JobOrderID, Scope: string(o.Scope),
		Parameters: parameters, WorkMasterID: string(o.WorkMaster()),
	}
}
