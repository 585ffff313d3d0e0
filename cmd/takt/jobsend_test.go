package main

import (
	"testing"

	"github.com/taktworks/takt/isa95"
)

// A refusal says its reason once, and each method that changes an order has a word for what it did.
func TestWordsOfJobMethods(t *testing.T) {
	for _, c := range []struct {
		status  isa95.ReturnStatus
		message string
		want    string
	}{
		{isa95.UnableToAccept, "not acceptable: parameter torque_min_nm is missing", "Store N-1 refused: parameter torque_min_nm is missing (return status 16)"},
		{isa95.UnknownJobOrder, "", "Store N-1 refused: unknown job order (return status 2)"},
		{0, "stored here, not yet on 1 replicas", "Store N-1 refused: stored here, not yet on 1 replicas"},
	} {
		s := sent{Method: "Store", JobOrderID: "N-1", Message: c.message, Meaning: c.status.String()}
		if got := refusedText(s, c.status); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
