package isa95

import (
	"strings"
	"time"
)

// JobResponse (ISA95JobResponseDataType) is what became of a job order. StartTime and EndTime are RFC 3339 text.
type JobResponse struct {
	JobResponseID        string          `json:"JobResponseID,omitzero"`
	Description          LocalizedText   `json:"Description,omitzero"`
	JobOrderID           string          `json:"JobOrderID,omitzero"`
	StartTime            string          `json:"StartTime,omitzero"`
	EndTime              string          `json:"EndTime,omitzero"`
	JobState             []StateElement  `json:"JobState,omitzero"`
	JobResponseData      []Parameter     `json:"JobResponseData,omitzero"`
	PersonnelActuals     []Personnel     `json:"PersonnelActuals,omitzero"`
	EquipmentActuals     []Equipment     `json:"EquipmentActuals,omitzero"`
	PhysicalAssetActuals []PhysicalAsset `json:"PhysicalAssetActuals,omitzero"`
	MaterialActuals      []Material      `json:"MaterialActuals,omitzero"`
}

// StatusEvent (ISA95JobOrderStatusEventType) tells of one transition: the order and the state after it. JobResponse is
// nil where the field is missing.
type StatusEvent struct {
	JobOrder    *JobOrder      `json:"JobOrder,omitzero"`
	JobResponse *JobResponse   `json:"JobResponse,omitzero"`
	JobState    []StateElement `json:"JobState,omitzero"`
}

// StartScore is the score of the response in its list: StartTime as milliseconds since 1970, and 0 when it is absent,
// is no date-time, or r is nil. A text as score would fail the command after others were written.
// Text without an offset counts as UTC.
func (r *JobResponse) StartScore() float64 {
	if r == nil {
		return 0
	}
	text := strings.Replace(r.StartTime, ",", ".", 1) // ISO 8601 allows a decimal comma
	for _, layout := range [...]string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05Z0700",
		"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return float64(t.UnixMilli())
		}
	}
	return 0
}
