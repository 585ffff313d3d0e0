package mes

import (
	"fmt"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// RefusedError is an answer that says no: the request arrived, was decided on and changed nothing.
type RefusedError struct {
	What    string               // the method or configuration kind, e.g. "Store"
	Status  isa95.ReturnStatus   // 0 when the answer had none
	Kind    cloudevent.ErrorKind // mdcserrorkind, "" when the answer had none
	Message string               // mdcserrormessage
	Context map[string]string    // mdcserrorcontext
}

// Error has the method, the status in words and the reason.
func (e *RefusedError) Error() string {
	text := "mes: " + e.What + " refused"
	if e.Status != 0 {
		text += fmt.Sprintf(": %s (%d)", e.Status, uint64(e.Status))
	}
	switch {
	case e.Kind != "":
		text += ": " + (&cloudevent.Error{Kind: e.Kind, Message: e.Message, Context: e.Context}).Error()
	case e.Message != "": // bits 1, 3 and 4 need no kind
		text += ": " + e.Message
	}
	return text
}

// JobOrderState is the state of the job order that the answer speaks of, if Takt has it at that station and says so; else isa95.Initial.
// A Store with a state was refused because the order exists.
func (e *RefusedError) JobOrderState() isa95.State {
	text := e.Context[isa95.ContextJobOrderState]
	for _, state := range isa95.States() {
		if state.String() == text {
			return state
		}
	}
	return isa95.State{Top: text} // of a later version
}
