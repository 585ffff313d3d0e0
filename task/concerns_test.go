package task

import (
	"testing"

	"github.com/taktworks/takt/task/internal/wire"
)

// Only what has ended reaches a group, a unique key or a cancel mark: never a child that met a lock, that is retried, or that
// puts itself back.
func TestOnlyEndsConcernOthers(t *testing.T) {
	w := &Worker{client: &Client{}}
	w.control = newControl(w)
	for name, m := range map[string]wire.Message{
		"child":     {Labels: wire.Labels{{Key: groupLabel, Value: "g"}}},
		"unique":    {Meta: wire.Meta{Unique: "k"}},
		"start key": {Meta: wire.Meta{Start: "k"}},
		"alone":     {},
	} {
		for _, kind := range []Outcome{Done, Dead, Cancelled, Retried, Snoozed, Blocked, Unknown, Returned, Parked} {
			ended := kind == Done || kind == Dead || kind == Cancelled
			want := ended && (name != "alone" || kind == Cancelled)
			o := &outcome{kind: kind, run: &run{worker: w, msg: m}}
			if got := o.concernsOthers(); got != want {
				t.Errorf("%s, %s: %v, want %v", name, kind, got, want)
			}
		}
	}
}
