package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// Entries in the hands of others take no slot, with and without Free, and are settled by their own commits.
func TestLaterTakesNoSlot(t *testing.T) {
	const n = 50
	for name, c := range map[string]struct{ pull, early bool }{
		"as slots say":             {},
		"as Free says":             {pull: true},
		"ended before the return":  {early: true},
		"ended before, with Free ": {pull: true, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, testenv.Redis(t))
			e.fill(e.stream, n)
			p := newTakers(Group{Slots: 2})
			var handled atomic.Int64
			p.group.Observe = func(o Outcome, n int) {
				if o != Handled {
					t.Errorf("%d %s", n, o)
				}
				handled.Add(int64(n))
			}
			var m *member
			there := make(chan struct{})
			if c.early {
				handle := p.group.Handle
				p.group.Handle = func(ctx context.Context, en *Entry) (Result, error) {
					<-there
					m.done(en)
					return handle(ctx, en)
				}
			}
			if !c.pull {
				p.group.Free = nil
			}
			m = e.joinGroup("w", survivorTTL, p.group)
			close(there)
			p.ask(n)
			held := p.take(t, n)
			if !c.early {
				if n := handled.Load(); n != 0 {
					t.Errorf("%d told as handled before their end", n)
				}
				for _, en := range held {
					m.done(en)
					en.End(true)
					en.End(false)
				}
			}
			e.empty()
			e.settled(n)
			e.eventually("all are told as handled", func() bool { return handled.Load() == n })
			h := p.group.loop().now.Load().held
			e.eventually("nothing is held", func() bool { return h.count() == 0 })
		})
	}
}

// What ends without being settled is delivered again, at once.
func TestEndUnsettledIsDeliveredAgain(t *testing.T) {
	long.Test(t, "compares times of the machine")
	for name, c := range map[string]struct {
		start       func(testing.TB) *testenv.RedisServer
		pull, early bool
	}{
		"as slots say":            {start: testenv.Redis},
		"as Free says":            {start: testenv.Redis, pull: true},
		"ended before the return": {start: testenv.Redis, pull: true, early: true},
		"miniredis":               {start: testenv.Miniredis, pull: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, c.start(t))
			p := newTakers(Group{Slots: 2, MaxDeliveries: -1})
			if c.early {
				handle := p.group.Handle
				p.group.Handle = func(ctx context.Context, en *Entry) (Result, error) {
					if en.Deliveries < 5 {
						en.End(false)
					}
					return handle(ctx, en)
				}
			}
			if !c.pull {
				p.group.Free = nil
			}
			m := e.joinGroup("w", survivorTTL, p.group)
			e.add("v")
			p.ask(1)
			quickest := time.Hour
			for want := range int64(5) {
				begun := time.Now()
				en := p.take(t, 1)[0]
				quickest = min(quickest, time.Since(begun))
				if en.Deliveries != want+1 {
					t.Errorf("delivery %d, want %d", en.Deliveries, want+1)
				}
				p.ask(1)
				if want == 4 {
					m.done(en)
				} else if !c.early {
					en.End(false)
				}
			}
			if quickest > 400*time.Millisecond { // by sweeps, or reads that wait, it were more
				t.Errorf("came again after %v at the least", quickest)
			}
			e.empty()
			e.settled(1)
		})
	}
}

// A worker that loses its token while others have its entries: they are told, somebody else gets them, and their End does nothing.
func TestTokenLostWhileLater(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	e := newEnv(t, testenv.Redis(t))
	p := newTakers(Group{Slots: 2})
	var handled atomic.Int64
	p.group.Observe = func(o Outcome, n int) {
		if o == Handled {
			handled.Add(int64(n))
		}
	}
	m := e.joinGroup("w", 2*time.Second, p.group) // long enough for a busy machine not to end it before the stall does
	e.add("v")
	p.ask(1)
	en := p.take(t, 1)[0]
	other := newTakers(Group{})
	om := e.joinGroup("other", survivorTTL, other.group)
	other.ask(1)
	m.proxy.Stall(true)
	testenv.Take(t, "end of the context", en.Context().Done())
	if err := context.Cause(en.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("the context ended with %v", err)
	}
	taken := other.take(t, 1)[0]
	if taken.ID != en.ID || taken.Deliveries != 2 {
		t.Errorf("%s came, delivery %d", taken.ID, taken.Deliveries)
	}
	m.proxy.Stall(false)
	if err := m.settle(en); !errors.Is(err, commit.ErrConflict) {
		t.Errorf("its commit: %v, want a conflict", err)
	}
	en.End(true)
	en.End(false)
	om.done(taken)
	e.empty()
	e.settled(1)
	if n := handled.Load(); n != 0 {
		t.Errorf("%d told as handled", n)
	}
	om.leave()
	e.eventually("it lives again", func() bool { return m.worker.Token() != "" }) // and works on
	e.add("w")
	p.ask(1)
	m.done(p.take(t, 1)[0])
	e.empty()
}

