package isa95

import (
	"encoding/json"
	"strconv"
)

// JobOrderCall is the body of Store, StoreAndStart and Update. Comment is for people: logged, not stored.
type JobOrderCall struct {
	JobOrder *JobOrder       `json:"JobOrder,omitzero"`
	Comment  []LocalizedText `json:"Comment,omitzero"`
}

// JobOrderIDCall is the body of the other control methods. An absent JobOrderID (InvalidRequest) is not the same as an
// empty one (UnknownJobOrder).
type JobOrderIDCall struct {
	JobOrderID *string         `json:"JobOrderID,omitzero"`
	Comment    []LocalizedText `json:"Comment,omitzero"`
}

// JobResponseCall is the body of ReceiveJobResponse; its JobResponse names the job order.
type JobResponseCall struct {
	JobResponse *JobResponse `json:"JobResponse,omitzero"`
}

// ActionCall is the body of a command of a recipe to equipment, an extension of Takt. Attempt begins at 1. Parameters is the object of the recipe, with what it refers to filled in; nil = none.
type ActionCall struct {
	JobOrderID string          `json:"JobOrderID"`
	Action     string          `json:"Action"`
	Attempt    int             `json:"Attempt"`
	Parameters json.RawMessage `json:"Parameters,omitempty"`
}

// StationCall is the body of a job method that Takt sends to a station, an extension of Takt. JobOrder is the order with Start and Update, else nil; JobOrderID is "" with Start.
type StationCall struct {
	JobOrderID string          `json:"JobOrderID,omitempty"`
	JobOrder   json.RawMessage `json:"JobOrder,omitempty"`
}

// JobResponseByIDCall is the body of RequestJobResponseByJobOrderID.
type JobResponseByIDCall struct {
	JobOrderID *string `json:"JobOrderID,omitzero"`
}

// JobResponseByStateCall is the body of RequestJobResponseByJobOrderState. A parent state asks for its substates too.
type JobResponseByStateCall struct {
	JobOrderState []StateElement `json:"JobOrderState,omitzero"`
}

// MethodResult is the result of the control methods.
type MethodResult struct {
	ReturnStatus ReturnStatus `json:"ReturnStatus"`
}

// DeliveryResult is the result of a configuration event for a work master, an extension of Takt. Change is new, changed,
// unchanged or removed. Before and After are the SHA-256 (hex) of the work master's data, "" for none. OtherScopes is the
// number of other scopes that list the work master; each keeps what was delivered to it.
type DeliveryResult struct {
	ReturnStatus ReturnStatus `json:"ReturnStatus"`
	Change       string       `json:"Change,omitzero"`
	Before       string       `json:"Before,omitzero"`
	After        string       `json:"After,omitzero"`
	OtherScopes  int          `json:"OtherScopes,omitzero"`
}

// JobResponseResult is the result of RequestJobResponseByJobOrderID. JobResponse is nil unless the status is NoError.
type JobResponseResult struct {
	JobResponse  *JobResponse `json:"JobResponse,omitzero"`
	ReturnStatus ReturnStatus `json:"ReturnStatus"`
}

// JobResponsesResult is the result of RequestJobResponseByJobOrderState. JobResponses is nil when there are none.
type JobResponsesResult struct {
	JobResponses []JobResponse `json:"JobResponses,omitempty"`
	ReturnStatus ReturnStatus  `json:"ReturnStatus"`
}

// ContextJobOrderState is the member of mdcserrorcontext with the state (State.String) of the job order that a refusal speaks of: it is
// there, so a Store of its id is refused, or it has no response. InitialState, in the answer to a query for its response: it is not there.
const ContextJobOrderState = "job_order_state"

// ReturnStatus is the MethodReturnStatus bit mask (OPC 10031-4 v2.00, B.2). Exactly one bit is set in what we send.
// Bit 2 meant "invalid command" in v1.00 and is reserved since.
type ReturnStatus uint64

const (
	NoError         ReturnStatus = 1 << 0
	UnknownJobOrder ReturnStatus = 1 << 1
	InvalidStatus   ReturnStatus = 1 << 3  // also: the method is not allowed in this state
	UnableToAccept  ReturnStatus = 1 << 4  // the acceptance checks, or the id is in use
	InvalidRequest  ReturnStatus = 1 << 32 // an argument is missing or refused
)

// String names the bit; other values are shown as a number.
func (s ReturnStatus) String() string {
	switch s {
	case NoError:
		return "no error"
	case UnknownJobOrder:
		return "unknown job order"
	case InvalidStatus:
		return "invalid job order status"
	case UnableToAccept:
		return "unable to accept job order"
	case InvalidRequest:
		return "invalid request"
	}
	return "return status " + strconv.FormatUint(uint64(s), 10)
}
