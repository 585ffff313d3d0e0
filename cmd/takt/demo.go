package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

type demoCmd struct {
	ServeConfig
	Example    string        `type:"path" help:"Folder with orders.json, recipe.json, station.yaml and equipment.yaml; the built-in example if not given." placeholder:"DIR"`
	Outage     time.Duration `help:"How long the MES is away." default:"4s"`
	Timeout    time.Duration `help:"Give up after this time." default:"3m"`
	NoServe    bool          `help:"Do not run Takt: it is served by other processes on --redis and --mqtt."`
	NoStation  bool          `help:"Do not simulate the station: another process does, and writes --station-log."`
	Logs       string        `type:"path" help:"Keep the logs of the MES and the station in this folder." placeholder:"DIR"`
	StationLog string        `type:"path" help:"Log of a station that another process simulates." placeholder:"FILE"`
	MQTTListen string        `name:"mqtt-listen" help:"Where a broker that takt starts listens; a free port of 127.0.0.1 if not given." placeholder:"ADDR"`
	Keep       bool          `help:"Stay up after the report, with the web console, until Ctrl-C."`
	InProcess  bool          `help:"Run store and broker inside this process, also where redis-server and mosquitto are installed. This broker may lose acknowledged messages when a client takes its session over from an earlier connection."`
	JSON       bool          `name:"json" help:"End with one JSON object instead of a table."`

	drop func(isa95.JobResponse) bool // tests: the MES forgets these results
}

func (c *demoCmd) Run(ctx context.Context, a *app) error {
	if (c.NoServe || c.NoStation) && (a.Redis == "" || a.MQTT == "") {
		return &exitError{exitUsage, errors.New("--no-serve and --no-station need --redis URL and --mqtt URL of the processes that do the work")}
	}
	if c.NoStation && c.StationLog == "" {
		return &exitError{exitUsage, errors.New("--no-station needs --station-log FILE of the process that simulates the station")}
	}
	ex, err := loadExample(c.Example)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if !a.given("log-level") {
		a.log = newLog(a.err, "warn", a.LogFormat) // a demo shows its progress instead
	}
	c.SessionExpiry = 0 // this instance never comes back
	d := demo{demoCmd: c, app: a, example: ex, started: time.Now(), progress: newProgress(a.err)}
	r, err := d.run(ctx)
	d.progress.end()
	if r != nil && !d.shown {
		if perr := d.print(r); perr != nil {
			return perr
		}
	}
	if err != nil {
		return err
	}
	if !r.good() {
		return &exitError{exitFailed, errors.New(r.failures())}
	}
	return nil
}

// demo is one run.
type demo struct {
	*demoCmd
	*app
	example  *example
	started  time.Time
	progress *progress
	logs     string // folder of the logs
	infra    *infra
	console  string // its address; "" = none
	shown    bool   // the report was printed

	mu      sync.Mutex
	seen    reportBuilder // of the MES' log
	changed chan struct{} // closed and renewed with each order, result and Clear
}

func (d *demo) mesLog() string { return filepath.Join(d.logs, "mes.jsonl") }

func (d *demo) stationLog() string {
	if d.StationLog != "" {
		return d.StationLog
	}
	return filepath.Join(d.logs, "station.jsonl")
}

func (d *demo) print(r *report) error {
	if d.demoCmd.JSON {
		return printJSON(d.out, r)
	}
	return r.print(d.out)
}

