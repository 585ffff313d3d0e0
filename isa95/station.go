package isa95

import "encoding/json"

// JobAcceptance (ConfigJobAcceptance) is the limit of waiting job orders delivered to a station. The member is
// required; negative and zero are accepted. A DELETE needs no body, so do not decode one.
type JobAcceptance struct {
	MaxDownloadableJobOrders int `json:"max_downloadable_job_orders" rule:"required"`
}

// Meta is the body of the metadata event. AdditionalAttributes holds arrays of two elements, [name, value].
type Meta struct {
	ModelURI             string            `json:"modelUri,omitzero"`
	ModelVersion         string            `json:"modelVersion,omitzero"`
	ModelDate            string            `json:"modelDate,omitzero"`
	AdditionalAttributes []json.RawMessage `json:"additionalAttributes,omitzero"`
}

// NewMeta says what a receiver of job orders understands and tells.
func NewMeta() Meta {
	commands := []byte(`["supported_commands",[`)
	for i, m := range Methods() {
		if i > 0 {
			commands = append(commands, ',')
		}
		commands = append(append(append(commands, '"'), m...), '"')
	}
	commands = append(commands, "]]"...)
	return Meta{
		ModelURI:     "http://opcfoundation.org/UA/Machinery/Jobs/",
		ModelVersion: "1.0.1",
		ModelDate:    "2024-05-01T00:00:00",
		AdditionalAttributes: []json.RawMessage{
			commands, json.RawMessage(`["event_types",["ISA95JobOrderStatusEventType"]]`),
		},
	}
}
