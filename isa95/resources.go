package isa95

// Equipment (ISA95EquipmentDataType) is a piece or class of equipment, required or used. Quantity is a decimal as text.
type Equipment struct {
	ID               string          `json:"ID,omitzero"`
	Description      []LocalizedText `json:"Description,omitzero"`
	EquipmentUse     string          `json:"EquipmentUse,omitzero"`
	Quantity         string          `json:"Quantity,omitzero"`
	EngineeringUnits *EUInformation  `json:"EngineeringUnits,omitzero"`
	Properties       []Property      `json:"Properties,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// Personnel (ISA95PersonnelDataType) is a person or a class of persons. Quantity is a decimal as text.
type Personnel struct {
	ID               string          `json:"ID,omitzero"`
	Description      []LocalizedText `json:"Description,omitzero"`
	PersonnelUse     string          `json:"PersonnelUse,omitzero"`
	Quantity         string          `json:"Quantity,omitzero"`
	EngineeringUnits *EUInformation  `json:"EngineeringUnits,omitzero"`
	Properties       []Property      `json:"Properties,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// PhysicalAsset (ISA95PhysicalAssetDataType) is a physical asset or a class of them. Quantity is a decimal as text.
type PhysicalAsset struct {
	ID               string          `json:"ID,omitzero"`
	Description      []LocalizedText `json:"Description,omitzero"`
	PhysicalAssetUse string          `json:"PhysicalAssetUse,omitzero"`
	Quantity         string          `json:"Quantity,omitzero"`
	EngineeringUnits *EUInformation  `json:"EngineeringUnits,omitzero"`
	Properties       []Property      `json:"Properties,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// Material (ISA95MaterialDataType) is a material by class, definition, lot or sublot; it has no ID member of its own.
// Quantity is a decimal as text.
type Material struct {
	MaterialClassID      string          `json:"MaterialClassID,omitzero"`
	MaterialDefinitionID string          `json:"MaterialDefinitionID,omitzero"`
	MaterialLotID        string          `json:"MaterialLotID,omitzero"`
	MaterialSublotID     string          `json:"MaterialSublotID,omitzero"`
	Description          []LocalizedText `json:"Description,omitzero"`
	MaterialUse          string          `json:"MaterialUse,omitzero"`
	Quantity             string          `json:"Quantity,omitzero"`
	EngineeringUnits     *EUInformation  `json:"EngineeringUnits,omitzero"`
	Properties           []Property      `json:"Properties,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}