// run does everything, and reports also what it found when something went wrong on the way.
func (d *demo) run(ctx context.Context) (*report, error) {
	if err := d.prepare(); err != nil {
		return nil, err
	}
	if d.Logs == "" {
		defer os.RemoveAll(d.logs)
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	d.progress.say("starting store and broker")
	in, err := startInfra(limited, d.Config, infraOptions{Listen: d.MQTTListen, InProcess: d.InProcess, Private: true}, d.log)
	if err != nil {
		return nil, err
	}
	defer in.stop()
	d.infra = in
	if in.InProcess {
		d.progress.note("the store is inside this process, in memory only")
	}
	if in.external() {
		if err := d.mustBeNew(limited); err != nil {
			return nil, err
		}
	}
	parts := newGroup(context.WithoutCancel(ctx)) // the report asks them what is left, also of a demo that was interrupted
	defer parts.stop()
	if err := d.startParts(limited, parts); err != nil {
		return nil, err
	}
	deadline, _ := limited.Deadline()
	driving, cancel := context.WithDeadline(parts.ctx, deadline)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	runErr := d.drive(driving)
	if err := parts.failed(); err != nil {
		runErr = err
	}
	r, err := d.finish(context.WithoutCancel(ctx), runErr)
	if d.Keep && err == nil && ctx.Err() == nil {
		d.progress.end()
		if err := d.print(r); err != nil {
			return nil, err
		}
		d.shown = true
		d.progress.note("the console is at " + d.console + " until Ctrl-C")
		select {
		case <-ctx.Done():
		case <-parts.ctx.Done():
		}
	}
	return r, err
}

func (d *demo) prepare() error {
	d.seen = newReport("")
	d.changed = make(chan struct{})
	if d.logs = d.Logs; d.logs == "" {
		dir, err := os.MkdirTemp("", "takt-demo-")
		if err != nil {
			return err
		}
		d.logs = dir
		return nil
	}
	return os.MkdirAll(d.logs, 0o700)
}

// startParts starts Takt and the station, each as it would run on its own.
func (d *demo) startParts(ctx context.Context, parts *group) error {
	if d.Keep || d.Console != "" {
		var err error
		if d.console, err = parts.console(d.app, "console-", cmp.Or(d.Console, "127.0.0.1:0"), d.ConsoleFlags, rulesOf(&d.ServeConfig), d.infra.InProcess); err != nil {
			return err
		}
		d.progress.note("the console is at " + d.console)
	}
	if !d.NoServe {
		if err := parts.serve(ctx, d.Config, &d.ServeConfig, "demo-"+randomHex(4), d.infra.InProcess, d.log); err != nil {
			return err
		}
	}
	if d.NoStation {
		return nil
	}
	return parts.station(ctx, station.Options{
		Equipment: d.example.equipment, MQTT: d.mqttOptions("takt-demo-station-"+randomHex(4), time.Hour, d.log),
		TopicPrefix: d.TopicPrefix, LogFile: d.stationLog(), Log: d.log,
	})
}

// drive is the MES: it configures the stations, sends the orders, follows their results, is away for a while, and comes
// back as a new process would, knowing only what is in its memory file.
func (d *demo) drive(ctx context.Context) (err error) {
	log, err := openLedger(d.mesLog(), d.count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	first, err := d.startMES(ctx, log)
	if err != nil {
		return err
	}
	if err := d.order(first.ctx, first.client, log); err != nil {
		if ctx.Err() != nil {
			err = d.gaveUp(ctx)
		}
		return errors.Join(err, first.stop())
	}
	if d.seen.Orders == 0 {
		return first.stop() // every order was refused: there is nothing to wait for
	}
	if err := d.until(first.ctx, func() bool { return d.seen.Results >= d.seen.Orders/4 }); err != nil {
		return errors.Join(err, first.stop())
	}
	if err := first.stop(); err != nil {
		return err
	}
	if err := log.add(mesEntry{Kind: mesAway}); err != nil {
		return err
	}
	d.progress.say("MES away")
	if !lifecycle.Sleep(ctx, d.Outage) {
		return d.gaveUp(ctx)
	}
	if err := log.add(mesEntry{Kind: mesBack}); err != nil {
		return err
	}
	d.progress.say("")
	second, err := d.startMES(ctx, log)
	if err != nil {
		return err
	}
	err = d.until(second.ctx, func() bool { return len(d.open()) == 0 })
	return errors.Join(err, second.stop())
}

// order configures the stations and sends all orders, every second one as Store and Start.
func (d *demo) order(ctx context.Context, client *mes.Client, log *ledger) error {
	d.progress.say("configuring the stations")
	if _, _, err := applyConfiguration(ctx, client, d.example.configuration); err != nil {
		return err
	}
	d.progress.say("")
	for i, o := range d.example.orders {
		err := sendOrder(ctx, client, o, i%2 == 0)
		entry := mesEntry{Kind: mesAccepted, Scope: string(o.Scope), Order: o.Order.JobOrderID}
		var refused *mes.RefusedError
		switch {
		case errors.As(err, &refused):
			entry.Kind, entry.Why = mesRefused, refused.Error()
			d.progress.note(fmt.Sprintf("%s: %v", o.Order.JobOrderID, refused))
		case err != nil:
			return err
		}
		if err := log.add(entry); err != nil {
			return err
		}
	}
	return nil
}

func sendOrder(ctx context.Context, client *mes.Client, o scopedOrder, atOnce bool) error {
	if atOnce {
		_, err := client.StoreAndStart(ctx, o.Scope, o.Order)
		return err
	}
	if _, err := client.Store(ctx, o.Scope, o.Order); err != nil {
		return err
	}
	_, err := client.Start(ctx, o.Scope, isa95.JobOrderID(o.Order.JobOrderID))
	return err
}

// mesProcess is an MES that runs.
type mesProcess struct {
	ctx    context.Context // ends with it: nobody may wait for results that nobody follows
	client *mes.Client
	stop   func() error
}

// startMES starts an MES with what is left of the one before: its memory file.
func (d *demo) startMES(ctx context.Context, log *ledger) (*mesProcess, error) {
	memory, err := mes.OpenMemory(filepath.Join(d.logs, "mes-memory.json"))
	if err != nil {
		return nil, err
	}
	client, err := mes.New(mes.Options{
		MQTT: d.mqttOptions("takt-demo-mes-"+randomHex(4), 0, d.log), TopicPrefix: d.TopicPrefix, Log: d.log,
	})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	g := newGroup(ctx)
	stop := func() error { return errors.Join(g.stop(), memory.Close()) }
	g.start("MES", client.Run)
	if err := client.Ready(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	g.start("MES follow", func(ctx context.Context) error {
		_, err := client.Follow(ctx, d.example.scopes(), mes.FollowOptions{
			Memory: memory, Clear: true,
			OnResult: func(_ context.Context, scope isa95.Scope, r isa95.JobResponse) error { return d.result(log, scope, r) },
			OnIndex: func(scope isa95.Scope, index isa95.StateIndex) {
				log.note(mesEntry{Kind: mesIndex, Scope: string(scope), Seq: int64(index.Seq)})
			},
			OnGap: func(gap mes.Gap) {
				if gap.Before != 0 { // 0: the MES never saw this station
					log.note(mesEntry{Kind: mesGap, Scope: string(gap.Scope), Seq: gap.After})
				}
			},
			OnClear: func(scope isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
				log.note(mesEntry{Kind: mesCleared, Scope: string(scope), Order: string(id)})
			},
		})
		return err
	})
	return &mesProcess{ctx: g.ctx, client: client, stop: stop}, nil
}

// result is the MES' own function: what Takt hands over is in its log before it returns.
func (d *demo) result(log *ledger, scope isa95.Scope, r isa95.JobResponse) error {
	if d.drop != nil && d.drop(r) {
		return nil
	}
	state, err := isa95.ParseState(r.JobState)
	if err != nil {
		return err
	}
	e := mesEntry{Kind: mesResult, Scope: string(scope), Order: r.JobOrderID, State: state.String()}
	for _, p := range r.JobResponseData {
		if p.ID == jobstore.ErrorParameter {
			if err := json.Unmarshal(p.Value, &e.Why); err != nil {
				return fmt.Errorf("parameter %s of %s: %w", p.ID, r.JobOrderID, err)
			}
		}
	}
	return log.add(e)
}

// count follows the MES' log, for progress.
func (d *demo) count(e mesEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.mes(e)
	if e.Kind != mesAccepted && e.Kind != mesResult && e.Kind != mesCleared {
		return
	}
	close(d.changed)
	d.changed = make(chan struct{})
	d.progress.count(fmt.Sprintf("orders %d/%d  results %d  cleared %d", d.seen.Orders, len(d.example.orders), d.seen.Results, d.seen.Cleared))
}

func (d *demo) until(ctx context.Context, done func() bool) error {
	for {
		d.mu.Lock()
		ok, changed := done(), d.changed
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d.gaveUp(ctx)
		}
	}
}

// endedEarly says that the demo ended with orders outstanding. finish adds which ones.
type endedEarly struct{ why string }

func (e *endedEarly) Error() string { return e.why }

func (d *demo) gaveUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &endedEarly{fmt.Sprintf("gave up after %v", d.Timeout)}
	}
	return &endedEarly{"stopped before the end"}
}

