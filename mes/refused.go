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
