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
	"github.com/taktworks/takt/publisher"
)

// Two publishers at once, and one of them is paused past its lease between taking a seq and publishing it. There is one
// writer of the index; a higher seq has a later content.
func TestPausedPublisher(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	p := newPlant(t)
	proxy := testenv.CountingProxy(t, p.redis.URL)
	g := new(gate)
	paused := p.start(g.through, short, func(s *setup) { s.redisURL = proxy.URL })
	p.move(scope, "JO-0", isa95.Store)
	p.inSync()
	other := p.start(short)

	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.set(func() {
		g.before = func(_ context.Context, topic string) {
			if strings.HasSuffix(topic, "/state-index") {
				once.Do(func() { close(held) })
				<-release
			}
		}
	})
	p.move(scope, "JO-1", isa95.Store)
	take(t, "the first publisher about to publish an index", held)
	proxy.Stall(true)
	p.until("the other publisher at work", other, isAtWork)
	for n := 2; n < 5; n++ {
		p.move(scope, isa95.JobOrderID(fmt.Sprint("JO-", n)), isa95.Store)
	}
	p.eventually("all job orders published", func() error {
		x := p.index(scope)
		return wrongIf(len(x.Jobs) != 5, "%d job orders", len(x.Jobs))
	})
	close(release)
	proxy.Stall(false)
	p.until("the paused one has understood", paused, func(s publisher.Stats) bool { return !s.Publishing })
	p.move(scope, "JO-5", isa95.Store)
	p.inSync()
	p.rising(scope)
}

// rising checks that the indexes of a scope to which orders are only added never lose one as seq grows, and that seq never goes back.
func (p *plant) rising(scope isa95.Scope) {
	p.t.Helper()
	p.seqs(scope)
	jobs := 0
	for _, x := range p.indexes(scope) {
		if len(x.Jobs) < jobs {
			p.t.Errorf("seq %d lists %d job orders after one that listed %d", x.Seq, len(x.Jobs), jobs)
		}
		jobs = len(x.Jobs)
	}
}

// Whatever comes and goes, one publishes.
func TestManyPublishers(t *testing.T) {
	p := newPlant(t)
	var all []*instance
	for range 3 {
		all = append(all, p.start(func(s *setup) { s.Lease = time.Minute }))
	}
	for n := range 30 {
		p.move(scope, isa95.JobOrderID(fmt.Sprintf("JO-%02d", n)), isa95.Store)
		if n%10 == 9 {
			publishing := -1
			p.eventually("one publisher", func() error {
				count := 0
				for i, x := range all {
					if x.Stats().Publishing {
						publishing = i
						count++
					}
				}
				return wrongIf(count != 1, "%d publish", count)
			})
			all[publishing].stop() // the lease is for a minute: the next one must not wait for its end
			all = append(all[:publishing], all[publishing+1:]...)
			if len(all) == 0 {
				all = append(all, p.start())
			}
		}
	}
	p.inSync()
	p.rising(scope)
	if x := p.index(scope); len(x.Jobs) != 30 {
		t.Errorf("%d job orders", len(x.Jobs))
	}
}

// A stop finishes the batch in hand, saves the cursor and leaves the role.
func TestStopFinishesTheBatch(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	i := p.start(g.through, func(s *setup) { s.Lease = time.Minute })
	p.fill()
	p.inSync()
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.set(func() {
		g.before = func(context.Context, string) {
			once.Do(func() { close(held) })
			<-release
		}
	})
	p.move(scope, "NEW", isa95.Store)
	take(t, "a batch in hand", held)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		i.stop()
	}()
	select {
	case <-stopped:
		t.Fatal("it stopped with a batch in hand")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	take(t, "the stop", stopped)
	if err := p.check(); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	if n, _ := p.redisDo("EXISTS", p.keys.PublisherLease()).AsInt64(); n != 0 {
		t.Error("the lease is still held")
	}
}

// A stop does not wait for a broker that never answers longer than Grace.
func TestStopWithoutBroker(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	i := p.start(g.through, func(s *setup) { s.Grace = 100 * time.Millisecond })
	p.fill()
	p.inSync()
	asked := make(chan string, 10)
	g.set(func() {
		g.before = func(ctx context.Context, topic string) {
			asked <- topic
			<-ctx.Done()
		}
	})
	p.move(scope, "NEW", isa95.Store)
	take(t, "a publish that is not answered", asked)
	i.stop() // which fails the test if it does not end
}

func take[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return testenv.Take(t, what, from)
}
