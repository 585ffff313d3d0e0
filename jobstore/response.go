package jobstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// ErrorParameter is the ID of the parameter of JobResponseData that tells why a job order was aborted.
const ErrorParameter = "error"

// AbortedBy begins the error of a run that a command Abort ended; the source of the command follows.
const AbortedBy = "aborted by "

// Conclude is how an order ends whose recipe came to that phase: End when it is through, Abort when it failed, each with the response. Both are nil while it runs.
func Conclude(o *StoredOrder, phase recipe.Phase, x *recipe.Execution, now time.Time) (*Transition, *isa95.JobResponse, error) {
	var method isa95.Method
	switch phase {
	case recipe.PhaseCompleted:
		method = isa95.End
	case recipe.PhaseFailed:
		method = isa95.Abort
	default:
		return nil, nil, nil
	}
	state, ok := isa95.Next(o.State, method)
	if !ok {
		return nil, nil, fmt.Errorf("job order %s is %s, and no %s leads out of that", o.JobOrder.JobOrderID, o.State, method)
	}
	return &Transition{Method: method, State: state}, NewResponse(o, x, state, now), nil
}

// NewResponse makes the response to a job order that ends in the state end: its times, and the results of the actions as
// parameters with the ID "action.member". An aborted recipe adds ErrorParameter. Without a recipe (x nil) there are no
// results and no StartTime.
func NewResponse(o *StoredOrder, x *recipe.Execution, end isa95.State, now time.Time) *isa95.JobResponse {
	r := &isa95.JobResponse{
		JobResponseID: string(ResponseID(isa95.JobOrderID(o.JobOrder.JobOrderID))),
		JobOrderID:    o.JobOrder.JobOrderID,
		EndTime:       rfc3339(now),
		JobState:      end.Elements(),
	}
	if x == nil {
		return r
	}
	start := time.UnixMilli(x.StartedAt)
	if x.BegunAt != 0 {
		start = time.UnixMilli(x.BegunAt)
	}
	r.StartTime = rfc3339(start)
	if now.Before(start) { // by the clock of another process
		r.EndTime = r.StartTime
	}
	for _, result := range x.Results() {
		r.JobResponseData = append(r.JobResponseData, isa95.Parameter{ID: result.ID, Value: result.Value})
	}
	if x.Error != "" {
		text, _ := json.Marshal(x.Error) // a string always encodes
		r.JobResponseData = append(r.JobResponseData, isa95.Parameter{ID: ErrorParameter, Value: text})
	}
	if _, err := encodeResponse(r, end, o.Scope); err != nil { // an order must always be able to end
		why := "the results cannot be given back: " + err.Error()
		if x.Error != "" {
			why = x.Error + "; " + why
		}
		text, _ := json.Marshal(why)
		r.JobResponseData = []isa95.Parameter{{ID: ErrorParameter, Value: text}}
	}
	return r
}

func rfc3339(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
