package jobcontrol_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// What ended long enough ago and was not cleared is cleared, as by an MES, once. What runs, what ended later and what has no response that can be read stays.
func TestAbandonedOrdersAreCleared(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, id := range []string{"JO-1", "JO-2", "JO-3", "JO-4"} {
		p.do(t, isa95.StoreAndStart, order(id), isa95.NoError)
	}
	for _, id := range []string{"JO-1", "JO-2", "JO-3"} {
		p.do(t, isa95.Abort, id, isa95.NoError)
	}
	response := p.keys.JobResponse("JO-3-response")
	if n, err := p.rdb.Do(t.Context(), p.rdb.B().Exists().Key(response).Build()).AsInt64(); n != 1 || err != nil {
		t.Fatalf("no response at %s: %v", response, err)
	}
	if err := p.rdb.Do(t.Context(), p.rdb.B().Set().Key(response).Value("{").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	round := func(after time.Duration, want int) {
		t.Helper()
		if n, err := p.ClearAbandoned(t.Context(), after); n != want || err != nil {
			t.Errorf("after %v: %d cleared (%v), want %d", after, n, err, want)
		}
	}
	round(time.Hour, 0)
	round(-time.Minute, 2) // as if it were a minute later
	round(-time.Minute, 0)
	for id, want := range map[string]string{"JO-1": "EndState", "JO-2": "EndState", "JO-3": "Aborted", "JO-4": "AllowedToStart_Ready"} {
		if got := p.state(t, id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	p.do(t, isa95.Clear, "JO-1", isa95.InvalidStatus)
}
