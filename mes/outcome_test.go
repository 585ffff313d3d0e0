package mes_test

import (
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// A refusal says its reason once.
func TestWordsOfRefusals(t *testing.T) {
	for _, c := range []struct {
		status  isa95.ReturnStatus
		message string
		want    string
	}{
		{isa95.UnableToAccept, "not acceptable: parameter torque_min_nm is missing", "Store N-1 refused: parameter torque_min_nm is missing (return status 16)"},
		{isa95.UnknownJobOrder, "", "Store N-1 refused: unknown job order (return status 2)"},
		{0, "stored here, not yet on 1 replicas", "Store N-1 refused: stored here, not yet on 1 replicas"},
	} {
		call := mes.Call{Method: isa95.Store, JobOrderID: "N-1"}
		if got := call.Outcome(c.status, &mes.RefusedError{Status: c.status, Message: c.message}).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
