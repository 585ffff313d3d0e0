package isa95

import "encoding/json"

// JobOrder (ISA95JobOrderDataType) is what a station shall do. StartTime and EndTime are RFC 3339 text that is never
// parsed or normalised. Priority is OPC Int16, larger is more urgent; nil counts as 0.
type JobOrder struct {
	JobOrderID                string          `json:"JobOrderID,omitzero"`
	Description               []LocalizedText `json:"Description,omitzero"`
	WorkMasterID              []WorkMasterRef `json:"WorkMasterID,omitzero"`
	StartTime                 string          `json:"StartTime,omitzero"`
	EndTime                   string          `json:"EndTime,omitzero"`
	Priority                  *int            `json:"Priority,omitzero"`
	JobOrderParameters        []Parameter     `json:"JobOrderParameters,omitzero"`
	PersonnelRequirements     []Personnel     `json:"PersonnelRequirements,omitzero"`
	EquipmentRequirements     []Equipment     `json:"EquipmentRequirements,omitzero"`
	PhysicalAssetRequirements []PhysicalAsset `json:"PhysicalAssetRequirements,omitzero"`
	MaterialRequirements      []Material      `json:"MaterialRequirements,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// JobOrderAndState (ISA95JobOrderAndStateDataType) is a job order with its state: the stored form of an order.
type JobOrderAndState struct {
	JobOrder *JobOrder      `json:"JobOrder,omitzero"`
	State    []StateElement `json:"State,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// WorkMasterRef (ISA95WorkMasterDataType) names a work master inside a job order, with parameters of this order.
// It has no recipe: `data` sent here is dropped (spec 1.2).
type WorkMasterRef struct {
	ID          string        `json:"ID,omitzero"`
	Description LocalizedText `json:"Description,omitzero"`
	Parameters  []Parameter   `json:"Parameters,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// WorkMaster (ISA95WorkMasterDataTypeExt) says how a job is done. Data is a JSON object or array in the format that
// DataSchema names, a recipe for instance; any other JSON value is refused.
type WorkMaster struct {
	ID          string          `json:"ID,omitzero"`
	Description LocalizedText   `json:"Description,omitzero"`
	Parameters  []Parameter     `json:"Parameters,omitzero"`
	Data        json.RawMessage `json:"data,omitzero" rule:"container"`
	DataSchema  string          `json:"dataschema,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// PriorityOr0 is the priority of the order, 0 when it has none or o is nil. It is the stored score of the order.
func (o *JobOrder) PriorityOr0() int {
	if o == nil || o.Priority == nil {
		return 0
	}
	return *o.Priority
}
