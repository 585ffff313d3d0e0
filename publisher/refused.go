package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/mqtt"
)

// refused are the topics that the broker does not take. Each is held and sent again with growing pauses, last and alone; until the
// broker has taken them the cursor stays, while everything else is published.
//
// Some brokers close the connection as well, or instead of an answer. So when connections were lost in a row, messages are sent one by
// one. One that was alone in flight at a loss is held, but not proven: the link may have failed. It counts as refused when another one
// passes on the next connection, and is no longer suspect when that is lost, too. Only messages count: that a broker tells what it has
// retained says nothing of the link. A comparison with the broker sends nothing that is held: everything else goes first.
type refused struct {
	topics  map[string]*held
	suspect string // lost alone in flight
	fresh   bool   // in this turn
	broke   bool   // this turn lost the connection while it published
	row     int    // turns in a row that did
	denied  bool   // the broker refused the last message: it may close the connection for it when the next one is on its way
}

// held is a topic that is not published before due.
type held struct {
	topicOf
	Refusal // no Err: not proven
	due     time.Time
	tries   int
	trying  bool // this turn sends it
	logged  bool
}

// Refusal is a retained message that the broker refuses.
type Refusal struct {
	Topic string
	Bytes int // of the payload
	Err   error
}

func (r Refusal) String() string {
	return fmt.Sprintf("the broker refuses %s (%d bytes): %v", r.Topic, r.Bytes, r.Err)
}

const (
	rowOfLosses  = 2 // then one by one
	refusedFirst = 500 * time.Millisecond
	refusedLast  = time.Minute
	unprovenLast = 5 * time.Second
)

var (
	errUnproven = errors.New("publisher: the connection was lost with this message alone in flight; it is sent again within 5 s")
	errCloses   = errors.New("publisher: the broker closes the connection on this message")
)

func newRefused() *refused { return &refused{topics: make(map[string]*held)} }

// named are the refusals, by topic.
func (r *refused) named() []Refusal {
	var all []Refusal
	for _, h := range r.topics {
		if h.Err != nil {
			all = append(all, h.Refusal)
		}
	}
	slices.SortFunc(all, func(a, b Refusal) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}

// hold puts the topic of a message off; why is nil if it is not proven that the broker refuses it.
func (r *refused) hold(m *message, why error) *held {
	h := r.topics[m.topic]
	if h == nil {
		h = &held{topicOf: m.of, due: time.Now().Add(refusedFirst)}
		r.topics[m.topic] = h
	}
	h.Refusal, h.trying = Refusal{m.topic, len(m.payload), cmp.Or(why, h.Err)}, false
	return h
}

// refuse notes that the broker refused a message.
func (r *refused) refuse(m *message, why error) *held {
	r.denied = errors.As(why, new(*mqtt.PublishError))
	return r.hold(m, why)
}

// lost notes that a message could not be delivered for another reason; alone: it was alone in flight.
func (r *refused) lost(m *message, alone bool, err error) {
	r.broke = r.broke || errors.Is(err, mqtt.ErrDown)
	if !alone || r.denied || !errors.Is(err, mqtt.ErrLost) {
		return
	}
	r.hold(m, nil)
	if r.suspect == "" {
		r.suspect, r.fresh = m.topic, true
	}
}

// taken notes that the broker has a message, and returns the suspect, if there is one: it is proven now that the broker refuses it.
func (r *refused) taken(m *message) (proven *held) {
	delete(r.topics, m.topic)
	if proven = r.topics[r.suspect]; proven != nil {
		proven.Err = errCloses
	}
	r.suspect, r.denied = "", false
	return proven
}

// turned notes the end of a turn.
func (r *refused) turned(err error) {
	if r.broke {
		r.row++
	} else if err == nil {
		r.row = 0
	}
	if errors.Is(err, mqtt.ErrDown) && !r.fresh {
		r.suspect = ""
	}
	r.broke, r.fresh, r.denied = false, false, false
	for topic, h := range r.topics {
		if h.trying && err == nil { // it was not sent: it is as it shall be, or not wanted any more
			delete(r.topics, topic)
		}
		h.trying = false
	}
}

// try lets this turn send what is due, and puts the attempt after this one off: whatever becomes of this one, even if the connection ends with it.
func (r *refused) try() (due []topicOf) {
	now := time.Now()
	for _, h := range r.topics {
		if now.Before(h.due) {
			continue
		}
		last := refusedLast
		if h.Err == nil {
			last = unprovenLast
		}
		h.trying, h.tries = true, h.tries+1
		h.due = now.Add(min(refusedFirst<<min(h.tries, 20), last))
		due = append(due, h.topicOf)
	}
	return due
}
