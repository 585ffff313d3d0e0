package publisher

import (
	"testing"

	"github.com/taktworks/takt/mqtt"
)

// A broker that closes the connection on a refused message may do so when the next one is on its way. That one is not taken for
// refused, however often it comes behind a refused one; it is when the connection is lost for it alone.
func TestMessageBehindARefusedOneIsNotJudged(t *testing.T) {
	const refused, behind = "app/jobs/denied/state-index", "app/jobs/m42/state-index"
	a := newAside()
	round := func(send func()) {
		t.Helper()
		alone := a.inFlight(128) == 1
		send()
		if a.lost(behind, mqtt.ErrLost); !alone {
			t.Fatal("messages are sent together")
		}
		a.turned(false)
	}
	for range rowOfLosses {
		a.inFlight(128)
		a.lost(refused, mqtt.ErrLost)
		a.turned(false)
	}
	for range 3 * lossesAlone {
		round(func() { a.refused(refused, &mqtt.PublishError{Topic: refused, Code: 0x87}) })
		if why := a.refusal(behind); why != nil {
			t.Fatal(why)
		}
		a.again()
	}
	round(func() {
		a.refused(refused, &mqtt.PublishError{Topic: refused, Code: 0x87})
		a.taken("app/jobs/m42/order/JO-1")
	})
	round(func() {})
	if a.refusal(behind) == nil {
		t.Errorf("the connection was lost %d times while it was alone in flight, and it is sent again at once", lossesAlone)
	}
}
