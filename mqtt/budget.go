package mqtt

import "sync"

// budget bounds the bytes of messages that came over one Conn and were not acknowledged or left to the broker. A reader that
// would exceed it waits, and with it the network, so that the broker keeps the rest.
type budget struct {
	mu      sync.Mutex
	changed sync.Cond
	used    int
	most    int // 0: no bound
}

func newBudget(most int) *budget {
	b := &budget{most: most}
	b.changed.L = &b.mu
	return b
}

// take waits for room for n bytes; a message larger than the whole budget waits until it is alone. false: over, which is asked
// again at every wake, said that the room is not needed any more.
func (b *budget) take(n int, over func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case over():
			return false
		case b.takeNow(n):
			return true
		}
		b.changed.Wait()
	}
}

// takeNow takes room for n bytes if there is some. b.mu is held.
func (b *budget) takeNow(n int) bool {
	room := b.most == 0 || b.used == 0 || b.used+n <= b.most
	if room {
		b.used += n
	}
	return room
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.changed.Broadcast()
}

// wake has those that wait ask over.
func (b *budget) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed.Broadcast()
}

func (b *budget) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// messageBytes is what a message in hand takes beside its payload and texts, about.
const messageBytes = 1 << 10

// size is about what a takes in memory.
func (a *arrival) size() int {
	n := messageBytes + len(a.Payload) + len(a.Topic) + len(a.ContentType) + len(a.ResponseTopic) + len(a.CorrelationData)
	for _, u := range a.User {
		n += 32 + len(u.Name) + len(u.Value)
	}
	return n
}
