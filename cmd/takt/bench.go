package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
)

type benchCmd struct {
	Jobs  benchJobsCmd  `cmd:"" help:"Whole job orders through MQTT and Redis: orders per second, latency of commands, round trips."`
	Tasks benchTasksCmd `cmd:"" help:"Tasks through Redis: submitting, running, latency, memory."`
	Board benchBoardCmd `cmd:"" help:"Job boards: posting, listing, claiming and consuming, handing over."`
}

type benchJobsCmd struct {
	ServeConfig
	N        int  `short:"n" help:"Job orders." must:"be 1 to 1000000" default:"2000"`
	Rate     int  `help:"Commands per second whose latency is measured." must:"be 1 to 20000" default:"500"`
	Stations int  `help:"Stations that the orders are spread over." must:"be 1 to 1000" default:"8"`
	InFlight int  `help:"Orders under way at once." must:"be 1 to 10000" default:"256"`
	JSON     bool `name:"json" help:"End with one JSON object instead of a table."`
}

func (c *benchJobsCmd) Run(ctx context.Context, a *app) error {
	if !a.given("log-level") {
		a.log = newLog(a.err, "warn", a.LogFormat)
	}
	c.SessionExpiry = 0 // this instance never comes back
	started := time.Now()
	cfg := *a.Config // with a prefix and topics of its own
	in, err := startInfra(ctx, &cfg, infraOptions{}, a.log)
	if err != nil {
		return err
	}
	defer in.stop()
	if in.InProcess {
		return &exitError{exitUsage, errors.New("no redis-server found: name one with --redis URL, for the store inside this process is not worth measuring")}
	}
	cfg.Prefix, cfg.TopicPrefix = cfg.Prefix+"-bench-"+randomHex(4), cfg.TopicPrefix+"-bench-"+randomHex(4)
	defer setGC()() // as in serve
	b := jobsRun{benchJobsCmd: c, app: a, cfg: &cfg, progress: newProgress(a.err), result: []byte(`{"ok":true}`), done: make(chan string, c.InFlight)}
	err = b.run(ctx)
	b.progress.end()
	if err != nil {
		return err
	}
	b.found.fact("store", in.Store).fact("broker", in.Broker).fact("orders", c.N).fact("seconds", time.Since(started).Seconds())
	return a.showBench(c.JSON, &b.found)
}

// benchFound is what was measured: the lines of the table, which are in the JSON object, too, and what only the object has.
type benchFound struct {
	rows  []benchRow
	facts map[string]any
}

type benchRow struct {
	title string
	value float64
	unit  string
}

// add takes a figure. key is its name in the JSON object.
func (f *benchFound) add(key, title string, value float64, unit string) {
	f.rows = append(f.rows, benchRow{title, value, unit})
	f.fact(key, value)
}

// fact takes what only the JSON object has.
func (f *benchFound) fact(key string, value any) *benchFound {
	if f.facts == nil {
		f.facts = map[string]any{}
	}
	f.facts[key] = value
	return f
}

func (a *app) showBench(asJSON bool, found *benchFound) error {
	if asJSON {
		return printJSON(a.out, found.facts)
	}
	t := newTable(a.out, "MEASURED", "VALUE", "")
	for _, row := range found.rows {
		t.row(row.title, bench.Number(row.value), row.unit)
	}
	return t.flush()
}

// benchServer starts a Redis, which runs until the command has ended, and sets url, unless url names one. kind is the program. next is the advice for a machine without one.
func (a *app) benchServer(ctx context.Context, url *string, next string) (kind string, err error) {
	if *url != "" {
		return "external", nil
	}
	server, err := bench.Open(ctx, "")
	if err != nil {
		return "", &exitError{exitUsage, fmt.Errorf("%w; %s", err, next)}
	}
	a.atEnd = append(a.atEnd, func() { _ = server.Close() }) // it ends with this process at the latest
	*url = server.URL
	return server.Kind, nil
}

// jobsRun is one run of the benchmark.
type jobsRun struct {
	*benchJobsCmd
	*app
	cfg      *Config
	progress *progress
	store    *jobstore.Store
	client   *mes.Client
	memory   mes.Memory  // of the MES; nil = one for each run
	result   []byte      // of each action
	first    int         // number of the first order
	done     chan string // ids of orders that were cleared
	served   bool        // by another process
	found    benchFound
}

const benchWorkMaster = "WM-BENCH"

func (b *jobsRun) scope(i int) isa95.Scope {
	return isa95.Scope(fmt.Sprintf("bench-%d", i%b.Stations))
}

