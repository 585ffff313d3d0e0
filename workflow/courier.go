package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

const (
	couriers     = 64       // messages from a shard to one other that are on their way at once
	laneBytes    = 32 << 20 // messages from a shard to one other that a worker holds; behind those the outbox waits
	messageBytes = 1 << 10  // what a message counts beside its text
	settlePage   = 256      // messages that one commit takes out of the outbox
	firstAgain   = 50 * time.Millisecond
	lastAgain    = 5 * time.Second
	earlyTime    = 10 * time.Minute // how long an event waits for an execution that nobody has heard of: its start may be behind it
)

// courier carries messages of a shard to the others. Each of those has a lane of its own, so that one whose master is away keeps only its own messages.
type courier struct {
	w     *Worker
	from  *shard
	lanes []*lane // by shard
	all   sync.WaitGroup
	stop  context.Context // of run

	mu       sync.Mutex
	arrived  []*stream.Entry // still to be taken out of the outbox
	settling bool            // somebody does that
}

// lane is what is on its way to one shard.
type lane struct {
	k  *courier
	to *shard

	mu      sync.Mutex
	waiting []*stream.Entry
	aside   map[string][]*stream.Entry // by whom they are for: they were refused there, and retry sees to them
	running int
	bytes   int           // of what waits and runs
	freed   chan struct{} // closed and renewed when bytes become fewer
	told    time.Time     // when a failure was last written to the log
}

func (w *Worker) courier(s *shard) *courier {
	k := &courier{w: w, from: s}
	for _, to := range w.c.shards {
		k.lanes = append(k.lanes, &lane{k: k, to: to, aside: make(map[string][]*stream.Entry), freed: make(chan struct{})})
	}
	return k
}

// run carries until ctx ends. What is on its way then has WorkerOptions.Drain, and what waits is left to other workers.
func (k *courier) run(ctx context.Context) error {
	k.stop = ctx
	g := &stream.Group{
		Worker: k.w.alive[k.from.n], Streams: []string{k.from.keys.Outbox()}, Name: k.from.keys.Group(), Slots: couriers, MaxDeliveries: -1, Drain: k.w.opts.Drain, Log: k.w.c.log,
		Handle: k.handle, Hopeless: func(err error) bool { return errors.Is(err, errNoMessage) },
	}
	err := g.Run(ctx)
	k.all.Wait()
	return err
}

// errNoMessage: an entry of the outbox is none of ours. It becomes a dead letter, for nobody can ever carry it.
var errNoMessage = errors.New("workflow: an entry of the outbox is no message")

// messages are the words that cross shards, and how many follow each at least: what act in instance.lua takes.
var messages = map[string]int{"event": 4, "start": 11, "acquire": 5, "pass": 6, "release": 4, "enter": 3}

// shardOf is which shard a message is for. errNoMessage: it is none.
func shardOf(e *stream.Entry) (int, error) {
	n, err := strconv.Atoi(e.Fields["s"])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: field s %q: must be the number of a shard", errNoMessage, clip(e.Fields["s"]))
	}
	least, known := messages[e.Fields["1"]]
	if !known {
		return 0, fmt.Errorf("%w: field 1 %q: must be what a message does", errNoMessage, clip(e.Fields["1"]))
	}
	if len(e.Fields) < least+2 {
		return 0, fmt.Errorf("%w: %d fields: must be %d at least for %q", errNoMessage, len(e.Fields), least+2, e.Fields["1"])
	}
	for i := 1; i < len(e.Fields); i++ {
		if _, ok := e.Fields[strconv.Itoa(i)]; !ok {
			return 0, fmt.Errorf("%w: field %d is missing: must be there with %d fields", errNoMessage, i, len(e.Fields))
		}
	}
	return n, nil
}

// handle leaves a message to the lane of its shard.
func (k *courier) handle(ctx context.Context, e *stream.Entry) (stream.Result, error) {
	n, err := shardOf(e)
	if err != nil {
		return stream.Ack, err
	}
	if n >= len(k.lanes) { // for others it may be a message: this process has another number of shards than they
		k.w.c.log.Error("workflow: a message is left alone until this process ends, it is for a shard that there is not", "from", k.from.n, "to", n, "shards", len(k.lanes), "entry", e.ID)
		context.AfterFunc(k.stop, func() { e.End(false) })
		return stream.Later, nil
	}
	if err := k.lanes[n].put(ctx, e); err != nil {
		return stream.Ack, err
	}
	return stream.Later, nil
}

// weight is what a message counts in its lane.
func weight(e *stream.Entry) int {
	n := messageBytes
	for name, value := range e.Fields {
		n += len(name) + len(value)
	}
	return n
}

// put blocks while the lane is full, until ctx ends.
func (l *lane) put(ctx context.Context, e *stream.Entry) error {
	size := weight(e)
	for {
		l.mu.Lock()
		if l.bytes == 0 || l.bytes+size <= laneBytes {
			l.bytes += size
			l.enqueue(e)
			l.mu.Unlock()
			return nil
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-freed:
		}
	}
}

// enqueue lets messages wait for their turn; mu is held.
func (l *lane) enqueue(list ...*stream.Entry) {
	l.waiting = append(l.waiting, list...)
	for range min(len(list), couriers-l.running) {
		l.running++
		l.k.all.Go(l.work)
	}
}

// work carries one message after the other until none waits.
func (l *lane) work() {
	for e := l.next(); e != nil; e = l.next() {
		if l.deliver(e) {
			l.left(e)
		}
	}
}

func (l *lane) next() *stream.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.running--
		return nil
	}
	e := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	return e
}

