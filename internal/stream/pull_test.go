package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// takers take what they asked for and keep it until they end it.
type takers struct {
	group  *Group
	asking atomic.Int64
	took   chan *Entry
}

func newTakers(g Group) *takers {
	p := &takers{group: &g, took: make(chan *Entry, 1000)}
	g.Free = func() int { return int(p.asking.Load()) }
	g.Handle = func(_ context.Context, en *Entry) (Result, error) {
		p.asking.Add(-1)
		p.took <- en
		return Later, nil
	}
	return p
}

// ask lets n more of them ask.
func (p *takers) ask(n int) {
	p.asking.Add(int64(n))
	p.group.Wake()
}

func (p *takers) take(t *testing.T, n int) (taken []*Entry) {
	t.Helper()
	for range n {
		taken = append(taken, testenv.Take(t, "entry for a taker", p.took))
	}
	return taken
}

// settle acknowledges and deletes in a commit, as a taker does.
func (m *member) settle(en *Entry) error {
	c := commit.New()
	en.Settle(c)
	c.Incr(m.e.keys.PubSeq("settled"))
	_, err := c.Run(context.Background(), m.rdb)
	return err
}

// done settles an entry and ends it.
func (m *member) done(en *Entry) {
	m.e.t.Helper()
	if err := m.settle(en); err != nil {
		m.e.t.Error(err)
	}
	en.End(true)
}

func (e *env) settled(want int64) {
	e.t.Helper()
	if n := e.number("GET", e.keys.PubSeq("settled")); n != want {
		e.t.Errorf("settled %d times, want %d", n, want)
	}
}

// readerCalls is how many commands the server has run that are a reader's, those of its scripts included.
func (e *env) readerCalls() (n int) {
	e.t.Helper()
	for _, c := range []string{"xreadgroup", "xpending", "xclaim", "xinfo|consumers", "xgroup|create", "client|id", "client|unblock"} {
		n += e.calls(c)
	}
	return n
}

// beats waits until the heartbeat was renewed n times, one each third of the time to live.
func (e *env) beats(n int) {
	e.t.Helper()
	before := e.calls("pexpire")
	e.eventually("heartbeats", func() bool { return e.calls("pexpire") >= before+n })
}

// beatsNow is beats for a worker that is made to renew its heartbeat at once.
func (m *member) beatsNow(n int) {
	m.e.t.Helper()
	for range n {
		before := m.e.calls("pexpire")
		m.worker.doubt()
		m.e.eventually("a heartbeat", func() bool { return m.e.calls("pexpire") > before })
	}
}

func TestFreeSaysHowManyAreRead(t *testing.T) {
	long.Test(t, "waits for heartbeats")
	for name, streams := range map[string]int{"one stream": 1, "three streams": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, testenv.Redis(t))
			names := []string{e.stream}
			if streams > 1 {
				names = e.three()
			}
			for _, s := range names {
				e.fill(s, 20)
			}
			pending := func() (n int64) {
				for _, s := range names {
					n += e.pendingOf(s)
				}
				return n
			}
			p := newTakers(Group{Streams: names, Slots: 2})
			m := e.joinGroup("w", survivorTTL, p.group)
			m.beatsNow(1) // a client that connects tries what the server knows
			before := e.readerCalls()
			e.beats(2) // a sweep would be due at once, and again after half to one and a quarter of a third of the time to live
			if n := e.readerCalls() - before; n != 0 {
				t.Errorf("%d commands were sent while nobody asked", n)
			}
			for _, s := range names {
				if groups, err := e.must("XINFO", "GROUPS", s).ToArray(); err != nil || len(groups) != 0 {
					t.Errorf("%s has %d groups, %v", s, len(groups), err)
				}
			}
			var held []*Entry
			for _, n := range []int{1, 7, 3} {
				p.ask(n)
				held = append(held, p.take(t, n)...)
				e.eventually("the reader is done", func() bool { c := e.readerCalls(); m.beatsNow(2); return c == e.readerCalls() })
				if got := pending(); got != int64(len(held)) || len(p.took) != 0 {
					t.Errorf("%d pending, %d too many, want %d taken", got, len(p.took), len(held))
				}
			}
			for _, en := range held {
				m.done(en)
			}
			e.settled(int64(len(held)))
			p.ask(20*streams - len(held))
			for _, en := range p.take(t, 20*streams-len(held)) {
				m.done(en)
			}
			e.settled(int64(20 * streams))
			if n := pending(); n != 0 {
				t.Errorf("%d pending", n)
			}
		})
	}
}

