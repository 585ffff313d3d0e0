package isa95

import (
	"slices"
	"strings"
)

// Method is what can happen to a job order: a method of the OPC model that an MES or a station calls, or a substate
// transition (jobordercontrol.go).
type Method string

// The methods of OPC 10031-4 v2.00, and the two queries of OPC 40001-3.
const (
	Store         Method = "Store"
	StoreAndStart Method = "StoreAndStart"
	Start         Method = "Start"
	Stop          Method = "Stop"
	Pause         Method = "Pause"
	Resume        Method = "Resume"
	Abort         Method = "Abort"
	Cancel        Method = "Cancel"
	Clear         Method = "Clear"
	RevokeStart   Method = "RevokeStart"
	Update        Method = "Update"

	RequestJobResponseByJobOrderID    Method = "RequestJobResponseByJobOrderID"
	RequestJobResponseByJobOrderState Method = "RequestJobResponseByJobOrderState"
)

// ReceiveJobResponse of OPC 10031-4 (ISA95JobResponseReceiverObjectType) hands in the response to a job order. A station calls it.
const ReceiveJobResponse Method = "ReceiveJobResponse"

// Transitions without a method in the standard. A recipe makes them, or the station that runs the order without one.
const (
	Run Method = "Run" // the work begins: AllowedToStart -> Running. The name is MicroDCS'
	End Method = "End" // the work is done: Running -> Ended_Completed. The name is Takt's
)

// Methods lists the thirteen methods a message can call, in the order of the metadata event.
func Methods() []Method {
	return []Method{
		Store, StoreAndStart, Abort, Cancel, Clear, Pause, Resume, RevokeStart, Start, Stop, Update,
		RequestJobResponseByJobOrderID, RequestJobResponseByJobOrderState,
	}
}

// StationMethods lists the methods that a station calls, for job orders that it runs without a recipe.
func StationMethods() []Method { return []Method{Run, End, Abort, ReceiveJobResponse} }

// IsQuery reports whether m only reads.
func (m Method) IsQuery() bool {
	return m == RequestJobResponseByJobOrderID || m == RequestJobResponseByJobOrderState
}

// IsControl reports whether m is one of the eleven methods that change a job order.
func (m Method) IsControl() bool { return slices.Contains(Methods(), m) && !m.IsQuery() }

// TakesJobOrder reports whether the body of m is a JobOrderCall; of the other control methods it is a JobOrderIDCall.
func (m Method) TakesJobOrder() bool {
	return m == Store || m == StoreAndStart || m == Update
}

// TypeID is the CloudEvent type of a call and of its result; only the data schema tells the two apart (spec 1.3).
// It is "" for what no message calls.
func (m Method) TypeID() string {
	switch {
	case m.IsQuery():
		return jobsTypes + string(m) + ".v1"
	case m.isCalled():
		return jobControlTypes + string(m) + ".v2"
	}
	return ""
}

// isCalled reports whether messages call m.
func (m Method) isCalled() bool {
	return slices.Contains(Methods(), m) || slices.Contains(StationMethods(), m)
}

// CallSchema is the data schema of the call of m, "" for what no message calls.
func (m Method) CallSchema() string { return m.schema("Call") }

// ResponseSchema is the data schema of the result of m, "" for what no message calls.
func (m Method) ResponseSchema() string { return m.schema("Response") }

func (m Method) schema(what string) string {
	switch {
	case m.IsQuery():
		return jobsSchemas + "#/$defs/" + string(m) + what
	case m.isCalled():
		return jobControlSchemas + "#/$defs/" + string(m) + what
	}
	return ""
}

// IsJobControlType reports whether a CloudEvent type is one of the job methods, known or not: types of recipes begin otherwise.
func IsJobControlType(typeID string) bool { return strings.HasPrefix(typeID, jobControlTypes) }

// StationMethodByTypeID finds the method of a station by the CloudEvent type of its call; ok is false when it is none.
func StationMethodByTypeID(typeID string) (m Method, ok bool) {
	m, ok = stationMethodsByTypeID[typeID]
	return m, ok
}

// MethodByTypeID finds the method of an MES by the CloudEvent type of its call; ok is false when it is none.
func MethodByTypeID(typeID string) (m Method, ok bool) {
	m, ok = methodsByTypeID[typeID]
	return m, ok
}

var (
	methodsByTypeID        = byTypeID(Methods())
	stationMethodsByTypeID = byTypeID(StationMethods())
	configByTypeID         = byTypeID(ConfigKinds())
)

func byTypeID[T interface{ TypeID() string }](all []T) map[string]T {
	byType := make(map[string]T, len(all))
	for _, one := range all {
		byType[one.TypeID()] = one
	}
	return byType
}
