package sfc

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
)

// Work entries that an operator deleted are found missing and enqueued again.
func TestWorkStreamDeleted(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	bracketCell(p.cell)
	p.workMaster("WM", []byte(bracket))
	p.foreign("WM-other")
	p.order("JO-other", "WM-other")
	p.order("JO-none", "")
	p.order("JO", "WM")
	p.cell.emit(event07("part.v1", "cell-07", "", `{"n":1}`))
	p.redis.Must(t, "DEL", keys.New(p.prefix).SfcWork())
	a := p.start("a", setup{engine: func(o *Options) { o.SweepEvery = 20 * time.Millisecond }})
	p.finished("JO")
	eventually(t, "orders without a recipe go to their station, too", func() bool { return a.counts.of(OpStart, Left) == 2 })
}

// Entries that were trimmed while they were handled start a sweep at once, whoever has the lease.
func TestPendingEntriesTrimmed(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	bracketCell(p.cell)
	p.workMaster("WM", []byte(bracket))
	k := keys.New(p.prefix)
	p.redis.Must(t, "SET", k.Lease(jobstore.RoleSweeper), "another instance")
	wrong := k.SfcMailbox(string(scope), "part.v1")
	p.redis.Must(t, "RPUSH", wrong, "keeps the entry pending")
	g := testenv.CountingProxy(t, p.redis.URL)
	p.start("a", setup{url: g.URL, store: mortal(2 * time.Second)})
	p.order("JO", "WM")
	eventually(t, "the entry is pending", func() bool {
		pending, err := p.redis.Do(t, "XPENDING", k.SfcWork(), "sfc-engine").ToArray()
		if err != nil || len(pending) == 0 {
			return false
		}
		n, err := pending[0].AsInt64()
		return err == nil && n == 1
	})
	g.Refuse(true)
	g.Cut()
	p.cell.leave("a")
	p.redis.Must(t, "XTRIM", k.SfcWork(), "MAXLEN", "0")
	p.redis.Must(t, "DEL", wrong)
	p.died("a")
	p.start("b", setup{})
	p.cell.emit(event07("part.v1", "cell-07", "", `{"n":1}`))
	p.finished("JO")
}

// The sweeper mends what a half-restored store may hold: recipes without timers, timers and active jobs without
// recipes, a recipe that is over while its order is Running (B.10).
func TestSweepMends(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO-1")
	s.ordered("JO-2")
	k, ctx := keys.New(s.prefix), t.Context()
	s.redis.Must(t, "DEL", k.SfcTimers(), k.SfcExecution("JO-2"))
	s.redis.Must(t, "SADD", k.SfcActiveJobs(), "JO-gone")
	s.must(s.a.sweep(ctx))
	s.must(s.b.sweep(ctx)) // finds it enqueued
	if n := s.a.counts.of(OpSweep, OK) + s.b.counts.of(OpSweep, OK); n != 1 {
		t.Errorf("%d entries were enqueued", n)
	}
	s.a.takeWork()
	s.must(s.b.sweep(ctx))
	if snap := s.load("JO-2"); snap.Job.State.Top != isa95.Aborted || !contains(responseError(t, snap.Response), "lost") {
		t.Errorf("JO-2 is %s", snap.Job.State)
	}
	s.must(s.b.sweep(ctx)) // and forgets it
	if x := s.load("JO-1").Execution; x.Action("drill").CommandID != drill || x.Action("drill").Attempt != 1 {
		t.Errorf("JO-1: %+v", x.Action("drill"))
	}
	s.consistent()
}

// A recipe that was over at its start, whose second work entry is lost, is found, also by an instance that knows
// nothing of it.
func TestSweepFindsWhatIsOver(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	program, err := recipe.Compile([]byte(`{"Steps": [{"Name": "A", "Initial": true}], "Transitions": [], "Actions": []}`))
	p.must(err)
	p.workMaster("WM", []byte(`{}`))
	p.order("JO", "WM")
	ctx := t.Context()
	p.redis.Must(t, "DEL", keys.New(p.prefix).SfcWork())
	snap := p.load("JO")
	snap.Scope = scope
	out := program.Start(snap.Job.RecipeOrder(), "WM", "1-1", nil, p.mes.Now())
	next, _ := isa95.Next(snap.Job.State, isa95.Run)
	c := change(isa95.Run, next, p.mes.Now())
	c.Execution = out.Docs.Execution
	p.must(p.mes.Commit(ctx, snap, c))
	b := p.start("b", setup{idle: true})
	p.must(b.sweep(ctx))
	b.takeWork()
	if snap := p.load("JO"); snap.Job.State.String() != "Ended_Completed" || snap.Response == nil {
		t.Errorf("it is %s", snap.Job.State)
	}
	p.consistent()
}

// A command that the broker never takes ends its order with the reason, and does not stop the others. Rights that the broker does not grant for a
// moment, while they are loaded again, cost no order: its command is tried again, and one line says so. If they stay away the order ends at the
// time-out of its action, not before and not never.
func TestBrokerRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code     byte
		reason   string
		times    int // that it refuses
		seconds  string
		end      string
		response []string
	}{
		"for ever":             {0x90, "topic name invalid", 1, "60", "Abort", []string{"topic name invalid", "go"}},
		"for a moment":         {0x87, "not authorized", 4, "600", "End", nil},
		"until the time is up": {0x87, "not authorized", math.MaxInt, "2", "Abort", []string{"timed out", "go"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			var log testenv.Log
			refusals := 0 // publishes come one at a time: there is one command
			p.cell.before = func(string, int) error {
				if refusals++; refusals <= tc.times {
					return &mqtt.PublishError{Topic: "plant/equipment/cell-07/commands", Code: tc.code, Reason: tc.reason}
				}
				return nil
			}
			p.workMaster("WM", impatient(tc.seconds, "1"))
			a := p.start("a", setup{engine: func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }})
			p.order("JO", "WM")
			p.await("JO", tc.end, "ResultUpdate")
			if text := responseError(t, p.load("JO").Response); !contains(text, tc.response...) {
				t.Errorf("the response says %q", text)
			}
			denied := tc.code == 0x87
			if n := a.counts.of(OpDispatch, Invalid); (n == 1) == denied {
				t.Errorf("counted %d", n)
			}
			if n := strings.Count(log.String(), "level=ERROR"); denied && (n != 1 || !contains(log.String(), "plant/equipment/cell-07/commands", "not authorized", "right to publish")) {
				t.Errorf("%d errors in the log: %s", n, log.String())
			}
			p.settled()
		})
	}
}

// Work that is no work is acknowledged and counted (spec B.3).
func TestUnknownVerb(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	a := p.start("a", setup{})
	k := keys.New(p.prefix)
	for _, verb := range []string{"dispatch_action:drill", "start_recipe", "resume"} {
		p.redis.Must(t, "XADD", k.SfcWork(), "*", "action", verb, "job_id", "JO-none")
	}
	p.empty(k.SfcWork())
	if n, m, r := a.counts.of(OpWork, Invalid), a.counts.of(OpStart, NotFound), a.counts.of(OpActionState, NotFound); n != 1 || m != 1 || r != 1 {
		t.Errorf("counted %d, %d, %d", n, m, r)
	}
}
