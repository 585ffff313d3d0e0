//go:build faults

package jobcontrol_test

import "testing"

// As TestEventsArriveInOrder, with many orders.
func TestEventsOf5000OrdersArriveInOrder(t *testing.T) { eventsArriveInOrder(t, 5000) }
