package sfc

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
)

// runBracket lets one order of a bracket run to its end.
func (p *plant) runBracket(id string) {
	p.t.Helper()
	p.order(id, "WM")
	p.cell.emit(event07("part.v1", "cell-07", "", fmt.Sprintf(`{"n":1,"for":%q}`, id)))
	p.await(id, "End", "ResultUpdate")
	if done := p.cell.done(id); fmt.Sprint(done) != "[drill#1 release#1]" {
		p.t.Errorf("%s: the equipment did %v", id, done)
	}
}

// Replies of both protocols are read.
func TestBothProtocols(t *testing.T) {
	t.Parallel()
	for _, resp2 := range []bool{true, false} {
		t.Run(fmt.Sprintf("RESP2=%v", resp2), func(t *testing.T) {
			p := newPlant(t)
			bracketCell(p.cell)
			p.workMaster("WM", []byte(bracket))
			p.start("a", setup{store: func(o *jobstore.Options) { o.RESP2 = resp2 }, engine: func(o *Options) { o.SweepEvery = 20 * time.Millisecond }})
			p.runBracket("JO")
			p.settled()
		})
	}
}

// Work entries that an operator deleted are found missing and enqueued again.
func TestWorkStreamDeleted(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	bracketCell(p.cell)
	p.workMaster("WM", []byte(bracket))
	p.workMasterOf("WM-other", "https://example.com/other", pushes(1))
	p.order("JO-other", "WM-other")
	p.order("JO-none", "")
	p.order("JO", "WM")
	p.cell.emit(event07("part.v1", "cell-07", "", `{"n":1}`))
	rdb, work := p.redis.Client, keys.New(p.prefix).SfcWork()
	p.must(rdb.Do(t.Context(), rdb.B().Del().Key(work).Build()).Error())
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
	rdb, k, ctx := p.redis.Client, keys.New(p.prefix), t.Context()
	p.must(rdb.Do(ctx, rdb.B().Set().Key(k.Lease(roleSweeper)).Value("another instance").Build()).Error())
	wrong := k.SfcMailbox(string(scope), "part.v1")
	p.must(rdb.Do(ctx, rdb.B().Rpush().Key(wrong).Element("keeps the entry pending").Build()).Error())
	g := testenv.CountingProxy(t, p.redis.URL)
	p.start("a", setup{url: g.URL, store: mortal(2 * time.Second)})
	p.order("JO", "WM")
	eventually(t, "the entry is pending", func() bool {
		pending, err := rdb.Do(ctx, rdb.B().Xpending().Key(k.SfcWork()).Group("sfc-engine").Build()).ToArray()
		if err != nil || len(pending) == 0 {
			return false
		}
		n, err := pending[0].AsInt64()
		return err == nil && n == 1
	})
	g.Refuse(true)
	g.Cut()
	p.cell.leave("a")
	p.must(rdb.Do(ctx, rdb.B().Xtrim().Key(k.SfcWork()).Maxlen().Threshold("0").Build()).Error())
	p.must(rdb.Do(ctx, rdb.B().Del().Key(wrong).Build()).Error())
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
	s.order("JO-2", "WM")
	s.a.takeWork()
	rdb, k, ctx := s.redis.Client, keys.New(s.prefix), t.Context()
	s.must(rdb.Do(ctx, rdb.B().Del().Key(k.SfcTimers()).Build()).Error())
	s.must(rdb.Do(ctx, rdb.B().Del().Key(k.SfcExecution("JO-2")).Build()).Error())
	s.must(rdb.Do(ctx, rdb.B().Sadd().Key(k.SfcActiveJobs()).Member("JO-gone").Build()).Error())
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
	rdb, ctx := p.redis.Client, t.Context()
	p.must(rdb.Do(ctx, rdb.B().Del().Key(keys.New(p.prefix).SfcWork()).Build()).Error())
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

// FLUSHALL while the engine runs: it lives on, and runs what comes next.
func TestEverythingDeleted(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	bracketCell(p.cell)
	p.workMaster("WM", []byte(bracket))
	p.start("a", setup{})
	p.runBracket("JO-1")
	p.order("JO-2", "WM")
	rdb := p.redis.Client
	p.must(rdb.Do(t.Context(), rdb.B().Flushall().Build()).Error())
	p.workMaster("WM", []byte(bracket))
	p.runBracket("JO-3")
	p.settled()
}

// Redis and the broker go away and come back, each alone, one after the other, and together: the engine lives, and the
// order is done once.
func TestOutages(t *testing.T) {
	long.Test(t, "cuts an engine off")
	t.Parallel()
	for _, plan := range []string{"redis", "broker", "redis broker", "both"} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			bracketCell(p.cell)
			p.workMaster("WM", []byte(bracket))
			proxy := testenv.CountingProxy(t, p.redis.URL)
			refused := make(chan struct{}, 1000)
			broker := true
			p.cell.before = func(string, int) error {
				p.cell.mu.Lock()
				defer p.cell.mu.Unlock()
				if broker {
					return nil
				}
				select {
				case refused <- struct{}{}:
				default:
				}
				return mqtt.ErrDown
			}
			setBroker := func(up bool) {
				p.cell.mu.Lock()
				defer p.cell.mu.Unlock()
				broker = up
			}
			redisDown := func() { proxy.Refuse(true); proxy.Cut(); p.died("a") }
			redisUp := func() { proxy.Refuse(false) }
			a := p.start("a", setup{url: proxy.URL})

			p.runBracket("JO-0")
			dials := proxy.Dials()
			dialled := func() {
				eventually(t, "the engine tries Redis", func() bool { return proxy.Dials() > dials+3 })
			}
			part := event07("part.v1", "cell-07", "", `{"n":1}`)
			switch plan {
			case "redis":
				redisDown()
				p.order("JO", "WM")
				p.cell.emit(part)
				dialled()
				if err := a.Event(t.Context(), event07("probe.v1", "cell-07", "", `{}`)); !jobstore.Away(err) {
					t.Errorf("an event while Redis is away: %v, want an error that says so", err)
				}
				redisUp()
			case "broker":
				setBroker(false)
				p.order("JO", "WM")
				p.cell.emit(part)
				<-refused
				setBroker(true)
			case "redis broker":
				redisDown()
				p.order("JO", "WM")
				p.cell.emit(part)
				dialled()
				setBroker(false)
				redisUp()
				<-refused
				setBroker(true)
			case "both":
				setBroker(false)
				redisDown()
				p.order("JO", "WM")
				p.cell.emit(part)
				dialled()
				redisUp()
				setBroker(true)
			}
			p.await("JO", "End", "ResultUpdate")
			if done := fmt.Sprint(p.cell.done("JO")); done != "[drill#1 release#1]" {
				t.Errorf("the equipment did %s", done)
			}
			p.settled()
		})
	}
}

