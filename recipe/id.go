package recipe

import (
	"fmt"

	"github.com/google/uuid"
)

// executions is the namespace of the correlation ids of executions.
var executions = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/taktworks/takt/sfc/execution"))

// CorrelationID is the UUIDv5 that names one start of one job order. A start that is
// repeated with the same startKey gets the same one, so its commands are repeats too.
func CorrelationID(jobOrderID, startKey string) string {
	return uuid.NewSHA1(executions, []byte(jobOrderID+"\x00"+startKey)).String() // names have no control characters
}

// CommandID is the id of one attempt of one action in one iteration: UUIDv5 of
// "action/iteration/attempt" in the namespace of the execution's correlation id. A
// correlation id that is no UUID (from a document not of ours) is made one first.
func CommandID(correlationID, action string, iteration, attempt int) string {
	namespace, err := uuid.Parse(correlationID)
	if err != nil {
		namespace = uuid.NewSHA1(executions, []byte(correlationID))
	}
	return uuid.NewSHA1(namespace, fmt.Appendf(nil, "%s/%d/%d", action, iteration, attempt)).String()
}
