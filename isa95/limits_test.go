package isa95_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
)

// storedResponse is a storage form, as another package has it.
type storedResponse struct {
	isa95.JobResponse
	DataSchema string `json:"_dataschema"`
}

// What was accepted as a body can be stored, told of and listed, however large, deep or wide it is.
func TestAcceptedBodiesCanBeStoredAndListed(t *testing.T) {
	value := func(raw string) string { return `{"JobOrder":{"JobOrderParameters":[{"Value":` + raw + `}]}}` }
	if _, err := isa95.Marshal(storedResponse{DataSchema: strings.Repeat(" ", 2<<20)}); !errors.Is(err, isa95.ErrLimit) {
		t.Errorf("a document without bounds: %v", err)
	}
	for name, body := range map[string]string{
		"large": value(`"` + strings.Repeat(" ", 1<<20-60) + `"`),
		"deep":  value(strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60)),
		"wide":  value(`[` + strings.Repeat(`1,`, 9_999) + `1]`),
	} {
		var call isa95.JobOrderCall
		if err := isa95.Unmarshal([]byte(body), &call); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		state := isa95.State{isa95.NotAllowedToStart, isa95.Ready}.Elements()
		response := isa95.JobResponse{JobResponseID: "R", JobResponseData: call.JobOrder.JobOrderParameters, JobState: state}
		for _, tc := range []struct{ written, read any }{
			{isa95.JobOrderAndState{JobOrder: call.JobOrder, State: state}, new(isa95.JobOrderAndState)},
			{storedResponse{response, isa95.SchemaJobResponse}, new(isa95.JobResponse)},
			{isa95.StatusEvent{JobOrder: call.JobOrder, JobResponse: &response, JobState: state}, new(isa95.StatusEvent)},
			{isa95.JobResponseResult{&response, isa95.NoError}, new(isa95.JobResponseResult)},
			{isa95.JobResponsesResult{[]isa95.JobResponse{response, response, response}, isa95.NoError}, new(isa95.JobResponsesResult)},
		} {
			text, err := isa95.Marshal(tc.written)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := isa95.Unmarshal(text, tc.read); err != nil {
				t.Errorf("%s: %T: %v", name, tc.read, err)
			}
		}
	}
}
