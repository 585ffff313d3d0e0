package mes

import (
	"strconv"
	"testing"

	"github.com/taktworks/takt/isa95"
)

func TestSettled(t *testing.T) {
	var s settled
	r := Receipt{JobResponseID: "r", Digest: "d"}
	if s.has("JO-1", r) {
		t.Error("an order that never was")
	}
	s.add("JO-1", r)
	if !s.has("JO-1", r) || s.has("JO-1", Receipt{"r", "another"}) || s.has("JO-2", r) {
		t.Error("a result is known by its order and its receipt")
	}
	s.add("JO-1", Receipt{"r", "another"}) // the id was used again
	if s.has("JO-1", r) || !s.has("JO-1", Receipt{"r", "another"}) {
		t.Error("the last result of an order counts")
	}
	for i := range maxSettled {
		s.add(isa95.JobOrderID(strconv.Itoa(i)), r)
	}
	if len(s.receipts) != maxSettled || len(s.line) != maxSettled || s.has("JO-1", Receipt{"r", "another"}) || !s.has("0", r) {
		t.Errorf("%d receipts, %d in line", len(s.receipts), len(s.line))
	}
}
