package isa95

import (
	"fmt"
	"testing"
)

// typicalCall is a Store of about 1 kB.
const typicalCall = `{"JobOrder":{"JobOrderID":"JO-7731","Description":[{"Locale":"en","Text":"Gearbox cover, batch 31"}],` +
	`"WorkMasterID":[{"ID":"WM-GEARBOX-COVER-3","Parameters":[{"ID":"variant","Value":"left"}]}],` +
	`"StartTime":"2026-05-04T06:00:00Z","EndTime":"2026-05-04T14:00:00Z","Priority":20,` +
	`"JobOrderParameters":[{"ID":"torque_nm","Value":84.7,"EngineeringUnits":{"UnitId":20053,"DisplayName":{"Text":"N·m"}}},` +
	`{"ID":"bolts","Value":[1,2,3,4,5,6,7,8]},{"ID":"label","Value":{"text":"A-7731","font":"mono"}}],` +
	`"PersonnelRequirements":[{"ID":"operator-2","Quantity":"1"}],` +
	`"EquipmentRequirements":[{"ID":"press-1","EquipmentUse":"bearing","Quantity":"1"},{"ID":"laser-2","Quantity":"1"}],` +
	`"MaterialRequirements":[{"MaterialClassID":"cover","MaterialDefinitionID":"cover-3","MaterialLotID":"L-88","Quantity":"25"},` +
	`{"MaterialClassID":"bearing","MaterialDefinitionID":"6204-2RS","Quantity":"50"}]},"Comment":[{"Locale":"en","Text":"urgent"}]}`

func BenchmarkUnmarshalJobOrder(b *testing.B) {
	body := []byte(typicalCall)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var call JobOrderCall
		if err := Unmarshal(body, &call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshalJobOrder(b *testing.B) {
	var call JobOrderCall
	if err := Unmarshal([]byte(typicalCall), &call); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeStateIndex100(b *testing.B) {
	index := StateIndex{Seq: 1, Scope: "m42", PublishedAt: "2026-11-21T00:30:51Z"}
	for i := range 100 {
		index.Jobs = append(index.Jobs, StateIndexEntry{JobOrderID: fmt.Sprint("JO-", i), State: State{NotAllowedToStart, Ready}.Elements()})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := index.Encode(Page); err != nil {
			b.Fatal(err)
		}
	}
}