func (b *jobsRun) run(ctx context.Context) error {
	store, err := b.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	parts := newGroup(ctx)
	defer func() {
		_ = parts.stop() // an error of a part is returned where it is met
		cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := errors.Join(b.forgetTopics(cleanCtx), store.Drop(cleanCtx)); err != nil {
			b.log.Warn("something of the benchmark may be left", "prefix", b.cfg.Prefix, "topics", b.cfg.TopicPrefix, "err", err)
		}
	}()
	if err := b.start(parts); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.configure, b.latency, b.wholeOrders} {
		if err := step(parts.ctx); err != nil {
			return errors.Join(parts.failed(), err)
		}
	}
	if err := parts.stop(); err != nil {
		return err
	}
	b.progress.say("counting round trips")
	perCommand, perAction, err := countTrips(ctx, b.cfg, b.log)
	b.found.add("redis_round_trips_per_command", "round trips per command", perCommand, "to Redis")
	b.found.add("redis_round_trips_per_action", "round trips per action", perAction, "to Redis, answer to commit")
	return err
}

// openStore connects the benchmark's own look at Redis.
func (b *jobsRun) openStore(ctx context.Context) (*jobstore.Store, error) {
	o := b.cfg.storeOptions(false, b.log)
	o.Instance = "bench-look"
	store, err := jobstore.Open(ctx, o)
	if err != nil {
		return nil, storeError(err)
	}
	b.store = store
	return store, nil
}

// start runs Takt, equipment that answers at once, and the MES.
func (b *jobsRun) start(parts *group) error {
	if !b.served {
		if err := parts.serve(parts.ctx, b.cfg, &b.ServeConfig, "bench-"+randomHex(4), false, b.log); err != nil {
			return err
		}
	}
	if err := b.startEquipment(parts); err != nil {
		return err
	}
	client, err := mes.New(mes.Options{MQTT: b.cfg.mqttOptions("takt-bench-mes-"+randomHex(4), 0, b.log), TopicPrefix: b.cfg.TopicPrefix, Log: b.log})
	if err != nil {
		return err
	}
	b.client = client
	parts.start("MES", client.Run)
	return client.Ready(parts.ctx)
}

func (b *jobsRun) startEquipment(parts *group) error {
	id := "takt-bench-station-" + randomHex(4)
	receive, noReceive := mqtt.New(b.cfg.mqttOptions(id, 0, b.log))
	publish, noPublish := mqtt.New(b.cfg.mqttOptions(id+"-pub", 0, b.log))
	if err := cmp.Or(noReceive, noPublish); err != nil {
		return err
	}
	server, err := mqtt.NewServer(receive, publish, mqtt.ServerOptions{
		Filters: []string{b.cfg.TopicPrefix + "/equipment/+/commands"}, Handler: atOnce{b.result}, Lane: laneOfCommand, Log: b.log,
	})
	if err != nil {
		return err
	}
	parts.start("equipment receives", receive.Run)
	parts.start("equipment publishes", publish.Run)
	parts.start("equipment", server.Run)
	return errors.Join(receive.Ready(parts.ctx), publish.Ready(parts.ctx))
}

// atOnce is equipment that has done everything before it was asked.
type atOnce struct{ result []byte }

func (a atOnce) Handle(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	reply := e.Reply(a.result, "", "urn:takt:bench", time.Now())
	return &reply, nil
}

func (atOnce) Refuse(context.Context, cloudevent.Event, *cloudevent.Error) *cloudevent.Event {
	return nil
}

// benchRecipe is four actions, one after the other.
func benchRecipe() []byte {
	return []byte(`{"Steps":[{"Name":"A","Initial":true},{"Name":"B"},{"Name":"C"},{"Name":"D"}],
"Transitions":[{"Source":"A","Target":"B","Condition":"always"},{"Source":"B","Target":"C","Condition":"always"},{"Source":"C","Target":"D","Condition":"always"}],
"Actions":[{"Name":"a","Step":"A","Qualifier":"N","Interaction":"push_command","TypeId":"bench.a.v1","TimeoutSeconds":60},
{"Name":"b","Step":"B","Qualifier":"N","Interaction":"push_command","TypeId":"bench.b.v1","TimeoutSeconds":60},
{"Name":"c","Step":"C","Qualifier":"N","Interaction":"push_command","TypeId":"bench.c.v1","TimeoutSeconds":60},
{"Name":"d","Step":"D","Qualifier":"N","Interaction":"push_command","TypeId":"bench.d.v1","TimeoutSeconds":60}]}`)
}

