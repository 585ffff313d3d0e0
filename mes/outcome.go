package mes

import (
	"fmt"
	"strings"

	"github.com/taktworks/takt/isa95"
)

// Outcome is the answer to one Call, for people and programs.
type Outcome struct {
	Method       string `json:"method"`
	JobOrderID   string `json:"job_order_id"`
	ReturnStatus uint64 `json:"return_status"`
	Meaning      string `json:"meaning"`
	Kind         string `json:"error_kind,omitempty"`
	Message      string `json:"error_message,omitempty"`
}

// Outcome is the answer to call: status, and refused if it says no.
func (call *Call) Outcome(status isa95.ReturnStatus, refused *RefusedError) Outcome {
	o := Outcome{Method: string(call.Method), JobOrderID: string(call.JobOrderID), ReturnStatus: uint64(status), Meaning: status.String()}
	if refused != nil {
		o.Kind, o.Message = string(refused.Kind), refused.Message
	}
	return o
}

// String says once why a method was refused: Takt's reason, or what the return status means if Takt gives none.
func (o Outcome) String() string {
	reason := o.Message
	for _, said := range []string{"not acceptable: ", "not allowed in this state: "} { // the status says it
		reason = strings.TrimPrefix(reason, said)
	}
	if reason == "" {
		reason = o.Meaning
	}
	text := fmt.Sprintf("%s %s refused: %s", o.Method, o.JobOrderID, reason)
	if o.ReturnStatus != 0 {
		text += fmt.Sprintf(" (return status %d)", o.ReturnStatus)
	}
	return text
}
