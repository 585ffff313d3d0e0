package mqtt

import "sync"

// maxInflow bounds what has come and was not dispatched yet: as much as a broker may send
// without acknowledgements. Beyond it, which only QoS 0 reaches, the network waits.
const maxInflow = 1<<16 - 1

// fewArrivals are as many as a queue keeps room for.
const fewArrivals = 256

// inflow is the queue between the reader of a connection and its dispatcher, so that a handler
// may publish on the same connection and wait for the PUBACK.
type inflow struct {
	budget  *budget // of the Conn
	mu      sync.Mutex
	changed sync.Cond
	waiting []arrival
	ended   bool
}

func newInflow(b *budget) *inflow {
	q := &inflow{budget: b}
	q.changed.L = &q.mu
	return q
}

// put waits for room, and drops a when the connection is over: the broker sends it again.
func (q *inflow) put(a arrival) {
	if !q.budget.take(a.size(), q.over) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) >= maxInflow && !q.ended {
		q.changed.Wait()
	}
	if q.ended {
		q.budget.give(a.size())
		return
	}
	q.waiting = append(q.waiting, a)
	q.changed.Broadcast()
}

func (q *inflow) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// end makes run return once everything that came is dispatched.
func (q *inflow) end() {
	q.mu.Lock()
	q.ended = true
	q.changed.Broadcast()
	q.mu.Unlock()
	q.budget.wake()
}

// run dispatches until end.
func (q *inflow) run(dispatch func(arrival)) {
	var done []arrival // room for those to come
	for {
		q.mu.Lock()
		for len(q.waiting) == 0 && !q.ended {
			q.changed.Wait()
		}
		batch := q.waiting
		q.waiting = done[:0]
		q.changed.Broadcast()
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