func (b *jobsRun) configure(ctx context.Context) error {
	for i := range b.Stations {
		wm := isa95.WorkMaster{ID: benchWorkMaster, Data: benchRecipe(), DataSchema: recipe.SchemaURI}
		if _, err := b.client.Apply(ctx, b.scope(i), isa95.ConfigWorkMaster, wm); err != nil {
			return err
		}
	}
	return nil
}

func benchOrder(id string) *isa95.JobOrder {
	return &isa95.JobOrder{JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: benchWorkMaster}}}
}

// latency sends Store commands at the rate, whether or not the ones before are answered, and cancels the orders afterwards.
func (b *jobsRun) latency(ctx context.Context) error {
	n := min(b.N, 5*b.Rate)
	warm := min(n/10+1, 100)
	b.progress.say(fmt.Sprintf("latency of %d commands at %d/s", n, b.Rate))
	took := make([]time.Duration, warm+n)
	errs := make([]error, warm+n)
	var wait sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(b.Rate))
	defer tick.Stop()
	var began time.Time
	for i := range took {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if i == warm {
			began = time.Now()
		}
		wait.Go(func() {
			sent := time.Now()
			_, errs[i] = b.client.Store(ctx, b.scope(i), benchOrder(fmt.Sprintf("L-%d", i)))
			took[i] = time.Since(sent)
		})
	}
	elapsed := time.Since(began)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	measured := took[warm:]
	at := func(q float64) float64 { return bench.Milliseconds(bench.Quantile(measured, q)) }
	rate := float64(n) / elapsed.Seconds() // that was reached
	b.found.add("command_p50_ms", "command, p50", at(0.5), fmt.Sprintf("ms at %.0f/s", rate))
	b.found.add("command_p99_ms", "command, p99", at(0.99), "ms")
	b.found.fact("command_max_ms", at(1)).fact("command_rate_per_s", rate).fact("latency_commands", n)
	return bench.ForEach(ctx, 64, len(took), func(ctx context.Context, i int) error {
		_, err := b.client.Cancel(ctx, b.scope(i), isa95.JobOrderID(fmt.Sprintf("L-%d", i)))
		return err
	})
}

// orderID is that of the i-th whole order of a run.
func (b *jobsRun) orderID(i int) string { return fmt.Sprintf("O-%d", b.first+i) }

// wholeOrders runs N orders from StoreAndStart to Clear.
func (b *jobsRun) wholeOrders(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("%d whole orders", b.N))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	following := make(chan error, 1)
	go func() {
		_, err := b.client.Follow(ctx, nil, mes.FollowOptions{
			Memory:   b.memory,
			Clear:    true,
			OnResult: func(context.Context, isa95.Scope, isa95.JobResponse) error { return nil },
			OnClear: func(_ isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
				select {
				case b.done <- string(id):
				case <-ctx.Done():
				}
			},
		})
		following <- err
	}()
	before, err := b.store.CommandsProcessed(ctx)
	if err != nil {
		return err
	}
	open := make(map[string]bool, b.N)
	for i := range b.N {
		open[b.orderID(i)] = true
	}
	began := time.Now()
	slots := make(chan struct{}, b.InFlight)
	sending := make(chan error, 1)
	go func() {
		sending <- bench.ForEach(ctx, 64, b.N, func(ctx context.Context, i int) error {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			_, err := b.client.StoreAndStart(ctx, b.scope(i), benchOrder(b.orderID(i)))
			return err
		})
	}()
	for len(open) > 0 {
		select {
		case id := <-b.done:
			if !open[id] { // an MES with a new memory clears again what it finds of the run before
				continue
			}
			delete(open, id)
			<-slots
			b.progress.count(fmt.Sprintf("%d/%d cleared", b.N-len(open), b.N))
		case err := <-sending:
			if err != nil {
				return err
			}
		case err := <-following:
			return errors.Join(errors.New("the MES stopped following"), err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	elapsed := time.Since(began)
	after, err := b.store.CommandsProcessed(ctx)
	if err != nil {
		return err
	}
	b.found.add("orders_per_s", "whole orders", float64(b.N)/elapsed.Seconds(), "per second")
	b.found.add("redis_commands_per_order", "Redis commands per order", float64(after-before)/float64(b.N), "inside scripts included")
	cancel()
	return <-following
}

// forgetTopics deletes what was retained.
func (b *jobsRun) forgetTopics(ctx context.Context) error {
	conn, hangUp, err := b.dialAs(ctx, b.cfg, "takt-bench-clean-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	retained, err := conn.Retained(ctx, b.cfg.TopicPrefix+"/#")
	for _, m := range retained {
		err = errors.Join(err, conn.Retain(ctx, m.Topic, nil, 0))
	}
	return err
}
