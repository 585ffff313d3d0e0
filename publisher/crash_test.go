package publisher_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
)

// story is what happens in each of the runs below.
func (p *plant) story(scope isa95.Scope) {
	p.t.Helper()
	id := func(name string) isa95.JobOrderID { return isa95.JobOrderID(string(scope) + "-" + name) }
	for _, step := range []func(){
		func() { p.move(scope, id("A"), isa95.Store) },
		func() { p.move(scope, id("B"), isa95.StoreAndStart, isa95.Run) },
		func() { p.move(scope, id("B"), isa95.End); p.move(scope, id("C"), isa95.Store) },
		func() { p.move(scope, id("C"), isa95.Cancel) },
		func() { p.move(scope, id("B"), isa95.Clear); p.move(scope, id("D"), isa95.StoreAndStart, isa95.Abort) },
	} {
		step()
	}
}

// told checks what the story leaves.
func (p *plant) told(scope isa95.Scope) {
	p.t.Helper()
	s := string(scope)
	var have []string
	for _, topic := range topics(p.retained()) {
		if rest, ok := strings.CutPrefix(topic, s+"/"); ok {
			have = append(have, strings.ReplaceAll(rest, s+"-", ""))
		}
	}
	if got, want := fmt.Sprint(have), "[order/A order/D result/D state-index]"; got != want {
		p.t.Errorf("%s: retained %s, want %s", scope, got, want)
	}
	x := p.index(scope)
	if len(x.Jobs) != 2 || entry(x, isa95.JobOrderID(s+"-A")).HasResult || !entry(x, isa95.JobOrderID(s+"-D")).HasResult {
		p.t.Errorf("%s: index %+v", scope, x)
	}
	p.seqs(scope)
	p.consistent(scope)
}

// nth calls f, once and in the background, with the n-th piece that passes a proxy from the client.
func nth(proxy *testenv.Proxy, n int, f func()) {
	count := 0
	var once sync.Once
	proxy.Tap(func(fromClient bool, _ []byte) {
		if fromClient {
			if count++; count == n {
				once.Do(func() { go f() })
			}
		}
	})
}

// The connection to Redis is cut at every command in turn, before it or after it was carried out; nothing is missing and no seq
// is wrong afterwards.
func TestRedisCutAtEveryCommand(t *testing.T) {
	long.Test(t, "cuts publishers off")
	for _, kind := range []string{"cut", "reply lost"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			for n := 1; n <= 24; n++ {
				proxy := testenv.CountingProxy(t, p.redis.URL)
				through := func(s *setup) { s.redisURL = proxy.URL }
				i := p.working(through)
				nth(proxy, n, func() {
					if kind == "cut" {
						proxy.Cut()
					} else {
						proxy.LoseReplies(1)
					}
				})
				scope := isa95.Scope(fmt.Sprint("cut-", n))
				p.story(scope)
				p.inSync()
				p.told(scope)
				proxy.LoseReplies(0)
				i.stop()
			}
		})
	}
}

// A publisher dies at every message to Redis or to the broker in turn; the next one takes over.
func TestDeathAtEveryStep(t *testing.T) {
	long.Test(t, "kills publishers")
	for _, at := range []string{"redis", "broker"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			for n := 1; n <= 24; n++ {
				redis, broker := testenv.CountingProxy(t, p.redis.URL), testenv.CountingProxy(t, p.broker.URL)
				victim := p.working(short, func(s *setup) { s.redisURL, s.brokerURL = redis.URL, broker.URL })
				die := func() {
					for _, proxy := range []*testenv.Proxy{redis, broker} {
						proxy.Refuse(true)
						proxy.Cut()
					}
				}
				proxy := redis
				if at == "broker" {
					proxy = broker
				}
				nth(proxy, n, die)
				scope := isa95.Scope(fmt.Sprintf("%s-%d", at, n))
				p.story(scope)
				next := p.start(short)
				p.inSync()
				p.told(scope)
				next.stop()
				victim.stop()
			}
		})
	}
}

// The same on what `takt demo` falls back on, which knows fewer commands. What is retained is read only while nobody publishes,
// for that is a data race within this broker.
func TestOnEmbeddedServers(t *testing.T) {
	p := newPlantOn(t, testenv.Miniredis(t), testenv.Mochi(t, embedded.MochiOptions{}))
	i := p.start()
	p.story("embedded")
	p.eventually("all changes published", p.caughtUp)
	i.stop()
	p.told("embedded")
	p.forget()
	i = p.start(func(s *setup) { s.Refresh = 80 * time.Millisecond })
	p.eventually("refreshes", func() error { return p.atLeast(3, "embedded/order/embedded-A") })
	i.stop()
	p.told("embedded")
}
