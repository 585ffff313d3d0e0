package isa95_test

import (
	"errors"
	"fmt"

	"github.com/taktworks/takt/isa95"
)

func ExampleNext() {
	s := isa95.Initial
	for _, m := range []isa95.Method{isa95.Store, isa95.Start, isa95.Run, isa95.Start, isa95.End, isa95.Clear} {
		next, ok := isa95.Next(s, m)
		if !ok {
			fmt.Println(m, "refused:", isa95.InvalidStatus)
			continue
		}
		fmt.Println(m, "->", next)
		s = next
	}
	// Output:
	// Store -> NotAllowedToStart_Ready
	// Start -> AllowedToStart_Ready
	// Run -> Running
	// Start refused: invalid job order status
	// End -> Ended_Completed
	// Clear -> EndState
}

func ExampleUnmarshal() {
	var call isa95.JobOrderCall
	err := isa95.Unmarshal([]byte(`{"job_order": {"job_order_id": 7, "priority": "3", "colour": "red"}}`), &call)
	fmt.Println(call.JobOrder.JobOrderID, *call.JobOrder.Priority, err)

	err = isa95.Unmarshal([]byte(`{"JobOrder": {"JobOrderID": "JO-7", "Priority": 7.9}}`), &call)
	var refused *isa95.DecodeError
	if errors.As(err, &refused) {
		fmt.Printf("%s | %s | %s\n", refused.Pointer, refused.Value, refused.Rule)
	}
	// Output:
	// 7 3 <nil>
	// /JobOrder/Priority | 7.9 | must be an integer
}

func ExampleMarshal() {
	priority := 3
	text, err := isa95.Marshal(isa95.JobOrderAndState{
		JobOrder: &isa95.JobOrder{
			JobOrderID: "JO-7", Priority: &priority,
			JobOrderParameters: []isa95.Parameter{{ID: "torque", Value: []byte(`42.50`)}},
		},
		State: isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}.Elements(),
	})
	fmt.Println(string(text), err)
	// Output: {"JobOrder":{"JobOrderID":"JO-7","Priority":3,"JobOrderParameters":[{"ID":"torque","Value":42.50}]},"State":[{"StateText":{"Locale":"en","Text":"NotAllowedToStart"},"StateNumber":1},{"StateText":{"Locale":"en","Text":"Ready"},"StateNumber":2}]} <nil>
}

func ExampleStateIndex_Encode() {
	index := isa95.StateIndex{Seq: 8, Scope: "m42", PublishedAt: "2026-11-21T00:30:51Z", Jobs: []isa95.StateIndexEntry{
		{JobOrderID: "JO-21", State: isa95.State{Top: isa95.Aborted}.Elements(), HasResult: true},
	}}
	for _, spelling := range []isa95.Spelling{isa95.Page, isa95.Wire} {
		text, err := index.Encode(spelling)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"seq":8,"scope":"m42","published_at":"2026-11-21T00:30:51Z","jobs":[{"job_order_id":"JO-21","state":[{"state_text":{"text":"Aborted","locale":"en"},"state_number":6}],"has_result":true}]} <nil>
	// {"seq":8,"scope":"m42","published_at":"2026-11-21T00:30:51Z","jobs":[{"job_order_id":"JO-21","state":[{"StateText":{"Locale":"en","Text":"Aborted"},"StateNumber":6}],"has_result":true}]} <nil>
}
