package publisher

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// refusals are the topics that the broker refused. They are tried again with growing pauses; until the broker has taken
// them the cursor stays, while everything else is published.
type refusals struct {
	topics map[topicOf]Refusal
	at     time.Time // of the next attempt
	round  int
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
	refusedFirst = 500 * time.Millisecond
	refusedLast  = time.Minute
)

func newRefusals() *refusals { return &refusals{topics: make(map[topicOf]Refusal)} }

func (r *refusals) empty() bool { return len(r.topics) == 0 }

func (r *refusals) has(t topicOf) bool {
	_, has := r.topics[t]
	return has
}

// named are the refusals of messages, by topic.
func (r *refusals) named() []Refusal {
	var all []Refusal
	for _, one := range r.topics {
		if one.Topic != "" {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Refusal) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}

// due is when the topics are tried again, false if there are none.
func (r *refusals) due() (time.Time, bool) { return r.at, !r.empty() }

// add notes a refusal, or with the zero Refusal that a topic waits for another one that was refused; first is false if the topic was refused before.
func (r *refusals) add(t topicOf, why Refusal) (first bool) {
	if r.empty() {
		r.round, r.at = 0, time.Now().Add(refusedFirst)
	}
	first = !r.has(t)
	r.topics[t] = why
	return first
}

// settled forgets a topic that the broker has taken, or that is not wanted any more.
func (r *refusals) settled(t topicOf) { delete(r.topics, t) }

// try says whether it is time to try them again, and if so puts the attempt after this one off: whatever becomes of this one, even
// if the connection ends with it.
func (r *refusals) try() bool {
	now := time.Now()
	if r.empty() || now.Before(r.at) {
		return false
	}
	r.round++
	r.at = now.Add(min(refusedFirst<<min(r.round, 20), refusedLast))
	return true
}