// No entry is read that nobody asked for, while takers come and go. A Wake before, during and after Run is harmless.
func TestFreeIsNeverExceeded(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	const n = 500
	e.fill(e.stream, n)
	p := newTakers(Group{Slots: 4})
	p.group.Wake()
	m := e.joinGroup("w", survivorTTL, p.group)
	var asked sync.WaitGroup
	for range 8 {
		asked.Go(func() {
			for range n / 8 {
				p.ask(1)
				en := testenv.Take(t, "entry", p.took)
				if left := p.asking.Load(); left < 0 {
					t.Errorf("%d were taken that nobody asked for", -left)
				}
				m.done(en)
			}
		})
	}
	asked.Wait()
	e.settled(n / 8 * 8)
	m.leave()
	p.group.Wake()
	if p.group.loop() != nil {
		t.Error("the worker remembers a group that does not run")
	}
}

// A Wake leaves a read that waits in Redis alone.
func TestWakeInterruptsNoRead(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	p := newTakers(Group{})
	e.joinGroup("w", survivorTTL, p.group)
	p.ask(1)
	e.eventually("the reader waits", func() bool { return e.calls("client|id") > 0 && e.blocked() == 1 })
	before := e.calls("client|unblock")
	for range 100 {
		p.ask(1)
	}
	e.add("v")
	p.take(t, 1)[0].End(true)
	if n := e.calls("client|unblock") - before; n != 0 {
		t.Errorf("interrupted %d times", n)
	}
}

// blocked is how many connections wait in Redis.
func (e *env) blocked() (n int) {
	e.t.Helper()
	text, err := e.must("INFO", "clients").ToString()
	testenv.Must(e.t, err)
	_, rest, _ := strings.Cut(text, "blocked_clients:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		e.t.Fatal(err)
	}
	return n
}

// handOver settles an entry and reads the next one, as a script of a taker does. "" = there is none.
func (e *env) handOver(en *Entry) (id string, fields map[string]string) {
	e.t.Helper()
	reply, err := e.must("EVAL", `
		if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {} end
		redis.call('XACK', KEYS[2], ARGV[2], ARGV[4])
		redis.call('XDEL', KEYS[2], ARGV[4])
		local got = redis.call('XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', 1, 'STREAMS', KEYS[2], '>')
		if not got then return {} end
		local e = got[1][2][1]
		return {e[1], e[2][1], e[2][2]}`,
		"2", en.Heartbeat(), en.Stream, en.Token(), en.Group(), en.Consumer(), en.ID).AsStrSlice()
	testenv.Must(e.t, err)
	if len(reply) != 3 {
		return "", nil
	}
	return reply[0], map[string]string{reply[1]: reply[2]}
}

// The completion of one brings the next one, as long as there are some.
func TestOfferHandsOver(t *testing.T) {
	for name, field := range map[string]string{"all fields": "", "one field": "v"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, testenv.Redis(t))
			const n = 100
			e.fill(e.stream, n)
			p := newTakers(Group{Field: field, MaxDeliveries: -1})
			e.joinGroup("w", survivorTTL, p.group)
			p.ask(1)
			seen := map[string]bool{}
			for i := range n {
				en := p.take(t, 1)[0]
				v := en.Fields["v"]
				if field != "" {
					v = en.Data
				}
				if seen[v] {
					t.Errorf("%s came twice", v)
				}
				seen[v] = true
				if i > 0 && en.Deliveries == 1 && en.Given != i {
					t.Errorf("entry %d came with %v", i, en.Given)
				}
				id, fields := e.handOver(en)
				if id != "" && !p.group.Offer(en.Token(), en.Stream, id, fields, i+1) && !p.group.found(id) {
					t.Errorf("entry %d is not taken in", i+1)
				}
				en.End(true)
				p.ask(1) // after the offer, so that nothing else is read for this taker
			}
			e.empty()
			if len(seen) != n {
				t.Errorf("%d of %d", len(seen), n)
			}
		})
	}
}

// found says whether an own read was quicker than an offer could be.
func (g *Group) found(id string) bool {
	h := g.loop().now.Load().held
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found.has(ref{0, id})
}

