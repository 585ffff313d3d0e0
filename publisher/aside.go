package publisher

import (
	"errors"
	"fmt"
	"sync"

	"github.com/taktworks/takt/mqtt"
)

// aside are the topics that are not published until they are tried again, because the broker refused them. Some brokers
// close the connection as well, or instead; such a message must not keep all others from being published. So when
// connections were lost in a row while messages were in flight, they are sent one by one, and what was alone in
// flight twice when one was lost counts as refused. A message that was sent right behind a refused one is not judged: the
// connection may be lost for the refused one, and the message comes again without it.
type aside struct {
	mu     sync.Mutex
	row    int  // rounds in a row that lost the connection while they published
	broke  bool // this round did
	alone  bool // messages are sent one by one
	denied bool // the broker refused the last message of this round
	losses map[string]int
	why    map[string]error
}

const (
	rowOfLosses = 2 // then one by one
	lossesAlone = 2 // then refused
)

func newAside() *aside { return &aside{losses: make(map[string]int), why: make(map[string]error)} }

// inFlight is how many messages may be in flight together.
func (a *aside) inFlight(usually int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alone = a.row >= rowOfLosses; a.alone {
		return 1
	}
	return usually
}

// refusal is why a topic is not to be published now, nil if it is.
func (a *aside) refusal(topic string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why[topic]
}

// refused puts a topic aside.
func (a *aside) refused(topic string, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why[topic] = why
	if errors.As(why, new(*mqtt.PublishError)) {
		a.denied = true
	}
}

// lost notes that a message could not be delivered for another reason.
func (a *aside) lost(topic string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broke = a.broke || errors.Is(err, mqtt.ErrDown)
	if !a.alone || a.denied || !errors.Is(err, mqtt.ErrLost) {
		return
	}
	if a.losses[topic]++; a.losses[topic] >= lossesAlone {
		a.why[topic] = fmt.Errorf("publisher: the broker closes the connection on this message: %w", err)
	}
}

// taken notes that the broker has a message.
func (a *aside) taken(topic string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.losses, topic)
	a.denied = false
}

// turned notes the end of a round; well: nothing failed.
func (a *aside) turned(well bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broke {
		a.row++
	} else if well {
		a.row = 0
	}
	a.broke, a.denied = false, false
}

// again lets everything be tried once more.
func (a *aside) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.why)
	for topic := range a.losses {
		a.losses[topic] = lossesAlone - 1
	}
}