// open are the accepted orders that have no result or are not cleared. d.mu is held.
func (d *demo) open() (ids []string) {
	for id := range d.seen.accepted {
		if o := d.seen.orders[id]; o.State == "" || !o.Cleared {
			ids = append(ids, id)
		}
	}
	return ids
}

// waiting has one line for each accepted order that has no result or is not cleared: what Takt says of it.
func (d *demo) waiting(ctx context.Context, store *jobstore.Store) ([]string, error) {
	d.mu.Lock()
	open := slices.Sorted(slices.Values(d.open()))
	d.mu.Unlock()
	lines := make([]string, len(open))
	for i, id := range open {
		snap, err := store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(id)})
		if err != nil {
			return nil, err
		}
		lines[i] = id + ": " + outstanding(snap)
	}
	return lines, nil
}

// outstanding says what an order waits for.
func outstanding(snap *jobstore.Snapshot) string {
	if snap.Job == nil {
		return "Takt does not have it"
	}
	state := snap.Job.State.String()
	if snap.Job.State.Clearable() {
		return state + ", its result or the answer to Clear has not come"
	}
	x := snap.Execution
	if x == nil {
		return state + ", its recipe has not begun"
	}
	var open []string
	for _, e := range x.Actions {
		switch e.State {
		case recipe.ActionDispatched:
			open = append(open, fmt.Sprintf("%s is not answered (%s, attempt %d)", e.Name, e.TypeID, e.Attempt))
		case recipe.ActionWaiting:
			open = append(open, fmt.Sprintf("%s waits for an event (%s)", e.Name, e.TypeID))
		}
	}
	if len(open) == 0 {
		return fmt.Sprintf("%s, at step %s", state, x.CurrentStep)
	}
	return state + ", " + strings.Join(open, "; ")
}

