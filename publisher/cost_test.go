package publisher_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
)

// counted makes an instance whose round trips to Redis can be counted: nothing but batches makes any.
func (p *plant) counted() (*testenv.Proxy, func(*setup)) {
	proxy := testenv.CountingProxy(p.t, p.redis.URL)
	return proxy, func(s *setup) {
		s.redisURL = proxy.URL
		s.Block, s.Lease = time.Minute, 10*time.Minute
	}
}

// E-P5, D9: 25 job orders, 20 of them in EndState, 2 with a response: one change cost 61 round trips.
func TestBatchIsThreeRoundTrips(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	p := newPlant(t)
	proxy, through := p.counted()
	for i := range 20 {
		p.move(scope, isa95.JobOrderID(fmt.Sprint("END-", i)), isa95.Store, isa95.Cancel)
	}
	for i := range 3 {
		p.move(scope, isa95.JobOrderID(fmt.Sprint("JO-", i)), isa95.StoreAndStart, isa95.Run)
	}
	for i := range 2 {
		p.move(scope, isa95.JobOrderID(fmt.Sprint("OVER-", i)), isa95.StoreAndStart, isa95.Run, isa95.End)
	}
	i := p.start(through)
	p.inSync()
	p.move(scope, "JO-0", isa95.Pause) // the first batch loads the scripts
	p.inSync()
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"one Pause", func() { p.move(scope, "JO-1", isa95.Pause) }},
		{"a Store", func() { p.move(scope, "JO-9", isa95.Store) }},
		{"an End with its response", func() { p.move(scope, "JO-2", isa95.End) }},
		{"a Clear", func() { p.move(scope, "JO-2", isa95.Clear) }},
		{"many in one batch", func() {
			proxy.Stall(true)
			defer proxy.Stall(false)
			for i := range 40 {
				p.move(scope, isa95.JobOrderID(fmt.Sprint("NEW-", i)), isa95.Store)
			}
		}},
	} {
		before := i.Stats().Batches
		proxy.Reset()
		change.do()
		p.inSync()
		batches := int(i.Stats().Batches - before)
		if trips := proxy.Trips(); trips != 3*batches || batches == 0 || batches > 3 {
			t.Errorf("%s: %d round trips for %d batches, want 3 each", change.what, trips, batches)
		}
	}
	// The listing that an acceptance check counts holds no job order in EndState either.
	if n, err := p.redisDo("ZCARD", p.keys.JobOrderList("m42")).AsInt64(); n != 45 || err != nil {
		t.Errorf("the list has %d job orders, want 45 (%v)", n, err)
	}
}

// At most four state indexes a second of more than 256 KiB leave, however fast a scope changes.
func TestLargeIndexesRest(t *testing.T) {
	long.Test(t, "takes more than 10 s")
	t.Parallel()
	p := newPlant(t)
	const orders = 2000
	for n := range orders {
		p.move(scope, isa95.JobOrderID(fmt.Sprintf("%s-%d", strings.Repeat("x", 60), n)), isa95.Store)
	}
	g := new(gate)
	var (
		mu   sync.Mutex
		sent []time.Time // of large indexes
	)
	g.fail = func(topic string, payload []byte) error {
		if strings.HasSuffix(topic, "/state-index") && len(payload) > 256<<10 {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Now())
		}
		return nil
	}
	p.start(g.through)
	p.inSync()
	large := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(sent)
	}
	for n, before := 0, large(); large() < before+6; n++ {
		p.move(scope, isa95.JobOrderID(fmt.Sprint("JO-", n)), isa95.Store)
	}
	p.inSync()
	mu.Lock()
	defer mu.Unlock()
	for i := range len(sent) - 4 {
		if span := sent[i+4].Sub(sent[i]); span < time.Second {
			t.Errorf("five indexes of more than 256 KiB in %v", span)
		}
	}
}

// E-P16, D26: a burst of changes is one state index per changed scope and batch, and many publishes are in flight at once.
func TestBurst(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	p := newPlant(t)
	g := new(gate)
	const coalesce = 50 * time.Millisecond
	i := p.start(g.through, func(s *setup) { s.Coalesce = coalesce })
	scopes := []isa95.Scope{"a", "b", "c"}
	for _, s := range scopes {
		p.move(s, isa95.JobOrderID("first-"+s), isa95.Store)
	}
	p.inSync()
	p.forget()
	before, began := i.Stats(), time.Now()
	first, rest := make(chan struct{}), make(chan struct{})
	g.set(func() { g.before = func(context.Context, string) { <-first } })
	for n := range 100 {
		for _, s := range scopes[:2] {
			p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%s-%d", s, n)), isa95.Store)
		}
	}
	g.set(func() {
		g.before = func(_ context.Context, topic string) {
			if strings.Contains(topic, "/order/") {
				<-rest
			}
		}
	})
	close(first)
	p.eventually("half of the orders in flight together, of two batches", func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.most < 100 {
			return fmt.Errorf("at most %d", g.most)
		}
		return nil
	})
	g.set(func() { g.before = nil })
	close(rest)
	for n := range 150 {
		for _, s := range scopes[:2] {
			p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%s-%d", s, n+100)), isa95.Store)
		}
	}
	p.inSync()
	after, took := i.Stats(), time.Since(began)
	batches := after.Batches - before.Batches
	if changes := after.Changes - before.Changes; changes != 500 || batches > int64(took/coalesce)+1 {
		t.Errorf("%d changes in %d batches, in %v", changes, batches, took)
	}
	for _, s := range scopes[:2] {
		if n := len(p.indexes(s)); int64(n) > batches || n == 0 {
			t.Errorf("%d state indexes of %s for %d batches", n, s, batches)
		}
		p.seqs(s)
		if x := p.index(s); len(x.Jobs) != 251 {
			t.Errorf("%s: %d job orders", s, len(x.Jobs))
		}
	}
	if n := len(p.indexes("c")); n != 0 {
		t.Errorf("%d state indexes of a scope without changes", n)
	}
	if orders := len(p.messages("a/order/", "b/order/")); orders != 500 {
		t.Errorf("%d orders published, want 500, each once", orders)
	}
}
