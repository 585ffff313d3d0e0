package board

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/board/driver"
)

// Counts are of what was read: owners once each, priorities of what is unclaimed.
func TestStats(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	row := func(second int, p Priority, state State, owner string) Row {
		return Row{Posting: &Posting{Priority: p, CreatedOn: at.Add(time.Duration(second) * time.Second)}, State: state, Owner: owner}
	}
	c := Contents{
		Records: 7, Malformed: 2, Trash: make([]Row, 3), Entities: make([]Entity, 4),
		Rows: []Row{row(2, High, driver.Unclaimed, ""), row(1, Low, driver.Unclaimed, ""), row(3, Low, driver.Unclaimed, ""), row(0, High, Claimed, "w-1"), row(0, High, Claimed, "w-1")},
	}
	want := Stats{Records: 7, Unclaimed: 3, Claimed: 2, Owners: 1, Trashed: 3, Malformed: 2, Entities: 4, Oldest: at.Add(time.Second), Priorities: map[string]int{"HIGH": 1, "LOW": 2}}
	if diff := cmp.Diff(want, c.Stats()); diff != "" {
		t.Error(diff)
	}
}

// A view is JSON whatever another program wrote, and says what is not known.
func TestView(t *testing.T) {
	r := Row{Posting: &Posting{UUID: "u", Ref: "r", Details: map[string]any{"a": []any{math.NaN(), math.Inf(-1), 0.5}}}, State: Claimed, ExpiresIn: 1500 * time.Millisecond}
	text, err := json.Marshal(ViewOf(&r))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"details":{"a":["NaN","-Inf",0.5]}`, `"created_on":null`, `"expires_in_ms":1500`, `"state":"CLAIMED"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s: %s", want, text)
		}
	}
}
