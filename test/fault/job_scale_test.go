package fault_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
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
	if err != nil {
		w.t.Fatal(err)
	}
	if len(entries) == 0 {
		return nil
	}
	return entries[0].FieldValues
}

// spent is how long Redis was busy with these commands.
func (w *jobWorld) spent(commands ...string) (busy time.Duration) {
	w.t.Helper()
	text, err := w.must("INFO", "commandstats").ToString()
	if err != nil {
		w.t.Fatal(err)
	}
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
		ctx := rig.Context(t)
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
