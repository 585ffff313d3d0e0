package sfc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var patience = testenv.Patience // only shows when something is stuck

// plant is a Redis, the equipment, an MES, and any number of engines.
type plant struct {
	t      testing.TB
	redis  *testenv.RedisServer
	prefix string
	cell   *cell
	mes    *jobstore.Store // the MES' own connection
}

func newPlant(t testing.TB) *plant { return newPlantOn(t, testenv.Redis(t)) }

// newSilent is a plant whose equipment does not answer.
func newSilent(t testing.TB) *plant {
	p := newPlant(t)
	p.cell.react = func(request) reaction { return reaction{silent: true} }
	return p
}

func newPlantOn(t testing.TB, redis *testenv.RedisServer) *plant {
	t.Helper()
	p := &plant{t: t, redis: redis, prefix: redis.Prefix(t), cell: newCell(t)}
	p.mes = p.open("mes", redis.URL, nil)
	return p
}

func (p *plant) open(instance, url string, edit func(*jobstore.Options)) *jobstore.Store {
	p.t.Helper()
	o := jobstore.Options{URL: url, Prefix: p.prefix, Instance: instance, WorkerTTL: time.Hour, Log: p.log(instance)}
	if edit != nil {
		edit(&o)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	s, err := jobstore.Open(ctx, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(s.Close)
	return s
}

func (p *plant) log(name string) *slog.Logger {
	if !testenv.Logs() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(p.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", name)
}

// instance is a process: a store, an engine, a connection to the cell.
type instance struct {
	*Engine
	p      *plant
	name   string
	counts *counts
	stop   func() // as SIGTERM does, and waits
}

type setup struct {
	url    string // of Redis; "" = the plant's
	store  func(*jobstore.Options)
	engine func(*Options)
	idle   bool // do not Run
	random bool // tokens as outside tests; else those of testSeed
}

// testSeed makes the tokens of commands, so that a test can answer one that it did not read.
var testSeed = recipe.Seed{7}

// start makes an instance and runs it until the test ends or it is stopped.
func (p *plant) start(name string, with setup) *instance {
	p.t.Helper()
	if with.url == "" {
		with.url = p.redis.URL
	}
	i := &instance{p: p, name: name, counts: &counts{n: make(map[Counted]int)}}
	o := Options{
		TopicPrefix: "plant", Instance: name, TimerEvery: 10 * time.Millisecond, TimerHold: 300 * time.Millisecond,
		SweepEvery: time.Hour, Drain: 3 * time.Second, Slots: 8,
		Count: i.counts.add, Log: p.log(name),
	}
	if with.engine != nil {
		with.engine(&o)
	}
	store := p.open(name, with.url, with.store)
	i.Engine = New(store, p.cell.port(name), o)
	if !with.random {
		i.draw = func() recipe.Seed { return testSeed }
	}
	if with.idle {
		p.cell.join(i)
		i.stop = func() { p.cell.leave(i.name) }
		p.t.Cleanup(i.stop)
		return i
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	heart, still := context.WithCancel(context.WithoutCancel(ctx))
	var running, beating sync.WaitGroup
	running.Go(func() {
		if err := i.Run(ctx); err != nil {
			p.t.Errorf("engine %s: %v", name, err)
		}
	})
	beating.Go(func() { _ = store.RunWorker(heart) })
	p.cell.join(i)
	i.stop = sync.OnceFunc(func() {
		p.cell.leave(i.name)
		cancel()
		running.Wait()
		still()
		beating.Wait()
	})
	p.t.Cleanup(i.stop)
	return i
}

// died ends the heartbeat of an instance that is cut off from Redis, as time does: those that live have theirs for longer than any test, however busy the machine.
func (p *plant) died(instance string) {
	p.t.Helper()
	p.redis.Expire(p.t, keys.New(p.prefix).Worker(instance))
}

// mortal is for an instance that is to be cut off for good: for so long it tries to do what it has, and holds up the end of its test.
func mortal(ttl time.Duration) func(*jobstore.Options) {
	return func(o *jobstore.Options) { o.WorkerTTL = ttl }
}

// takeWork lets an idle instance handle the work stream until it is empty.
func (i *instance) takeWork() {
	i.p.t.Helper()
	ctx, cancel := context.WithCancel(i.p.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = i.store.RunWorker(ctx) })
	running.Go(func() { _ = i.runWork(ctx) })
	i.p.empty(keys.New(i.p.prefix).SfcWork())
	cancel()
	running.Wait()
}

// empty waits until a stream has no entries.
func (p *plant) empty(stream string) {
	p.t.Helper()
	eventually(p.t, stream+" is empty", func() bool { return p.redis.Number(p.t, "XLEN", stream) == 0 })
}

// entries are the fields of all entries of a stream.
func (p *plant) entries(stream string) []map[string]string {
	p.t.Helper()
	entries, err := p.redis.Must(p.t, "XRANGE", stream, "-", "+").AsXRange()
	p.must(err)
	var all []map[string]string
	for _, e := range entries {
		all = append(all, e.FieldValues)
	}
	return all
}

// counts is what an engine counted.
type counts struct {
	mu sync.Mutex
	n  map[Counted]int
}

func (c *counts) add(x Counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[x]++
}

func (c *counts) of(o Operation, r Result) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[Counted{o, r}]
}

const scope isa95.Scope = "cell-07"

// gearbox is the recipe of spec G.4.
func gearbox(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/gearbox.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (p *plant) workMaster(id string, text []byte) {
	p.t.Helper()
	p.workMasterAt(scope, id, text)
}

func (p *plant) workMasterAt(scope isa95.Scope, id string, text []byte) {
	p.t.Helper()
	p.configure(jobstore.Configuration{Scope: scope, ID: id, WorkMaster: &isa95.WorkMaster{ID: id, Data: text, DataSchema: recipe.SchemaURI}})
}

// foreign stores a work master with a recipe of another format.
func (p *plant) foreign(id string) {
	p.t.Helper()
	p.configure(jobstore.Configuration{Scope: scope, ID: id, WorkMaster: &isa95.WorkMaster{ID: id, Data: []byte(`{"program":"P7"}`), DataSchema: "urn:acme:robot"}})
}

func (p *plant) configure(c jobstore.Configuration) {
	p.t.Helper()
	c.Kind = isa95.ConfigWorkMaster
	snap, err := p.mes.Load(p.t.Context(), jobstore.Query{Holders: isa95.WorkMasterID(c.ID)})
	p.must(err)
	p.must(p.mes.Configure(p.t.Context(), c, snap, nil))
}

func (p *plant) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// order stores and starts a job order, as the job order receiver does.
func (p *plant) order(id, workMaster string, parameters ...string) {
	p.t.Helper()
	o := &isa95.JobOrder{JobOrderID: id}
	if workMaster != "" {
		o.WorkMasterID = []isa95.WorkMasterRef{{}, {ID: workMaster}} // an empty one is passed over
	}
	for i := 0; i+1 < len(parameters); i += 2 {
		value, _ := json.Marshal(parameters[i+1])
		o.JobOrderParameters = append(o.JobOrderParameters, isa95.Parameter{ID: parameters[i], Value: value})
	}
	p.call(id, isa95.StoreAndStart, o)
}

// judged stores and starts a job order of the work master WM at a station, as the receiver does that judged it by a recipe.
func (p *plant) judged(scope isa95.Scope, by, id string) {
	p.t.Helper()
	snap, err := p.mes.Load(p.t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope})
	p.must(err)
	p.must(p.mes.Commit(p.t.Context(), snap, jobstore.Change{
		Transition: &jobstore.Transition{
			Method: isa95.StoreAndStart, State: isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready}, JudgedBy: by,
			Order: &isa95.JobOrder{JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM"}}},
		},
		Work: []string{jobstore.WorkStart}, Now: p.mes.Now(),
	}))
}

// call makes the change that the job order receiver makes for a method (spec B.9).
func (p *plant) call(id string, m isa95.Method, o *isa95.JobOrder) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	p.must(again(ctx, func() error { return p.try(ctx, id, m, o) }))
}

func (p *plant) try(ctx context.Context, id string, m isa95.Method, o *isa95.JobOrder) error {
	q := jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope}
	snap, err := p.mes.Load(ctx, q)
	if err != nil {
		return err
	}
	if snap.Execution != nil && (m == isa95.Abort || m == isa95.Stop) {
		q.Mailboxes = snap.Execution.WaitingTypes()
		if snap, err = p.mes.Load(ctx, q); err != nil {
			return err
		}
	}
	state := isa95.Initial
	if snap.Job != nil && !snap.Job.State.IsEnd() {
		state = snap.Job.State
	}
	next, ok := isa95.Next(state, m)
	if !ok {
		return fmt.Errorf("%s is %s, which %s does not leave", id, state, m)
	}
	change := jobstore.Change{Transition: &jobstore.Transition{Method: m, Order: o, State: next, JudgedBy: jobstore.JudgedByNone}, Now: p.mes.Now()}
	if next.Top == isa95.AllowedToStart {
		change.Work = []string{jobstore.WorkStart}
	}
	if x := snap.Execution; x != nil && !x.Terminal() {
		change.CorrelationID = x.CorrelationID
		switch m {
		case isa95.Abort:
			change.Execution = x.Abort("aborted by the MES", change.Now)
			change.Mailboxes = forget(snap, id)
		case isa95.Stop:
			change.Execution = x.Stop(change.Now)
			change.Mailboxes = forget(snap, id)
		case isa95.Pause:
			change.Execution = x.Pause(change.Now)
		case isa95.Resume:
			change.Execution = x.Resume(change.Now)
			change.Work = []string{jobstore.WorkResume}
		}
		if change.Execution != nil {
			change.Due = change.Execution.Due()
		}
	}
	if next.Clearable() {
		stored := *snap.Job
		change.Response = jobstore.NewResponse(&stored, change.Execution, next, change.Now)
	}
	return p.mes.Commit(ctx, snap, change)
}

