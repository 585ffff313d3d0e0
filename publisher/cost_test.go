package publisher_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// At most four state indexes a second of more than 256 KiB leave, however fast a scope changes.
func TestLargeIndexesRest(t *testing.T) {
	long.Test(t, "compares times of the machine")
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

// A burst of changes is one state index per changed scope and batch, and many publishes are in flight at once.
func TestBurst(t *testing.T) {
	long.Test(t, "counts the batches of a time")
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
		return wrongIf(g.most < 100, "at most %d", g.most)
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

// A change costs Redis what it is, however many job orders of its scope are live: their entries are neither read nor sent again.
func TestCostOfAChangeIsThatOfTheChange(t *testing.T) {
	p := newPlant(t)
	const orders = 1000
	for n := range orders {
		p.move("full", isa95.JobOrderID(fmt.Sprint("F-", n)), isa95.Store)
	}
	p.move("empty", "E-0", isa95.Store)
	proxy := testenv.CountingProxy(t, p.redis.URL)
	p.start(func(s *setup) {
		s.redisURL, s.Lease, s.Block, s.Audit = proxy.URL, 10*time.Minute, time.Minute, 10*time.Minute
	})
	p.inSync()
	bytes := make(map[isa95.Scope]int64)
	for _, s := range []isa95.Scope{"empty", "full"} {
		for n := range 2 { // the second time with everything in place
			var total atomic.Int64
			proxy.Tap(func(fromClient bool, data []byte) {
				if !fromClient {
					total.Add(int64(len(data)))
				}
			})
			p.move(s, isa95.JobOrderID(fmt.Sprint(strings.ToUpper(string(s)), "-", n)), isa95.Store)
			p.inSync()
			proxy.Tap(nil)
			bytes[s] = total.Load()
		}
	}
	if bytes["full"] > bytes["empty"]+500 {
		t.Errorf("Redis sent %d bytes for a change in a scope of %d job orders, %d in an empty one", bytes["full"], orders, bytes["empty"])
	}
	if x := p.index("full"); len(x.Jobs) != orders+2 {
		t.Errorf("%d job orders in the index", len(x.Jobs))
	}
	p.seqs("full")
	p.consistent("full", "empty")
}

// An index that is kept in memory and changed piece by piece is the one that is read as a whole.
func TestChangedIndexIsTheWholeIndex(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	for n := range 60 {
		id := isa95.JobOrderID(fmt.Sprint("JO-", n%20))
		switch n / 20 {
		case 0:
			p.move(scope, id, isa95.StoreAndStart)
		case 1:
			p.move(scope, id, isa95.Run, isa95.End)
		default:
			if n%3 == 0 {
				p.move(scope, id, isa95.Clear)
			}
			if n%6 == 0 {
				p.move(scope, id, isa95.Store)
			}
		}
		if n%7 == 0 {
			p.inSync() // which compares with the index made of everything stored
		}
	}
	p.inSync()
	before := p.index(scope)
	i.stop()
	p.working()
	p.inSync()
	if after := p.index(scope); after.Seq != before.Seq || len(after.Jobs) != len(before.Jobs) {
		t.Errorf("seq %d with %d job orders, read as a whole %d with %d", before.Seq, len(before.Jobs), after.Seq, len(after.Jobs))
	}
}
