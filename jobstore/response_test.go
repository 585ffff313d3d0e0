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

// The times of a response are dates: they are not installation time, and do not step back, whichever process writes the end. An execution that
// another program wrote has no begun_at: its started_at is by the wall clock.
func TestTimesOfAResponse(t *testing.T) {
	o := &jobstore.StoredOrder{JobOrder: &isa95.JobOrder{JobOrderID: "JO-7"}, Scope: "m42"}
	at := func(s int64) string { return time.Unix(s, 0).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
	for name, c := range map[string]struct {
		startedAt, begunAt, now int64
		start, end              string
	}{
		"installation time an hour behind": {1000, 4600, 4660, at(4600), at(4660)},
		"without begun_at":                 {4600, 0, 4660, at(4600), at(4660)},
		"another process is behind":        {1000, 4600, 4590, at(4600), at(4600)},
	} {
		x := &recipe.Execution{JobID: "JO-7", Completed: true, StartedAt: c.startedAt * 1000, BegunAt: c.begunAt * 1000}
		r := jobstore.NewResponse(o, x, isa95.State{Top: isa95.Ended, Sub: isa95.Completed}, time.Unix(c.now, 0))
		if r.StartTime != c.start || r.EndTime != c.end {
			t.Errorf("%s: from %s to %s, want from %s to %s", name, r.StartTime, r.EndTime, c.start, c.end)
		}
	}
}
