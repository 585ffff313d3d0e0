package mqtt

import "sync"

// budget bounds the bytes of messages that came over one Conn and were not acknowledged or left to the broker. A reader that
// would exceed it waits, and with it the network, so that the broker keeps the rest.
type budget struct {
	mu    sync.Mutex // of the queues of the Conn's connections, too
	freed sync.Cond  // there may be room, or a connection is over
	used  int
	most  int // 0: no bound
}

func newBudget(most int) *budget {
	b := &budget{most: most}
	b.freed.L = &b.mu
	return b
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.freed.Broadcast()
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

// maxInflow bounds what has come and was not dispatched yet: as much as a broker may send
// without acknowledgements. Beyond it, which only QoS 0 reaches, the network waits.
const maxInflow = 1<<16 - 1

// fewArrivals are as many as a queue keeps room for.
const fewArrivals = 256

// inflow is the queue between the reader of a connection and its dispatcher, so that a handler
// may publish on the same connection and wait for the PUBACK.
type inflow struct {
	*budget           // of the Conn; its mutex guards what follows
	more    sync.Cond // something waits, or the connection is over
	waiting []arrival
	ended   bool
}

func newInflow(b *budget) *inflow {
	q := &inflow{budget: b}
	q.more.L = &b.mu
	return q
}

// put waits for room, and drops a when the connection is over: the broker sends it again.
func (q *inflow) put(a arrival) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n := a.size(); !q.ended; q.freed.Wait() {
		if len(q.waiting) < maxInflow && (q.most == 0 || q.used == 0 || q.used+n <= q.most) { // one that is larger than all the room waits until it is alone
			q.used += n
			q.waiting = append(q.waiting, a)
			q.more.Signal()
			return
		}
	}
}

// end makes run return once everything that came is dispatched.
func (q *inflow) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.more.Signal()
	q.freed.Broadcast()
}

// run dispatches until end.
func (q *inflow) run(dispatch func(arrival)) {
	var done []arrival // room for those to come
	for {
		q.mu.Lock()
		for len(q.waiting) == 0 && !q.ended {
			q.more.Wait()
		}
		batch := q.waiting
		q.waiting = done[:0]
		if len(batch) == maxInflow {
			q.freed.Broadcast()
		}
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, a := range batch {
			dispatch(a)
		}
		clear(batch)
		if done = batch; cap(done) > fewArrivals { // a flood is over some time
			done = nil
		}
	}
}