func (l *lane) left(e *stream.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= weight(e)
	close(l.freed)
	l.freed = make(chan struct{})
}

// deliver repeats until the message is there, its entry is another worker's, or the courier stops. false: who it is for cannot take it for now, and it was put aside. The
// pauses are for what keeps all messages of the shard waiting.
func (l *lane) deliver(e *stream.Entry) (done bool) {
	again := l.k.stop.Err() == nil
	for pause := firstAgain; again; pause = min(2*pause, lastAgain) {
		err := l.carry(e)
		if err == nil {
			return true
		}
		l.failed(e, err)
		if _, ok := errors.AsType[*rueidis.RedisError](err); ok && !redis.Waits(err) { // it is about what the message is for
			l.setAside(e)
			return false
		}
		again = lifecycle.Sleep(l.k.stop, pause)
	}
	e.End(false)
	return true
}

// carry tries once. nil: the message is there, or its entry is another worker's.
func (l *lane) carry(e *stream.Entry) error {
	err := l.k.w.c.carry(e.Context(), l.k.from, l.to, e)
	if err == nil {
		l.k.settle(e)
	} else if e.Context().Err() != nil {
		return nil
	}
	return err
}

// addressee is the instance, or the gate, that a message is for.
func addressee(e *stream.Entry) string { return e.Fields["2"] }

// setAside leaves a message that was refused to who tries again for all with its addressee. It counts in its lane until it is there.
func (l *lane) setAside(e *stream.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := addressee(e)
	_, tried := l.aside[to]
	l.aside[to] = append(l.aside[to], e)
	if !tried {
		l.k.all.Go(func() { l.retry(to) })
	}
}

// retry tries what was put aside for one addressee, one message after each pause, until one is there: then all have their turn again. At the stop of the courier they are left to
// other workers.
func (l *lane) retry(to string) {
	for pause := firstAgain; lifecycle.Sleep(l.k.stop, pause); pause = min(2*pause, lastAgain) {
		l.mu.Lock()
		e := l.aside[to][0]
		l.mu.Unlock()
		err := l.carry(e)
		if err == nil {
			l.left(e)
			l.mu.Lock()
			l.enqueue(l.aside[to][1:]...)
			delete(l.aside, to)
			l.mu.Unlock()
			return
		}
		l.failed(e, err)
		l.mu.Lock()
		l.aside[to] = append(l.aside[to][1:], e) // another may pass where this one does not
		l.mu.Unlock()
	}
	l.mu.Lock()
	list := l.aside[to]
	delete(l.aside, to)
	l.mu.Unlock()
	for _, e := range list {
		e.End(false)
		l.left(e)
	}
}

// failed says once a minute that messages wait.
func (l *lane) failed(e *stream.Entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.told) > time.Minute {
		l.told = time.Now()
		l.k.w.c.log.Warn("workflow: messages for a shard wait, they are tried again", "from", l.k.from.n, "to", l.to.n, "for", addressee(e), "waiting", len(l.waiting), "error", err)
	}
}

// settle takes a message out of the outbox that is where it belongs, with others of which that is so by then.
func (k *courier) settle(e *stream.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.arrived = append(k.arrived, e)
	if k.settling {
		return
	}
	k.settling = true
	for len(k.arrived) > 0 {
		batch := k.arrived[:min(len(k.arrived), settlePage)]
		k.arrived = k.arrived[len(batch):]
		k.mu.Unlock()
		k.settleAll(batch)
		k.mu.Lock()
	}
	k.arrived, k.settling = nil, false
}

// settleAll repeats until they are out, or another worker's: then that one finds that they have arrived.
func (k *courier) settleAll(batch []*stream.Entry) {
	for pause := firstAgain; len(batch) > 0; pause = min(2*pause, lastAgain) {
		first := batch[0]
		var same, others []*stream.Entry // under its token, or not
		c := commit.New()
		c.Expect(first.Heartbeat(), []byte(first.Token()))
		for _, e := range batch {
			if e.Token() != first.Token() {
				others = append(others, e)
				continue
			}
			same = append(same, e)
			c.XAck(e.Stream, e.Group(), e.ID)
			c.XDel(e.Stream, e.ID)
		}
		ctx, cancel := context.WithTimeout(first.Context(), callTimeout)
		_, err := c.Run(ctx, k.from.c.rdb)
		cancel()
		switch {
		case err == nil:
			for _, e := range same {
				e.End(true)
			}
			batch = others
		case errors.Is(err, commit.ErrConflict) || first.Context().Err() != nil:
			batch = others
		default:
			if !redis.Away(err) {
				k.w.c.log.Warn("workflow: messages that arrived stay in the outbox for now", "from", k.from.n, "messages", len(same), "error", err)
			}
			lifecycle.Sleep(first.Context(), pause)
		}
	}
}

// carry does what a message says on the shard that it is for, once: by its place in the outbox. Messages may overtake each other.
func (c *Client) carry(ctx context.Context, from, to *shard, e *stream.Entry) error {
	words := make([]string, 0, len(e.Fields)+1)
	for i := 1; i < len(e.Fields); i++ {
		words = append(words, e.Fields[strconv.Itoa(i)])
	}
	switch words[0] {
	case "event":
		words = append(words, milliseconds(earlyTime))
	case "enter":
		words = append(words, from.name(to), to.name(from))
	}
	// No instance has an empty id, so this is never taken for an event of one.
	_, err := to.actOnce(ctx, fmt.Sprintf("\n%d\n%s", from.n, e.ID), max(c.opts.KnownFor, defaultKnownFor), to.keys.Run(words[1]), words...)
	return err
}
