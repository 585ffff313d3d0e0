package isa95

import "reflect"

// limits of what Unmarshal reads and Marshal writes. They hold inside raw values too.
type limits struct {
	size     int // bytes
	depth    int // arrays and objects inside one another
	elements int // of one array
}

// The limits widen from what comes in to what is made of it, so that an order that was accepted can be stored, changes
// its state, and is told of, without meeting a limit on the way.
var (
	bodyLimits     = limits{size: 1 << 20, depth: 64, elements: 10_000}   // calls, configuration
	documentLimits = limits{size: 2 << 20, depth: 64, elements: 10_000}   // what is stored
	listLimits     = limits{size: 32 << 20, depth: 72, elements: 200_000} // what wraps or lists documents
)

// limitsOf are the limits for a body that is read into, or written from, a value of type t: the limits of its plan.
func limitsOf(t reflect.Type) limits {
	switch t {
	case reflect.TypeFor[JobOrderAndState](), reflect.TypeFor[JobResponse](), reflect.TypeFor[WorkMaster](), reflect.TypeFor[ActionCall](), reflect.TypeFor[StationCall]():
		return documentLimits
	case reflect.TypeFor[StateIndex](), reflect.TypeFor[StatusEvent](),
		reflect.TypeFor[JobResponseResult](), reflect.TypeFor[JobResponsesResult]():
		return listLimits
	}
	if t.PkgPath() != reflect.TypeFor[JobOrder]().PkgPath() {
		return documentLimits // storage forms of other packages
	}
	return bodyLimits
}
