package jobstore_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Until when each command to a station is due, by the state of its order.
func TestStationCommandsAreDue(t *testing.T) {
	states := map[string]isa95.State{
		"new": {Top: isa95.NotAllowedToStart, Sub: isa95.Ready}, "startable": {Top: isa95.AllowedToStart, Sub: isa95.Ready}, "runs": {Top: isa95.Running},
		"paused": {Top: isa95.Interrupted, Sub: isa95.Suspended}, "ended": {Top: isa95.Ended, Sub: isa95.Completed}, "aborted": {Top: isa95.Aborted}, "gone": {Top: isa95.EndState},
	}
	for method, due := range map[isa95.Method]string{
		isa95.Start: "startable", isa95.Update: "startable", isa95.RevokeStart: "new ended aborted gone", isa95.Pause: "paused", isa95.Resume: "runs",
		isa95.Stop: "ended aborted gone", isa95.Abort: "ended aborted gone", isa95.Cancel: "ended aborted gone",
	} {
		route := jobstore.Route{Scope: "m42", Method: method}
		for name, state := range states {
			why := route.StationObsolete("c-1", &jobstore.StoredOrder{Scope: "m42", State: state, Station: jobstore.Station{Start: "c-1"}})
			if want := strings.Contains(" "+due+" ", " "+name+" "); (why == "") != want {
				t.Errorf("%s of an order that is %s: %q", method, state, why)
			}
		}
		if route.StationObsolete("c-1", nil) == "" || route.StationObsolete("c-1", &jobstore.StoredOrder{Scope: "m43"}) == "" {
			t.Errorf("%s of an order that is gone, or of another station", method)
		}
	}
	again := jobstore.StoredOrder{Scope: "m42", State: states["startable"], Station: jobstore.Station{Start: "c-2"}}
	if (jobstore.Route{Scope: "m42", Method: isa95.Start}).StationObsolete("c-1", &again) == "" {
		t.Error("a Start that was revoked and sent anew")
	}
}
