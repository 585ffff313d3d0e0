package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/cschleiden/go-workflows/backend"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// bridge brings the results of job orders to the workflows that wait for them, until ctx ends. Nobody polls: Takt tells of a result, and the result wakes the workflow.
//
//	machine ──► Takt ──► OnResult ──► signal, under the id of the job response ──► workflow
//	                        └──────── nil: Clear, the job order leaves
//
// If the process dies in between, the result is still there and comes again; its id says that it is the same signal. Several may run. All job orders of the cell are taken for ours.
func bridge(ctx context.Context, client *mes.Client, b *goworkflows.Backend, did func(string)) error {
	_, err := client.Follow(ctx, []isa95.Scope{cell}, mes.FollowOptions{
		Clear: true, // once OnResult has returned nil
		OnResult: func(ctx context.Context, _ isa95.Scope, r isa95.JobResponse) error {
			order, _, _ := strings.Cut(r.JobOrderID, ".")
			err := b.SignalOnce(ctx, r.JobResponseID, order, r.JobOrderID, resultOf(r))
			if err != nil && !errors.Is(err, backend.ErrInstanceNotFound) { // that instance has given up and ended: nobody waits
				return err
			}
			did("signal " + r.JobOrderID)
			return nil
		},
	})
	return err
}

func resultOf(r isa95.JobResponse) Result {
	state, err := isa95.ParseState(r.JobState)
	if err == nil && state.Top == isa95.Ended {
		return Result{JobOrder: r.JobOrderID, Made: true}
	}
	why := "it was aborted"
	for _, p := range r.JobResponseData {
		if p.ID == jobstore.ErrorParameter {
			_ = json.Unmarshal(p.Value, &why) // else it stays as it is
		}
	}
	return Result{JobOrder: r.JobOrderID, Why: why}
}
