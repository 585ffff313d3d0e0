package isa95

import "encoding/json"

// The types below are those of OPC 40001-3, in declaration order, which is the order of the members on
// output. No member is required unless its comment says so. Absent is "" for text, nil for slices, pointers and raw
// JSON, and is left out on output; an empty slice is written as []. The zero value of every type is the empty object.

// LocalizedText is text with the language it is in. Locale is a BCP 47 tag, "" = not said.
type LocalizedText struct {
	Locale string `json:"Locale,omitzero"`
	Text   string `json:"Text,omitzero"`
}

// EUInformation is an engineering unit (OPC 10000-8). UnitId is the UN/CEFACT code as an Int32; nil = not said.
type EUInformation struct {
	NamespaceUri string        `json:"NamespaceUri,omitzero"`
	UnitId       *int          `json:"UnitId,omitzero"`
	DisplayName  LocalizedText `json:"DisplayName,omitzero"`
	Description  LocalizedText `json:"Description,omitzero"`
}

// RelativePathElement is one step of a RelativePath.
type RelativePathElement struct {
	ReferenceTypeId string `json:"ReferenceTypeId,omitzero"`
	IsInverse       *bool  `json:"IsInverse,omitzero"`
	IncludeSubtypes *bool  `json:"IncludeSubtypes,omitzero"`
	TargetName      string `json:"TargetName,omitzero"`
}

// RelativePath leads from one OPC node to another.
type RelativePath struct {
	Elements []RelativePathElement `json:"Elements,omitzero"`
}

// StateElement (ISA95StateDataType) is one level of a state; a state is a []StateElement, top level first. StateNumber
// is the number within its parent (Ready is 2, not 12); 0 = absent. BrowsePath is never set by us. See State.
type StateElement struct {
	BrowsePath  *RelativePath `json:"BrowsePath,omitzero"`
	StateText   LocalizedText `json:"StateText,omitzero"`
	StateNumber int           `json:"StateNumber,omitzero"`
}

// Parameter (ISA95ParameterDataType) is a named value. Value is any JSON value, as it was sent.
type Parameter struct {
	ID               string          `json:"ID,omitzero"`
	Value            json.RawMessage `json:"Value,omitzero"`
	Description      []LocalizedText `json:"Description,omitzero"`
	EngineeringUnits *EUInformation  `json:"EngineeringUnits,omitzero"`
	Subparameters    []Parameter     `json:"Subparameters,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}

// Property (ISA95PropertyDataType) is a property of a resource. Value is any JSON value, as it was sent.
type Property struct {
	ID               string          `json:"ID,omitzero"`
	Value            json.RawMessage `json:"Value,omitzero"`
	Description      []LocalizedText `json:"Description,omitzero"`
	EngineeringUnits *EUInformation  `json:"EngineeringUnits,omitzero"`
	Subproperties    []Property      `json:"Subproperties,omitzero"`

	Other []Member `json:"-"` // members that Takt does not know, as they were sent
}
