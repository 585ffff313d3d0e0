package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/test/rig"
)

// Fault 17: the memory of Redis is full for longer than each command may take. New orders are refused, and it is said why; orders that are over can be cleared, and orders that
// have not begun be canceled, for both make room. Orders under way end.
func TestFault17MemoryFull(t *testing.T) {
	t.Parallel()
	jobFault{redis: always(), underWay: 300, takes: "1s..3s", do: func(w *jobWorld) { // orders are under way, though none is given back
		ctx := testenv.Within(t)
		c := w.mes.Client
		w.mes.Away() // it would clear what we want to clear
		extra := rig.Orders("EXTRA", 2)
		_, err := c.StoreAndStart(ctx, rig.Scope, extra[0])
		for err == nil { // until it may be cleared
			if _, err = c.Abort(ctx, rig.Scope, "EXTRA-001"); err == nil {
				break
			}
			if refused, ok := errors.AsType[*mes.RefusedError](err); ok && refused.Status == isa95.InvalidStatus {
				err = nil // it does not run yet
			}
			w.lasts(20 * time.Millisecond)
		}
		if err == nil {
			_, err = c.Store(ctx, rig.Scope, extra[1])
		}
		testenv.Must(t, err)

		full := w.strikes("the memory of Redis is full for 15 s")
		w.must("CONFIG", "SET", "maxmemory", "1")
		end := time.Now().Add(15 * time.Second)
		if _, err := c.Clear(ctx, rig.Scope, "EXTRA-001"); err != nil {
			t.Errorf("Clear: %v", err)
		}
		if _, err := c.Cancel(ctx, rig.Scope, "EXTRA-002"); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		short, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		if _, err := c.Store(short, rig.Scope, rig.Orders("REFUSED", 1)[0]); err == nil || !strings.Contains(err.Error(), "memory") {
			t.Errorf("a Store: %v, want the reason", err)
		}
		w.lasts(time.Until(end))
		if n := len(w.underWay()); n == 0 {
			t.Error("no order is under way: nothing can be said of how soon they go on")
		}
		w.must("CONFIG", "SET", "maxmemory", "0")
		full.ends(jobTTL)
		w.Until("the topics of the order that was cleared are gone", func() bool {
			return w.number("HEXISTS", w.Keys.PubIndex(string(rig.Scope)), "EXTRA-001") == 0
		})
		w.mes.Follow()
		w.mes.Until("the next order is taken", func(l rig.Ledger) bool { return len(l.Accepted) > 0 })
	}}.run(t)
}

// Fault 17, Redis throws away keys that expire: heartbeats, replies, mailboxes, ids that were seen. All orders end, and the log can be read.
func TestFault17KeysEvicted(t *testing.T) {
	t.Parallel()
	jobFault{commands: true, redis: always("maxmemory 1gb", "maxmemory-policy volatile-lru"), do: func(w *jobWorld) {
		lines := func(name string) (n int) {
			for line := range strings.Lines(w.serves[name].Stderr()) {
				if !strings.Contains(line, "jobcontrol: refused") { // a line for each command
					n++
				}
			}
			return n
		}
		before := map[string]int{"a": lines("a"), "b": lines("b")}
		begin := time.Now()
		for range 3 {
			w.must("CONFIG", "SET", "maxmemory", "1")
			w.lasts(2 * time.Second)
			w.must("CONFIG", "SET", "maxmemory", "1gb")
			w.lasts(time.Second)
		}
		for name := range w.serves {
			if rate := float64(lines(name)-before[name]) / time.Since(begin).Seconds(); rate > 10 {
				t.Errorf("%s wrote %.1f lines a second beside refusals", name, rate)
			}
		}
	}}.run(t)
}

// Fault 20: Redis forgets its scripts all the time.
func TestFault20ScriptFlush(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		flushed := w.strikes("SCRIPT FLUSH every 10 ms for 5 s")
		for range 500 {
			w.must("SCRIPT", "FLUSH")
			w.lasts(10 * time.Millisecond)
		}
		flushed.ends(time.Second)
	}}.run(t)
}