// finish waits until the publisher has caught up, checks what must agree, and makes the report from the logs. To an error of a demo
// that ended early it adds the orders that are outstanding.
func (d *demo) finish(ctx context.Context, runErr error) (*report, error) {
	r, err := makeReport(d.mesLog(), d.stationLog(), string(d.example.orders[0].Scope))
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	store, err := d.openStore(ctx)
	if err != nil {
		return r, errors.Join(runErr, err)
	}
	defer store.Close()
	if is[*endedEarly](runErr) {
		lines, err := d.waiting(ctx, store)
		if err != nil {
			return r, errors.Join(runErr, err)
		}
		runErr = fmt.Errorf("%w; outstanding are %d job orders%s", runErr, len(lines), strings.Join(append([]string{""}, lines...), "\n  "))
	}
	if runErr != nil && d.infra.external() {
		runErr = fmt.Errorf("%w\n%s", runErr, d.withdraw(ctx, store))
	}
	if runErr != nil {
		code := exitFailed
		if exit := (*exitError)(nil); errors.As(runErr, &exit) {
			code = exit.Code
		}
		runErr = &exitError{code, runErr}
	}
	d.progress.say("checking what must agree")
	violations, err := d.check(ctx, store)
	if err != nil {
		return r, errors.Join(runErr, err)
	}
	r.Violations = append(r.Violations, violations...)
	r.Store, r.Broker, r.Seconds = d.infra.Store, d.infra.Broker, time.Since(d.started).Seconds()
	return r, runErr
}

// openStore connects to the store to look at it.
func (d *demo) openStore(ctx context.Context) (*jobstore.Store, error) {
	o := d.storeOptions(d.infra.InProcess, d.log)
	o.Instance = "demo-check"
	return jobstore.Open(ctx, o)
}

// check is `takt check`, which gives what is just being done more time: ten seconds.
func (d *demo) check(ctx context.Context, store *jobstore.Store) ([]string, error) {
	conn, hangUp, err := d.dial(ctx, "takt-demo-check-"+randomHex(4))
	if err != nil {
		return nil, err
	}
	defer hangUp()
	violations, err := invariant.Standing(ctx, 100, 100*time.Millisecond, func() ([]invariant.Violation, error) {
		return checkAll(ctx, store, conn, d.publisherOptions(d.TopicPrefix, d.log), jobstore.CheckOptions{Grace: 5 * time.Second})
	})
	found := make([]string, len(violations))
	for i, v := range violations {
		found[i] = v.String()
	}
	return found, err
}

// progress is one line for a person, written over, or lines for a file.
type progress struct {
	mu     sync.Mutex
	out    io.Writer
	live   bool
	counts string
	status string
	last   time.Time
	late   *time.Timer // shows what came too soon after the line before; nil = nothing did
}

// progressEvery is the pause between two lines in a file.
const progressEvery = 500 * time.Millisecond

func newProgress(out io.Writer) *progress { return &progress{out: out, live: isTerminal(out)} }

func (p *progress) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, "\r\033[K")
	}
	fmt.Fprintln(p.out, what)
}

func (p *progress) say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = what
	p.show(true)
}

func (p *progress) count(counts string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = counts
	p.show(false)
}

// show writes the line; to a file at most twice a second, so that it stays readable. What is not written now is later: the
// last line of a demo that stands still says where. p.mu is held.
func (p *progress) show(always bool) {
	line := p.counts
	if p.status != "" {
		line += "  " + p.status
	}
	if p.live {
		fmt.Fprint(p.out, "\r\033[K"+line)
		return
	}
	wait := time.Until(p.last.Add(progressEvery))
	if wait > 0 && (!always || p.status == "") {
		if p.late == nil {
			p.late = time.AfterFunc(wait, p.catchUp)
		}
		return
	}
	p.forgetLate()
	p.last = time.Now()
	fmt.Fprintln(p.out, line)
}

func (p *progress) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late != nil {
		p.late = nil
		p.show(false)
	}
}

func (p *progress) forgetLate() {
	if p.late != nil {
		p.late.Stop()
		p.late = nil
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLate()
	if p.live {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
