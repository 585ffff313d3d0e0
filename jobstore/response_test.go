package jobstore_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// An order whose results are too large to be written can still end: the response says why they are missing.
func TestResponseCanAlwaysBeWritten(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	x := &recipe.Execution{JobID: "JO-7", Error: "aborted by a test", Failed: true}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		x.Actions = append(x.Actions, recipe.ActionEntry{
			Name: name, State: recipe.ActionCompleted, Result: json.RawMessage(`"` + strings.Repeat("x", 250_000) + `"`),
		})
	}
	o := &jobstore.StoredOrder{JobOrder: &isa95.JobOrder{JobOrderID: "JO-7"}, Scope: "m42"}
	r := jobstore.NewResponse(o, x, isa95.State{Top: isa95.Aborted}, now)
	if len(r.JobResponseData) != 1 || r.JobResponseData[0].ID != jobstore.ErrorParameter {
		t.Fatalf("%d parameters", len(r.JobResponseData))
	}
	text := string(r.JobResponseData[0].Value)
	if !strings.Contains(text, "aborted by a test") || !strings.Contains(text, "cannot be given back") {
		t.Error(text)
	}
	if _, err := isa95.Marshal(r); err != nil {
		t.Error(err)
	}
}