// A command that the broker never takes ends its order with the reason, and does not stop the others.
func TestBrokerRefusesForEver(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	refusal := &mqtt.PublishError{Topic: "plant/equipment/cell-07/commands", Code: 0x90, Reason: "topic name invalid"}
	p.cell.before = func(_ string, n int) error {
		if n == 1 {
			return refusal
		}
		return nil
	}
	p.workMaster("WM", impatient("60", "1"))
	a := p.start("a", setup{})
	p.order("JO", "WM")
	p.await("JO", "Abort", "ResultUpdate")
	if text := responseError(t, p.load("JO").Response); !contains(text, "topic name invalid", "go") {
		t.Errorf("the response says %q", text)
	}
	if n := a.counts.of(OpDispatch, Invalid); n != 1 {
		t.Errorf("counted %d", n)
	}
	p.settled()
}

// Rights that the broker does not grant for a moment, while they are loaded again, cost no order: its command is tried again, and one line says so.
func TestBrokerDeniesForAMoment(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	var log testenv.Log
	denials := 0 // publishes come one at a time: there is one command
	p.cell.before = func(string, int) error {
		if denials++; denials <= 4 {
			return &mqtt.PublishError{Topic: "plant/equipment/cell-07/commands", Code: 0x87, Reason: "not authorized"}
		}
		return nil
	}
	p.workMaster("WM", impatient("600", "1"))
	p.start("a", setup{engine: func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }})
	p.order("JO", "WM")
	p.await("JO", "End", "ResultUpdate")
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !contains(log.String(), "plant/equipment/cell-07/commands", "not authorized", "right to publish") {
		t.Errorf("%d errors in the log: %s", n, log.String())
	}
	p.settled()
}

// Rights that stay away end the order at the time-out of its action, not before and not never.
func TestBrokerDeniesUntilTheTimeOut(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.cell.before = func(string, int) error {
		return &mqtt.PublishError{Topic: "plant/equipment/cell-07/commands", Code: 0x87, Reason: "not authorized"}
	}
	p.workMaster("WM", impatient("2", "1"))
	p.start("a", setup{})
	p.order("JO", "WM")
	p.await("JO", "Abort", "ResultUpdate")
	p.settled()
}

// Work that is no work is acknowledged and counted (spec B.3).
func TestUnknownVerb(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	a := p.start("a", setup{})
	rdb, k := p.redis.Client, keys.New(p.prefix)
	for _, verb := range []string{"dispatch_action:drill", "start_recipe", "resume"} {
		p.must(rdb.Do(t.Context(), rdb.B().Xadd().Key(k.SfcWork()).Id("*").FieldValue().FieldValue("action", verb).FieldValue("job_id", "JO-none").Build()).Error())
	}
	p.empty(k.SfcWork())
	if n, m, r := a.counts.of(OpWork, Invalid), a.counts.of(OpStart, NotFound), a.counts.of(OpActionState, NotFound); n != 1 || m != 1 || r != 1 {
		t.Errorf("counted %d, %d, %d", n, m, r)
	}
}
