package jobcontrol_test

import (
	"testing"

	"github.com/taktworks/takt/internal/testenv/long"
)

// As TestEventsArriveInOrder, with many orders.
func TestEventsOf5000OrdersArriveInOrder(t *testing.T) {
	long.Test(t, "runs thousands of orders")
	eventsArriveInOrder(t, 5000)
}