// load reads a job order, its execution and its response.
func (p *plant) load(id string) *jobstore.Snapshot {
	p.t.Helper()
	snap, err := p.mes.Load(p.t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Response: true})
	p.must(err)
	return snap
}

func (p *plant) state(id string) string {
	p.t.Helper()
	if job := p.load(id).Job; job != nil {
		return job.State.String()
	}
	return ""
}

// history is what the change stream says of a job order.
func (p *plant) history(id string) []string {
	p.t.Helper()
	var all []string
	p.follow(id, func(c jobstore.ChangeEntry) bool { all = append(all, c.Type); return false })
	return all
}

// follow calls f with the changes of a job order from the beginning until it returns true, which waits for more, or,
// when f only looks, until there are no more.
func (p *plant) follow(id string, f func(jobstore.ChangeEntry) bool) bool {
	p.t.Helper()
	for after := "0"; ; {
		changes, err := p.mes.Watch(p.t.Context(), scope, after, time.Millisecond)
		p.must(err)
		if len(changes) == 0 {
			return false
		}
		for _, c := range changes {
			if after = c.ID; c.JobOrderID == isa95.JobOrderID(id) && f(c) {
				return true
			}
		}
	}
}

// await waits for changes of a job order on the change stream, in this order.
func (p *plant) await(id string, types ...string) {
	p.t.Helper()
	p.awaitOr(nil, id, types...)
}

