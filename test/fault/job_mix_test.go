package fault_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/test/rig"
)

// Fault 27: faults of many kinds under load, each of them once and then by a seed for as long as TAKT_TEST_SOAK says. At the end all is as ever, and an instance that
// lived through all of it, but was never killed, has not grown: in goroutines, files and memory.
func TestFault27Mix(t *testing.T) {
	t.Parallel()
	var early gauge
	jobFault{
		redis: always("enable-debug-command yes"), takes: "20ms..60ms", flags: []string{"--http", "127.0.0.1:0"},
		do: func(w *jobWorld) {
			early = w.gauge(w.serves["a"])
			before := w.Executed()
			mix := w.strikes("faults of all kinds")
			ended := make(chan struct{})
			load := w.loadUntil(ended)
			w.mix(soak(t))
			close(ended)
			mix.ends(jobTTL)
			t.Logf("%d commands were carried out within %v of faults", w.Executed()-before, mix.over.Sub(mix.begin).Round(time.Second))
			w.f.orders = <-load
		},
		judge: func(w *jobWorld) {
			w.verify()
			var late gauge
			w.Until("I7: an instance that has grown has shrunk again", func() bool { // what the last fault broke is closed a little later
				late = w.gauge(w.serves["a"])
				return !late.above(early)
			})
			t.Logf("an instance had %v, and has %v", early, late)
		},
	}.run(t)
}

// loadUntil orders more when all that was to be ordered is, until ended is closed, and says how many orders there are then.
func (w *jobWorld) loadUntil(ended <-chan struct{}) (orders <-chan int) {
	all := make(chan int, 1)
	n := w.f.orders
	w.ordering.Go(func() {
		defer func() { all <- n }()
		for batch := 1; ; batch++ {
			w.mes.Until("there is room for more", func(l rig.Ledger) bool {
				return len(l.Accepted)+len(l.Refused)+len(l.Unknown) >= n && n-len(l.Results) <= w.f.underWay/2
			})
			select {
			case <-ended:
				return
			default:
			}
			more := w.f.underWay / 2
			w.mes.Order(rig.Orders(fmt.Sprintf("MORE-%d", batch), more))
			n += more
		}
	})
	return all
}

// mix lets each kind of fault happen once, and then any of them until d is over. Each begins when the machine has done something after the one before: two in a row that keep
// all answers away, unnoticed, use up the last call of a command. Instance a is not killed.
func (w *jobWorld) mix(d time.Duration) {
	w.t.Helper()
	brief := func(most time.Duration) { w.lasts(time.Duration(w.Rand.Int64N(int64(most)))) }
	either := func() string { return []string{"a", "b"}[w.Rand.IntN(2)] }
	pausing := jobTTL / 3
	if large {
		pausing = 2 * jobTTL // past its heartbeat
	}
	faults := []struct {
		name string
		do   func()
	}{
		{"an instance is killed", func() { w.serves["b"].Kill(); w.serve("b") }},
		{"an instance is killed, and comes later", func() { w.serves["b"].Kill(); brief(pausing); w.serve("b") }},
		{"an instance is stopped", func() { w.serves["b"].Stop(); w.serve("b") }},
		{"an instance hangs", func() { p := w.serves[either()]; p.Pause(); brief(pausing); p.Continue() }},
		{"the station is killed", func() { w.Station().Kill(); brief(time.Second); w.StartStation() }},
		{"Redis is killed", func() {
			w.Redis.Kill(w.t)
			brief(pausing)
			restart(w.t, w.Redis.Server)
			w.Until("Redis answers", func() bool { return w.Redis.Do(w.t, "PING").Error() == nil })
		}},
		{"the broker is killed", func() { restart(w.t, w.Broker.Server) }},
		{"Redis is cut", w.redis.Cut},
		{"the broker is cut", w.broker.Cut},
		{"replies of Redis are lost", func() { w.redis.LoseReplies(1 + w.Rand.IntN(5)) }},
		{"replies of the broker are lost", func() { w.broker.LoseReplies(1 + w.Rand.IntN(5)) }},
		{"Redis is deaf", func() { w.redis.DropReplies(true); brief(pausing); w.redis.DropReplies(false) }},
		{"the broker is half-open", func() { w.broker.Stall(true); brief(pausing); w.broker.Stall(false) }},
		{"Redis is slow", func() { w.redis.Delay(100 * time.Millisecond); brief(pausing); w.redis.Delay(0) }},
		{"CLIENT PAUSE", func() { w.must("CLIENT", "PAUSE", strconv.Itoa(w.Rand.IntN(1500))) }},
		{"a slow command", func() { w.must("DEBUG", "SLEEP", "0.3") }},
		{"SCRIPT FLUSH", func() { w.must("SCRIPT", "FLUSH") }},
		{"memory full", func() {
			w.must("CONFIG", "SET", "maxmemory", "1")
			brief(pausing)
			w.must("CONFIG", "SET", "maxmemory", "0")
		}},
		{"rights withdrawn", func() {
			w.must("ACL", "SETUSER", "default", "-evalsha", "-xack", "-xreadgroup")
			brief(pausing)
			w.must("ACL", "SETUSER", "default", "+@all")
		}},
		{"work is given to the other", func() { w.handOver("sfc:work", "sfc-engine"); w.handOver("sfc:outbox", "sfc-outbox") }},
		{"a stream is deleted", func() { w.must("DEL", w.Keys.SfcOutbox()) }},
	}
	count := map[string]int{}
	order := w.Rand.Perm(len(faults))
	for end := time.Now().Add(d); len(order) > 0 || time.Now().Before(end); {
		if len(order) == 0 {
			order = append(order, w.Rand.IntN(len(faults)))
		}
		f := faults[order[0]]
		order = order[1:]
		count[f.name]++
		f.do()
		w.UntilExecuted(w.Executed() + 1 + w.Rand.IntN(2*w.f.underWay))
	}
	w.t.Logf("faults: %v", count)
}

// gauge asks an instance with --http how many goroutines it has, and looks at the rest.
func (w *jobWorld) gauge(p *rig.Process) gauge {
	w.t.Helper()
	_, metrics := ask(w.t, p, "/metrics")
	g := gaugeOf(w.t, p)
	for line := range strings.Lines(metrics) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			var err error
			if g.goroutines, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if g.goroutines == 0 {
		w.t.Fatal("/metrics says nothing of goroutines")
	}
	return g
}
