package publisher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// fill stores three job orders: one waiting, one running, one over.
func (p *plant) fill() {
	p.t.Helper()
	p.move(scope, "WAITS", isa95.Store)
	p.move(scope, "RUNS", isa95.StoreAndStart, isa95.Run)
	p.move(scope, "OVER", isa95.StoreAndStart, isa95.Run, isa95.End)
}

// Changes made while the broker is away are published when it is back. The role is left to others meanwhile.
func TestBrokerAway(t *testing.T) {
	long.Test(t, "kills the broker")
	p := newPlant(t)
	i := p.start(short)
	p.fill()
	p.inSync()
	testenv.Must(t, p.broker.Server.Kill())
	p.move(scope, "OVER", isa95.Clear)
	p.move(scope, "RUNS", isa95.End)
	p.eventually("the broker missed, and the role given back", func() error {
		n, _ := p.redisDo("EXISTS", p.keys.PublisherLease()).AsInt64()
		return wrongIf(n != 0 || i.Stats().Away == 0, "leases %d, %+v", n, i.Stats())
	})
	p.move("late.scope", "NEW", isa95.Store)
	testenv.Must(t, p.broker.Server.Restart(t.Context()))
	p.ready(p.reader)
	p.inSync()
	want := []string{"late.scope/order/NEW", "late.scope/state-index", "m42/order/RUNS", "m42/order/WAITS", "m42/result/RUNS", "m42/state-index"}
	if d := cmp.Diff(want, topics(p.retained())); d != "" {
		t.Error(d)
	}
}

// A change stream trimmed beyond the cursor, at rest and at work.
func TestTrimmedChangeStream(t *testing.T) {
	for _, when := range []string{"stopped", "running", "deleted"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			g := new(gate)
			i := p.start(g.through)
			p.fill()
			p.inSync()
			held, release := make(chan struct{}), make(chan struct{})
			if when == "stopped" {
				i.stop()
			} else {
				hold := sync.OnceFunc(func() { close(held) })
				g.set(func() { g.before = func(context.Context, string) { hold(); <-release } })
				p.move(scope, "HELD", isa95.Store)
				take(t, "the publisher held up in this batch", held)
			}
			p.move(scope, "WAITS", isa95.Cancel)
			p.move(scope, "OVER", isa95.Clear)
			p.move(scope, "RUNS", isa95.End)
			p.move(scope, "NEW", isa95.Store)
			if when == "deleted" {
				p.redisDo("DEL", p.keys.ChangesAll())
			} else {
				p.redisDo("XTRIM", p.keys.ChangesAll(), "MAXLEN", "0")
			}
			p.move("other", "LAST", isa95.Store)
			if when == "stopped" {
				p.start(g.through)
			} else {
				close(release)
				g.set(func() { g.before = nil })
			}
			p.inSync()
			want := []string{"m42/order/NEW", "m42/order/RUNS", "m42/result/RUNS", "m42/state-index", "other/order/LAST", "other/state-index"}
			if when != "stopped" {
				want = slices.Insert(want, 0, "m42/order/HELD")
				if s := i.Stats(); s.Missed == 0 {
					t.Errorf("nothing noticed: %+v", s)
				}
			}
			if d := cmp.Diff(want, topics(p.retained())); d != "" {
				t.Error(d)
			}
			p.seqs(scope)
		})
	}
}

// What would expire is published again, by the clock and at every start.
func TestExpiryIsRenewed(t *testing.T) {
	p := newPlant(t)
	minute := func(s *setup) { s.RetainedTTL = time.Minute }
	i := p.start(minute, func(s *setup) { s.Refresh = 200 * time.Millisecond })
	p.fill()
	p.inSync()
	p.forget()
	kinds := []string{"m42/order/WAITS", "m42/order/RUNS", "m42/order/OVER", "m42/result/OVER", "m42/state-index"}
	for _, topic := range kinds {
		p.eventually("two refreshes of "+topic, func() error { return p.atLeast(2, topic) })
	}
	i.stop()
	for topic, m := range p.retained() {
		if m.Expiry > time.Minute {
			t.Errorf("%s expires in %v", topic, m.Expiry)
		}
	}
	p.start() // with 48 h: what a minute is left of would not live until the next refresh
	p.eventually("long expiry", func() error {
		for topic, m := range p.retained() {
			if m.Expiry < 47*time.Hour {
				return fmt.Errorf("%s expires in %v", topic, m.Expiry)
			}
		}
		return nil
	})
	p.seqs(scope)
}

// A publication that slipped through after its process had lost the lease is mended by the next audit, and so is a
// topic that somebody deleted or wrote.
func TestAudit(t *testing.T) {
	p := newPlant(t)
	p.start(func(s *setup) { s.Audit = 100 * time.Millisecond })
	p.fill()
	p.inSync()
	old := p.retained()
	p.move(scope, "OVER", isa95.Clear)
	p.move(scope, "RUNS", isa95.Pause)
	p.inSync()
	x := p.index(scope)
	retain := func(topic string, payload []byte) {
		t.Helper()
		testenv.Must(t, p.reader.Retain(t.Context(), prefix+"/"+topic, payload, time.Hour))
	}
	for _, topic := range []string{"m42/state-index", "m42/result/OVER", "m42/order/OVER"} {
		retain(topic, old[topic].Payload)
	}
	retain("m42/order/WAITS", nil)
	retain("m42/order/RUNS", []byte("scribble"))
	p.inSync()
	if got := p.index(scope); got.Seq != x.Seq {
		t.Errorf("seq %d, want %d: the content is what it was", got.Seq, x.Seq)
	}
	// The same number with another content: nobody may keep that for the truth.
	same := strings.Replace(string(p.retained()["m42/state-index"].Payload), "Interrupted", "Running", 1)
	retain("m42/state-index", []byte(same))
	p.inSync()
	if got := p.index(scope); got.Seq <= x.Seq {
		t.Errorf("seq %d stands for two contents", got.Seq)
	}
	retain("m42/state-index", []byte("not json"))
	p.inSync()
}

// A broker that lets us publish and not read gets everything at every start.
func TestBrokerThatDoesNotTell(t *testing.T) {
	p := newPlant(t)
	g := &gate{asked: func([]string) ([]mqtt.Message, bool, error) {
		return nil, true, &mqtt.SubscribeError{Filter: prefix + "/+/state-index", Code: 0x87, Reason: "not authorized"}
	}}
	i := p.start(g.through)
	p.fill()
	p.inSync()
	i.stop()
	for topic := range p.retained() {
		testenv.Must(t, p.reader.Retain(t.Context(), prefix+"/"+topic, nil, 0))
	}
	seq, _ := p.redisDo("GET", p.keys.PubSeq("m42")).AsInt64()
	p.start(g.through)
	p.inSync()
	if x := p.index(scope); x.Seq != seq {
		t.Errorf("seq %d, want %d as before", x.Seq, seq)
	}
	p.move(scope, "OVER", isa95.Clear)
	p.inSync()
}