// awaitOr is await, but returns false once stop is closed.
func (p *plant) awaitOr(stop <-chan struct{}, id string, types ...string) bool {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	after := "0"
	for {
		changes, err := p.mes.Watch(ctx, scope, after, 50*time.Millisecond)
		if err != nil && !jobstore.Away(err) || ctx.Err() != nil {
			snap := p.load(id)
			p.t.Fatalf("%s: no %v: it is %s, history %v, %v, execution %s", id, types, p.state(id), p.history(id), err, snap.Execution.Encode())
		}
		for _, c := range changes {
			after = c.ID
			switch {
			case c.JobOrderID != isa95.JobOrderID(id):
			case c.Type == types[0]:
				if types = types[1:]; len(types) == 0 {
					return true
				}
			case c.Type == "End" || c.Type == "Abort" && types[0] == "End":
				p.t.Fatalf("%s: no %v: it is %s, history %v", id, types, p.state(id), p.history(id))
			}
		}
		select {
		case <-stop:
			return false
		default:
		}
	}
}

var eventually = testenv.Eventually

// settled: nothing of the engines is left in Redis but documents, and no invariant is broken.
func (p *plant) settled() {
	p.t.Helper()
	k := keys.New(p.prefix)
	p.empty(k.SfcWork())
	p.empty(k.SfcOutbox())
	eventually(p.t, "no timer and no active job is left", func() bool {
		return p.redis.Number(p.t, "ZCARD", k.SfcTimers()) == 0 && p.redis.Number(p.t, "SCARD", k.SfcActiveJobs()) == 0
	})
	p.consistent()
}

// consistent: no invariant of the store is broken; status events, which nobody sends here, may wait.
func (p *plant) consistent() {
	p.t.Helper()
	violations, err := p.mes.Check(p.t.Context(), jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	p.must(err)
	for _, v := range violations {
		p.t.Errorf("broken: %s", v)
	}
}

// statuses are the states in the status events of a job order, in the outbox that is not emptied here.
func (p *plant) statuses(id string) []string {
	p.t.Helper()
	var texts []string
	for _, e := range p.entries(keys.New(p.prefix).EventReceiver()) {
		if e["job_order_id"] != id {
			continue
		}
		var ev cloudevent.Event
		p.must(json.Unmarshal([]byte(e["event"]), &ev))
		var body isa95.StatusEvent
		p.must(isa95.Unmarshal(ev.Data, &body))
		state, err := isa95.ParseState(body.JobState)
		p.must(err)
		text := state.String()
		if body.JobResponse != nil {
			text += "+response"
		}
		texts = append(texts, text)
	}
	return texts
}

// responseError is the reason in a response, "" if there is none.
func responseError(t testing.TB, r *isa95.JobResponse) string {
	t.Helper()
	if r == nil {
		t.Fatal("there is no response")
	}
	for _, d := range r.JobResponseData {
		if d.ID == jobstore.ErrorParameter {
			var text string
			if err := json.Unmarshal(d.Value, &text); err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	return ""
}

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
