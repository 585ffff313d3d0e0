package mes

import (
	"strconv"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
)

// TestBookForgets: past orders are kept for keepGone, and no more than maxGone of them.
func TestBookForgets(t *testing.T) {
	b, now := newBook(), time.Unix(1_800_000_000, 0)
	b.accept("lost")
	b.lose("lost", false, now)
	b.handOver("JO-1", Receipt{Digest: "1"})
	b.settle(Settlement{Seq: 1, Gone: []isa95.JobOrderID{"JO-1"}}, now.Add(time.Hour))
	b.accept("lost") // sent again: no longer past
	b.settle(Settlement{Seq: 2}, now.Add(keepGone))
	if b.order("JO-1").State != OrderGone {
		t.Error("forgotten too early")
	}
	b.settle(Settlement{Seq: 3}, now.Add(keepGone+time.Hour))
	if b.order("JO-1").State != OrderUnknown || b.order("lost").State != OrderAccepted || b.gone != 0 || len(b.past) != 0 {
		t.Errorf("%+v", b)
	}

	later := now.Add(2 * keepGone)
	for i := range maxGone + 10 {
		id := isa95.JobOrderID(strconv.Itoa(i))
		b.handOver(id, Receipt{Digest: "1"})
		b.settle(Settlement{Seq: int64(i), Gone: []isa95.JobOrderID{id}}, later)
	}
	if b.gone != maxGone || len(b.orders) != maxGone+1 || len(b.past) != maxGone || len(b.open) != 1 {
		t.Errorf("%d gone, %d orders, %d past, %d open", b.gone, len(b.orders), len(b.past), len(b.open))
	}
	if b.order("9").State != OrderUnknown || b.order("10").State != OrderGone {
		t.Error("not the oldest were forgotten")
	}
}

// TestHad: which results were handed over before.
func TestHad(t *testing.T) {
	r, other := Receipt{"r", "1"}, Receipt{"r", "2"}
	for name, row := range map[string]struct {
		order      Order
		same, anew bool
	}{
		"unknown":                    {Order{}, false, false},
		"gone":                       {Order{State: OrderGone, Receipt: r}, true, false}, // another order may have used the id
		"gone, stored once":          {Order{State: OrderGone, Once: true, Receipt: r}, true, true},
		"handed over":                {Order{State: OrderHanded, Receipt: r}, true, false},
		"handed over, stored once":   {Order{State: OrderHanded, Once: true, Receipt: r}, true, true}, // and over once more, with another result
		"gone without result":        {Order{State: OrderGone, Once: true}, false, false},
		"lost":                       {Order{State: OrderLost, Once: true}, false, false},
		"accepted after it was lost": {Order{State: OrderAccepted, Once: true, Lost: 1}, false, false},
	} {
		if row.order.had(r) != row.same || row.order.had(other) != row.anew {
			t.Error(name)
		}
	}
}
