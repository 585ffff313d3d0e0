package fault_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/test/rig"
)

// noting is a Redis that notes each command that takes a millisecond or more.
func noting() embedded.RedisOptions {
	return embedded.RedisOptions{Config: []string{"slowlog-log-slower-than 1000", "slowlog-max-len 10000"}}
}

// Fault 21: dead instances held very many commands and work entries, most of orders that are over. The living ones take them over in small steps, and orders go on meanwhile.
func TestFault21ManyOrphans(t *testing.T) {
	t.Parallel()
	jobFault{redis: noting(), do: func(w *jobWorld) {
		const commands = 5000 // a live one may have to wait behind them, and its time-out does not stand still meanwhile
		orphans := scaled(20_000, 100_000)
		died := w.strikes(fmt.Sprintf("%d entries of dead instances", orphans))
		w.broker.Stall(true)
		var command map[string]string
		w.Until("a command waits", func() bool {
			if command == nil {
				command = w.first(w.Keys.SfcOutbox())
			}
			return command != nil
		})
		w.broker.Stall(false)
		w.must("SLOWLOG", "RESET")
		w.must("CONFIG", "RESETSTAT")
		w.hold(w.Keys.SfcOutbox(), "sfc-outbox", commands, "command", command["command"])
		w.hold(w.Keys.SfcWork(), "sfc-engine", orphans-commands, "action", "start", "job_id", "LONG-OVER", "scope", string(rig.Scope))
		died.ends(jobTTL + 2*time.Second)
		w.Until("all of them are taken over", func() bool { return w.number("XLEN", w.Keys.SfcOutbox())+w.number("XLEN", w.Keys.SfcWork()) < 1000 })
		took := time.Since(died.over)
		t.Logf("%d entries were taken over within %v, %v of Redis for each; its longest command took %v", orphans, took.Round(10*time.Millisecond),
			w.spent("xclaim", "xpending", "xack")/time.Duration(orphans), slowestOf(t, w.must("SLOWLOG", "GET", "-1")))
	}}.run(t)
}

// hold adds entries to a stream that a dead instance has in hand, and whatever else waits there at that moment.
func (w *jobWorld) hold(stream, group string, n int, fields ...string) {
	w.t.Helper()
	const page, script = 50, `for i = 1, tonumber(ARGV[2]) do redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3)) end
return #redis.call('XREADGROUP', 'GROUP', ARGV[1], 'dead', 'COUNT', ARGV[2], 'STREAMS', KEYS[1], '>')[1][2]`
	for ; n > 0; n -= page {
		w.must(append([]string{"EVAL", script, "1", stream, group, strconv.Itoa(min(n, page))}, fields...)...)
	}
}

// first has the fields of the oldest entry of a stream, nil if it is empty.
func (w *jobWorld) first(stream string) map[string]string {
	w.t.Helper()
	entries, err := w.must("XRANGE", stream, "-", "+", "COUNT", "1").AsXRange()
	testenv.Must(w.t, err)
	if len(entries) == 0 {
		return nil
	}
	return entries[0].FieldValues
}

// spent is how long Redis was busy with these commands.
func (w *jobWorld) spent(commands ...string) (busy time.Duration) {
	w.t.Helper()
	text, err := w.must("INFO", "commandstats").ToString()
	testenv.Must(w.t, err)
	for line := range strings.Lines(text) {
		for _, c := range commands {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+c+":"); ok {
				var calls, us int64
				if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d", &calls, &us); err != nil {
					w.t.Fatal(err)
				}
				busy += time.Duration(us) * time.Microsecond
			}
		}
	}
	return busy
}

// Fault 22: thousands of orders wait in the scope, all their timers are due in one millisecond, and the MES is away while others end. Orders go on, and the MES gets all
// results soon after it is back.
func TestFault22Backlog(t *testing.T) {
	t.Parallel()
	jobFault{redis: noting(), orders: 100, underWay: 300, do: func(w *jobWorld) {
		const atOnce = 8
		backlog := rig.Orders("WAITS", scaled(1000, 9000))
		all := func(do func(o *isa95.JobOrder) error) {
			var wait sync.WaitGroup
			for i := range atOnce {
				wait.Go(func() {
					for n := i; n < len(backlog); n += atOnce {
						if err := do(backlog[n]); err != nil {
							t.Errorf("%s: %v", backlog[n].JobOrderID, err)
							return
						}
					}
				})
			}
			wait.Wait()
		}
		ctx := testenv.Within(t)
		begin := time.Now()
		all(func(o *isa95.JobOrder) error {
			_, err := w.mes.Client.Call(ctx, mes.Call{Scope: rig.Scope, Method: isa95.Store, JobOrder: o})
			return err
		})
		t.Logf("%d orders were stored within %v", len(backlog), time.Since(begin).Round(10*time.Millisecond))

		done := w.Executed()
		w.f.orders += 200
		w.orders("LATE", 200)
		w.UntilExecuted(done + 100 + w.Rand.IntN(100))
		due := w.strikes(fmt.Sprintf("%d timers are due at once", len(backlog)))
		timers := []string{"ZADD", w.Keys.SfcTimers()}
		for _, o := range backlog {
			timers = append(timers, "1", o.JobOrderID)
		}
		w.must("SLOWLOG", "RESET")
		w.must(timers...)
		due.ends(2 * time.Second)
		w.Until("no timer of them is left", func() bool { return w.number("ZCOUNT", w.Keys.SfcTimers(), "-inf", "1") == 0 })
		t.Logf("%d timers were handled within %v", len(backlog), time.Since(due.over).Round(time.Millisecond))

		w.mes.Away()
		had := len(w.mes.Ledger().Results)
		w.ordering.Wait()
		w.Until("all others end", func() bool { return len(w.underWay()) == 0 })
		back := time.Now()
		w.mes.Follow()
		w.mes.UntilDone(w.f.orders)
		took := time.Since(back)
		t.Logf("%d results were handed over and cleared within %v after the MES was back, the aim is 10 s; the longest command of Redis took %v", w.f.orders-had,
			took.Round(10*time.Millisecond), slowestOf(t, w.must("SLOWLOG", "GET", "-1")))
		if took > 10*time.Second+busy {
			t.Errorf("I6: results were handed over within %v, want 10 s, and on a busy machine at most %v more", took, busy)
		}
		all(func(o *isa95.JobOrder) error {
			_, err := w.mes.Client.Cancel(ctx, rig.Scope, isa95.JobOrderID(o.JobOrderID))
			return err
		})
	}}.run(t)
}

func (w *jobWorld) number(words ...string) int {
	w.t.Helper()
	return int(w.Redis.Number(w.t, words...))
}

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
			g.goroutines, err = strconv.Atoi(strings.TrimSpace(n))
			testenv.Must(w.t, err)
		}
	}
	if g.goroutines == 0 {
		w.t.Fatal("/metrics says nothing of goroutines")
	}
	return g
}