func TestOfferIsRefused(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	p := newTakers(Group{})
	offer := func(token, stream, id string) bool {
		return p.group.Offer(token, stream, id, map[string]string{"v": "offered"}, nil)
	}
	if new(Group).Offer("", "s", "1-0", nil, nil) || offer("t", e.stream, "1-0") {
		t.Error("taken in before Run")
	}
	m := e.joinGroup("w", survivorTTL, p.group)
	e.add("first")
	p.ask(1)
	en := p.take(t, 1)[0]
	for what, c := range map[string]struct{ token, stream, id string }{
		"a stale token":          {"stale", e.stream, "9-0"},
		"no token":               {"", e.stream, "9-0"},
		"another stream":         {en.Token(), e.stream + "2", "9-0"},
		"an id that a taker has": {en.Token(), e.stream, en.ID},
	} {
		if offer(c.token, c.stream, c.id) {
			t.Errorf("%s: taken in", what)
		}
	}
	m.done(en)
	// One that an own read finds before it is offered is handled once.
	ghost := e.add("ghost")[0]
	e.must("XREADGROUP", "GROUP", "g", "w", "STREAMS", e.stream, ">")
	p.ask(1)
	found := p.take(t, 1)[0]
	if found.ID != ghost {
		t.Errorf("got %s, want %s", found.ID, ghost)
	}
	for range 2 {
		if offer(en.Token(), e.stream, ghost) {
			t.Error("taken in though it was found")
		}
		if found != nil {
			m.done(found)
			found = nil
		}
	}
	m.leave()
	if offer(en.Token(), e.stream, "9-0") {
		t.Error("taken in after Run")
	}
	e.settled(2)
	if n := len(p.took); n != 0 {
		t.Errorf("%d too many were handled", n)
	}
}

// Offers of an entry from many sides, while the worker loses its token again and again: every entry is handled, and settled once.
func TestOfferWhileTokensAreLost(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	const n = 200
	e.fill(e.stream, n)
	p := newTakers(Group{Slots: 3, MaxDeliveries: -1})
	m := e.joinGroup("w", survivorTTL, p.group)
	var settled atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		p.ask(1)
		all.Go(func() {
			for {
				var en *Entry
				select {
				case en = <-p.took:
				case <-stop:
					return
				}
				if m.settle(en) == nil {
					settled.Add(1)
					p.group.Offer(en.Token(), en.Stream, en.ID, en.Fields, nil) // held
					en.End(true)
				} else {
					en.End(false)
				}
				p.ask(1)
			}
		})
	}
	tick := time.Tick(5 * time.Millisecond)
	for range 20 {
		<-tick
		e.must("DEL", e.keys.Worker("w"))
	}
	e.empty()
	close(stop)
	all.Wait()
	for len(p.took) > 0 {
		(<-p.took).End(false)
	}
	e.settled(settled.Load())
	if settled.Load() != n {
		t.Errorf("%d settled, want %d", settled.Load(), n)
	}
}

func TestFindsAreForgotten(t *testing.T) {
	var f finds
	a, b, c := ref{0, "1-0"}, ref{0, "2-0"}, ref{0, "3-0"}
	f.add(a)
	if !f.has(a) || f.has(b) {
		t.Error("a is there, b is not")
	}
	f.turned = f.turned.Add(-offerTime - 1)
	if f.add(b); !f.has(a) || !f.has(b) {
		t.Error("both are there")
	}
	f.turned = f.turned.Add(-2*offerTime - 1)
	if f.add(c); f.has(a) || f.has(b) || !f.has(c) {
		t.Error("only c is there")
	}
}

// What is pending for this worker is found among much that it holds, without the data of that being sent again.
func TestOwnAmongManyHeld(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	const n = ownPage + 50
	e.fill(e.stream, n)
	p := newTakers(Group{Slots: 4, MaxDeliveries: -1})
	m := e.joinGroup("w", survivorTTL, p.group)
	p.ask(n)
	held := p.take(t, n)
	byID := func(a, b *Entry) int { return compareIDs(a.ID, b.ID) }
	slices.SortFunc(held, byID) // four slots keep no order
	claims := e.calls("xclaim")
	drop := []*Entry{held[3], held[4], held[200], held[n-1]}
	for _, en := range drop {
		en.End(false)
	}
	p.ask(len(drop))
	again := p.take(t, len(drop))
	slices.SortFunc(again, byID)
	for i, en := range again {
		if en.ID != drop[i].ID || en.Deliveries != 2 {
			t.Errorf("%s came, delivery %d, want %s", en.ID, en.Deliveries, drop[i].ID)
		}
	}
	if got := e.calls("xclaim") - claims; got > 3*len(drop) { // found, begun, and perhaps one beside
		t.Errorf("%d claims for %d entries", got, len(drop))
	}
	for _, en := range append(held, again...) {
		if !slices.Contains(drop, en) {
			m.done(en)
		}
	}
	e.empty()
	e.settled(n)
}