// Fault 14: one order is stored a thousand times under one id, and Redis is killed meanwhile. It is one order, and all get the same answer.
func TestFault14RetryStorm(t *testing.T) {
	t.Parallel()
	jobFault{redis: always(), orders: 100, do: func(w *jobWorld) {
		const calls = 1000
		call := mes.Call{ID: "storm", Scope: rig.Scope, Method: isa95.Store, JobOrder: rig.Orders("STORM", 1)[0]}
		ctx := testenv.Within(t)
		answers := make(chan error, calls)
		for range calls {
			go func() { // under one id the client has one call at a time
				_, err := w.mes.Client.Call(ctx, call)
				answers <- err
			}()
		}
		killed := w.strikes("Redis is killed")
		w.Redis.Kill(t)
		restart(t, w.Redis.Server)
		killed.ends(2 * time.Second)
		for range calls {
			testenv.Must(t, <-answers)
		}
		if _, err := w.mes.Client.Cancel(ctx, rig.Scope, "STORM-001"); err != nil {
			t.Error(err)
		}
		if _, err := w.mes.Client.Cancel(ctx, rig.Scope, "STORM-001"); err == nil {
			t.Error("there was another order of that name")
		}
	}}.run(t)
}

// Fault 25: two hundred ask for one order under two hundred ids at once: it is taken once, and refused to the others because it exists.
func TestFault25OneOrderOfManyWishes(t *testing.T) {
	t.Parallel()
	jobFault{orders: 100, do: func(w *jobWorld) {
		const calls = 200
		ctx := testenv.Within(t)
		answers := make(chan error, calls)
		for i := range calls {
			go func() {
				_, err := w.mes.Client.Call(ctx, mes.Call{ID: fmt.Sprint("wish-", i), Scope: rig.Scope, Method: isa95.Store, JobOrder: rig.Orders("WISH", 1)[0]})
				answers <- err
			}()
		}
		taken := 0
		for range calls {
			err := <-answers
			var refused *mes.RefusedError
			switch {
			case err == nil:
				taken++
			case !errors.As(err, &refused) || refused.JobOrderState() == isa95.Initial:
				t.Errorf("%v, want a refusal that names the state of the order", err)
			}
		}
		if taken != 1 {
			t.Errorf("%d were told that they made the order", taken)
		}
	}, judge: func(w *jobWorld) {
		w.mes.UntilDone(w.f.orders) // by then no repetition is on its way, which would be taken once the order is gone
		if _, err := w.mes.Client.Cancel(testenv.Within(t), rig.Scope, "WISH-001"); err != nil {
			t.Error(err)
		}
		w.verify()
	}}.run(t)
}

// Fault 16: the streams of work get entries that cannot be read, of a verb that is not known, and of a command of a later version. They hold up nothing. What cannot be read is kept
// as dead letters, and takt check names them.
func TestFault16UnreadableEntries(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		streams := map[string][]string{
			"sfc:work":            {"nothing", "known"},
			"sfc:outbox":          {"command", "{"},
			"event:receiver:list": {"event", "{"},
		}
		for stream, fields := range streams {
			w.must(append([]string{"XADD", w.Prefix + ":" + stream, "*"}, fields...)...)
		}
		w.must("XADD", w.Keys.SfcWork(), "*", "action", "a verb of the future", "job_id", "JO-001", "scope", string(rig.Scope))
		w.Until("they are dead letters", func() bool {
			check := w.Takt("check", "--json")
			for stream := range streams {
				if !strings.Contains(check.Stdout, w.Keys.DeadLetter(w.Prefix+":"+stream)) {
					return false
				}
			}
			return true
		})
		for stream := range streams {
			w.must("DEL", w.Keys.DeadLetter(w.Prefix+":"+stream))
		}
	}}.run(t)
}

// Fault 7: everything in Redis is deleted with orders under way. Those are lost, as everything is, and the MES is told so. The processes stay up, and make
// their groups and indexes anew. Once they know again what the station has, all orders run that are ordered again, and new ones.
func TestFault7FlushAll(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{Commands: true})
	w.Forgets = true
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	m.Order(rig.Orders("OLD", 40))
	w.UntilExecuted(1 + w.Rand.IntN(80))
	m.Away()
	w.Redis.Must(t, "FLUSHALL")
	w.Configure(m)
	m.Follow()
	go m.Order(rig.Orders("NEW", 40))
	m.UntilDone(80)
	if l := m.Ledger(); len(l.Lost) == 0 {
		t.Error("no order is reported as lost")
	}
	w.Verify(m)
	stillUp(t, a, b, w.Station())
}

// restart kills servers, unless they were already, and starts them again.
func restart(t *testing.T, servers ...*embedded.Server) {
	t.Helper()
	for _, s := range servers {
		testenv.Must(t, s.Kill())
	}
	for _, s := range servers {
		testenv.Must(t, s.Restart(testenv.Within(t)))
	}
}

// stillUp fails the test if one of the processes has ended.
func stillUp(t *testing.T, processes ...*rig.Process) {
	t.Helper()
	for _, p := range processes {
		if p.Gone() {
			t.Errorf("process %d has ended", p.PID())
		}
	}
}