// What a worker had when it lost its token, and nobody else took over, comes again although nobody asks: while it lives, no other worker would look for it.
func TestAstrayEntriesComeUnasked(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	e := newEnv(t, testenv.Redis(t))
	p := newTakers(Group{})
	m := e.joinGroup("w", victimTTL, p.group)
	e.add("v")
	p.ask(1)
	en := p.take(t, 1)[0]
	m.proxy.Stall(true)
	testenv.Take(t, "end of the context", en.Context().Done())
	m.proxy.Stall(false)
	again := p.take(t, 1)[0]
	if again.ID != en.ID {
		t.Errorf("%s came, want %s", again.ID, en.ID)
	}
	again.End(false)
	again = p.take(t, 1)[0]
	if again.ID != en.ID {
		t.Errorf("%s came, want %s", again.ID, en.ID)
	}
	m.done(again)
	e.empty()
}

// A stop waits for those who have an entry in hand.
func TestStopWaitsForLater(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.add("settled", "dropped")
	p := newTakers(Group{Drain: patience})
	m := e.joinGroup("w", survivorTTL, p.group)
	p.ask(2)
	held := p.take(t, 2)
	session := p.group.loop().now.Load()
	m.stopGroup()
	e.eventually("the intake is closed", func() bool {
		session.held.mu.Lock()
		defer session.held.mu.Unlock()
		return session.held.closed
	})
	if p.group.Offer(held[0].Token(), e.stream, "9-0", nil, nil) {
		t.Error("an offer was taken in at the stop")
	}
	if held[0].Context().Err() != nil {
		t.Error("the context ended with the stop")
	}
	m.done(held[0])
	select {
	case <-m.groupEnd:
		t.Fatal("Run did not wait for the second")
	default:
	}
	held[1].End(false)
	m.leave()
	if n := e.pending(); n != 1 {
		t.Errorf("%d pending, want 1", n)
	}
	e.settled(1)
	for _, en := range held {
		en.End(true)
	}
}

// It waits for Drain, and no longer.
func TestStopIsBoundedWhileLater(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.add("a", "b")
	p := newTakers(Group{Drain: 50 * time.Millisecond})
	m := e.joinGroup("w", survivorTTL, p.group)
	p.ask(2)
	held := p.take(t, 2)
	m.leave()
	for _, en := range held {
		if err := context.Cause(en.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("the context ended with %v", err)
		}
		en.End(true)
	}
	if n := e.pending(); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
	other := newTakers(Group{})
	om := e.joinGroup("other", survivorTTL, other.group)
	other.ask(2)
	for _, en := range other.take(t, 2) {
		om.done(en)
	}
	e.empty()
}

// Suspects run one at a time until their End, and others pass them; also after the token was lost with one outstanding.
func TestSuspectsRunAloneUntilEnd(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	ids := e.ofTheDead(2, "1", "2", "3")
	p := newTakers(Group{Slots: 8, MaxDeliveries: -1})
	m := e.joinGroup("w", survivorTTL, p.group)
	p.ask(10)
	left := map[string]bool{ids[0]: true, ids[1]: true, ids[2]: true}
	for i, how := range []string{"settled", "lost", "dropped", "settled", "settled"} {
		en := p.take(t, 1)[0]
		if !left[en.ID] {
			t.Fatalf("start %d: %s", i, en.ID)
		}
		e.add("other")
		if o := p.take(t, 1)[0]; o.Fields["v"] != "other" {
			t.Errorf("%s was begun while a suspect ran", o.ID)
		} else {
			m.done(o)
		}
		switch how {
		case "settled":
			delete(left, en.ID)
			m.done(en)
		case "dropped":
			en.End(false)
		case "lost":
			e.must("DEL", e.keys.Worker("w"))
			testenv.Take(t, "end of the context", en.Context().Done())
		}
		p.ask(5)
	}
	e.empty()
}

func TestEntryFromNoGroup(t *testing.T) {
	var en Entry
	en.End(true)
	if en.Context().Err() != nil || en.Consumer() != "" || en.Token() != "" || en.Heartbeat() != "" || en.Group() != "" {
		t.Errorf("%+v", en)
	}
}
